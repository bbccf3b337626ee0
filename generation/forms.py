"""What people type on the pages of generation, checked."""

import json
from collections.abc import Collection, Mapping
from typing import Any, Self

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from generation import benchmarks, importers, queries, services
from generation.errors import WrongPlan, WrongSetting
from generation.estimates import Estimate
from generation.jobs import MOST_CALLS, Job
from generation.llm.errors import KeyMissing, NotAllowed
from generation.models import VARIABLE, Draft, Endpoint, Sample, Source
from generation.recipe import ModelRole, Preset, TrapPlan
from review import nesting
from review.text import is_storable


def benchmark_choices() -> list[tuple[str, str]]:
    """(name, label) of every benchmark."""
    return [(name, gettext(benchmarks.recipe(name).label)) for name in benchmarks.names()]


def _formats() -> list[tuple[str, str]]:
    return [(name, importers.load(name).label) for name in importers.available()]


class ImportForm(forms.Form):
    """A file to be read into a source."""

    format = forms.ChoiceField(label=_("Format"), choices=_formats)
    name = forms.SlugField(
        label=_("Name of the source"),
        max_length=100,
        help_text=_(
            "Letters, digits and hyphens. An existing name adds the file to that source; nothing is added twice."
        ),
    )
    file = forms.FileField(label=_("File"), help_text=_("As its authors publish it, unpacked."))


class EndpointForm(forms.ModelForm[Endpoint]):
    """A model's address and settings."""

    url = forms.CharField(label=_("Base URL"), max_length=500, help_text=_("Up to and including /v1."))
    key_env = forms.RegexField(
        label=_("Variable that holds the key"),
        regex=VARIABLE,
        required=False,
        max_length=100,
        help_text=_(
            "The NAME of an environment variable of the server, never the key itself: MHB_KEY_... or one that the operator has "
            "listed. Empty: no key is sent."
        ),
        error_messages={
            "invalid": _("This is no name of a variable: capitals, digits and underscores. Not the key itself.")
        },
    )

    class Meta:
        model = Endpoint
        fields = [
            "name",
            "url",
            "model",
            "key_env",
            "temperature",
            "max_tokens",
            "price_in",
            "price_out",
            "concurrency",
            "rpm",
            "tpm",
            "timeout",
            "batches",
        ]
        labels = {
            "name": _("Name"),
            "model": _("Model"),
            "temperature": _("Temperature"),
            "max_tokens": _("Max. tokens"),
            "price_in": _("Price in"),
            "price_out": _("Price out"),
            "concurrency": _("Concurrency"),
            "rpm": _("Requests a minute"),
            "tpm": _("Tokens a minute"),
            "timeout": _("Time-out (s)"),
            "batches": _("Offers batches"),
        }
        help_texts = {
            "name": _("Letters, digits and hyphens; results name it."),
            "model": _("As the endpoint itself calls it."),
            "temperature": _("Empty: the model's own default."),
            "max_tokens": _("Empty: the model's own limit."),
            "price_in": _("Per million prompt tokens."),
            "price_out": _("Per million completion tokens."),
            "concurrency": _("Requests at the same time."),
            "batches": _("It speaks the batch protocol (files and batches): cheaper, and answered within a day."),
            "rpm": _("Empty: no limit."),
            "tpm": _("Prompt and completion together. Empty: no limit."),
        }

    def __init__(self, *args: Any, called: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["name"].disabled = self.instance.pk is not None
        for name in ("url", "model"):
            self.fields[name].disabled = called

    @property
    def key_state(self) -> str:
        """As the function of this name."""
        return key_state(self.instance)


def key_state(endpoint: Endpoint) -> str:
    """'set', 'missing' or 'refused' (by the operator) for the endpoint's variable on this server; '' for none."""
    if not endpoint.key_env:
        return ""
    try:
        settings.MHB_ENDPOINT_ACCESS.key(endpoint.key_env, endpoint.url)
    except KeyMissing:
        return "missing"
    except NotAllowed:
        return "refused"
    return "set"


class ChoiceOfWork(forms.Form):
    """What a batch is to be made of; its choice decides which roles are asked for."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    source = forms.ModelChoiceField(label=_("Source"), queryset=Source.objects.order_by("name"), to_field_name="name")


LAUNCH_KEY = "launch_key"  # a hidden field of the estimate's page, another each time: pressed twice it launches once


class BudgetForm(forms.Form):
    """What the calls of a job may cost, and how many there may be."""

    budget_money = forms.DecimalField(
        label=_("Budget: money"),
        required=False,
        min_value=0,
        max_digits=14,
        decimal_places=4,
        help_text=_("In the currency of the prices. No call is started once so much is spent. Empty: no limit."),
    )
    budget_calls = forms.IntegerField(
        label=_("Budget: calls"),
        required=False,
        min_value=0,
        max_value=MOST_CALLS,
        help_text=_("Retries and repairs count. Empty: no limit."),
    )

    @property
    def said(self) -> str:
        """What is wrong with it, in one line."""
        return " ".join(f"{self[name].label}: {' '.join(map(str, wrong))}" for name, wrong in self.errors.items())

    @classmethod
    def of(cls, job: Job) -> Self:
        """The budget of a job, to be changed."""
        return cls(initial={"budget_money": job.budget_money, "budget_calls": job.budget_calls})

    @classmethod
    def proposed(cls, estimate: Estimate, typed: Mapping[str, Any]) -> Self:
        """The budget that goes with an estimate: what was typed, else what is proposed."""
        given = {name: typed.get(name) for name in ("budget_money", "budget_calls")}
        if given == {"budget_money": None, "budget_calls": None}:
            given = {"budget_money": estimate.budget_money, "budget_calls": estimate.budget_calls}
        return cls(initial=given)


class SpendingForm(BudgetForm):
    """The part of a launch form that is about money. A launch is confirmed on a page that shows what it will come to."""

    fresh = forms.BooleanField(
        label=_("Ask anew what has been paid for already"),
        required=False,
        help_text=_("Otherwise a question that the same model has answered is not asked again."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("budget_money", "budget_calls"):
            self.fields[name].help_text = _("Where both are empty, the estimate on the next page proposes a budget.")

    @property
    def carried(self) -> list[tuple[str, str]]:
        """What was sent besides the budget, for the page of the estimate to send again."""
        if not isinstance(self.data, QueryDict):
            return []
        wanted = [name for name in self.fields if name not in BudgetForm.base_fields]
        return [(name, value) for name in wanted for value in self.data.getlist(name)]


PLAN_BYTES = 100_000
UNSTORABLE = _("This JSON holds a character that cannot be stored (NUL, or half of a surrogate pair).")


class ShallowJSON(forms.JSONField):
    """JSON that nests no deeper than JSON may here."""

    def to_python(self, value: Any) -> Any:
        try:
            nesting.check(value or "")
        except nesting.TooDeep:
            raise ValidationError(_("The JSON is nested too deeply.")) from None
        return super().to_python(value)


class LaunchForm(SpendingForm):
    """The endpoint for each role of a recipe, how many records, and how the samples are to be made."""

    preset = forms.ChoiceField(
        label=_("Preset"),
        required=False,
        widget=forms.RadioSelect,
        help_text=_(
            "The recipe's settings. They are kept with the batch, and its later versions are made with them, too."
        ),
    )
    changes = ShallowJSON(
        label=_("Other values"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono", "spellcheck": "false"}),
        help_text=_('Values of the preset that are to be others, as JSON, for example {"%(name)s": %(value)s}.'),
    )
    limit = forms.IntegerField(
        label=_("At most so many records"), min_value=1, required=False, help_text=_("Empty: all that are left.")
    )
    plan = forms.ChoiceField(
        label=_("Trap plan"), required=False, help_text=_("A wish to the generator; the record decides what fits.")
    )
    plan_file = forms.FileField(
        label=_("A plan of your own"),
        required=False,
        help_text=_('JSON, for example {"A1": 30, "C": 20}. It takes the place of the plan above.'),
    )
    plan_text = forms.CharField(required=False, max_length=PLAN_BYTES, widget=forms.HiddenInput)  # the file, once read
    prompts = forms.ChoiceField(label=_("Prompts"), required=False)
    compare = forms.ChoiceField(
        label=_("Compare with"), required=False, help_text=_("A second batch over the same records with other prompts.")
    )
    skip = forms.MultipleChoiceField(
        label=_("Leave out these checks"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("All others are made before physicians see a sample."),
    )

    def __init__(self, *args: Any, benchmark: str, kinds: Collection[str], **kwargs: Any) -> None:
        """`kinds` of the records that are left; only the roles that these need are asked for."""
        super().__init__(*args, **kwargs)
        self._benchmark, self._file_text = benchmark, ""
        recipe = benchmarks.recipe(benchmark)
        needed = benchmarks.roles_for(benchmark, kinds or recipe.kinds)
        for role in needed:
            self.fields[f"role-{role.name}"] = forms.ModelChoiceField(
                label=gettext(role.label),
                queryset=Endpoint.objects.all(),
                to_field_name="name",
                required=not (role.default or role.optional),
                empty_label=_unchosen(role),
            )
        presets = [(preset.name, _preset_choice(preset)) for preset in recipe.presets]
        plans = [(plan.name, plan.name) for plan in recipe.plans]
        sets = [("", _("the usual ones")), *((name, name) for name in recipe.prompt_sets)]
        checks = [
            (name, gettext(benchmarks.check_label(benchmark, name))) for name in benchmarks.check_names(benchmark)
        ]
        self._offer("preset", presets, some=bool(presets))
        if presets:
            self.fields["preset"].initial = presets[0][0]
            name, value = next(iter(recipe.presets[0].values.items()), ("…", "…"))
            said = self.fields["changes"].help_text % {"name": name, "value": json.dumps(value)}
            self.fields["changes"].help_text = said
        else:
            del self.fields["changes"]
        self._offer("plan", [*plans, (benchmarks.NO_PLAN, _("none"))], some=bool(plans))
        if not any(term.parent for term in queries.terms(benchmark)):  # a plan is dealt out to subtypes
            del self.fields["plan_file"], self.fields["plan_text"]
        self._offer("prompts", sets, some=len(sets) > 1)
        against = [(f"={name}", label) for name, label in sets]
        self._offer("compare", [("", _("nothing")), *against], some=len(sets) > 1)
        self._offer("skip", checks, some=bool(checks))
        roles = [f"role-{role.name}" for role in needed]
        self.order_fields(
            [
                *roles,
                "preset",
                "changes",
                "limit",
                "plan",
                "plan_file",
                "prompts",
                "compare",
                "skip",
                *SpendingForm.base_fields,
            ]
        )

    def _offer(self, name: str, choices: list[Any], *, some: bool) -> None:
        if some:
            self.fields[name].choices = choices  # type: ignore[attr-defined]
        else:
            del self.fields[name]

    def clean_plan_file(self) -> TrapPlan | None:
        """The plan in the file. Raises ValidationError with what is wrong with it."""
        file = self.cleaned_data["plan_file"]
        if file is None:
            return None
        try:
            if file.size > PLAN_BYTES:
                raise ValueError
            self._file_text = file.read().decode("utf-8-sig")
        except ValueError as mistake:
            raise ValidationError(_("This file is no JSON.")) from mistake
        return self._read_plan(self._file_text)

    def clean_plan_text(self) -> TrapPlan | None:
        """The plan of the file that came before the estimate. Raises ValidationError where it was changed on its way."""
        text = self.cleaned_data["plan_text"]
        return self._read_plan(text) if text else None

    def clean_changes(self) -> dict[str, Any]:
        """The values that are to be others. Raises ValidationError where the preset has no such."""
        changes = self.cleaned_data["changes"] or {}
        if not is_storable(changes):
            raise ValidationError(UNSTORABLE)
        if not isinstance(changes, dict):
            raise ValidationError(_("Write an object: names with their values."))
        try:
            benchmarks.settings_of(self._benchmark, self.cleaned_data.get("preset", ""), changes)
        except WrongSetting as mistake:
            raise ValidationError(str(mistake)) from mistake
        return changes

    def _read_plan(self, text: str) -> TrapPlan | None:
        try:
            plan = nesting.loads(text)
            if not is_storable(plan):
                raise ValidationError(UNSTORABLE)
            return benchmarks.plan_of(self._benchmark, plan)
        except WrongPlan as mistake:
            raise ValidationError(str(mistake)) from mistake
        except ValueError as mistake:
            raise ValidationError(_("This file is no JSON.")) from mistake

    @property
    def carried(self) -> list[tuple[str, str]]:
        """What was sent besides the budget; of a plan in a file, its text."""
        found = [(name, value) for name, value in super().carried if name != "plan_text" or not self._file_text]
        return [*found, ("plan_text", self._file_text)] if self._file_text else found

    @property
    def wants_endpoint(self) -> bool:
        """Whether some role must have one."""
        return any(field.required for name, field in self.fields.items() if name.startswith("role-"))

    @property
    def roles(self) -> Mapping[str, Endpoint]:
        """The endpoints by role, of a valid form."""
        chosen = self.cleaned_data.items()
        return {
            name.removeprefix("role-"): endpoint for name, endpoint in chosen if name.startswith("role-") and endpoint
        }

    @property
    def setting(self) -> services.Setting:
        """How the batch is to be made, of a valid form."""
        data = self.cleaned_data
        plan = data.get("plan_file") or data.get("plan_text") or benchmarks.plan(self._benchmark, data.get("plan", ""))
        checks = [name for name in benchmarks.check_names(self._benchmark) if name not in data.get("skip", ())]
        spending = {name: data[name] for name in SpendingForm.base_fields}
        made = {name: data.get(name, "") for name in ("prompts", "preset")}
        changes = data.get("changes") or {}
        return services.Setting(plan=plan, checks=checks, changes=changes, **made, **spending)

    @property
    def compared_with(self) -> str | None:
        """The other set of prompts; None where nothing is compared."""
        said: str = self.cleaned_data.get("compare", "")
        return said[1:] if said else None


def _unchosen(role: ModelRole) -> str:
    """What it means to choose no endpoint for a role."""
    if role.default:
        return gettext("as the role %(role)s") % {"role": role.default}
    return gettext("none: the recipe can do without") if role.optional else "---------"


def _preset_choice(preset: Preset) -> SafeString:
    label, rule = gettext(preset.label), gettext(preset.rule)
    return format_html("<span><strong>{}</strong><br><span class='quiet'>{}</span></span>", label, rule)


class DecisionForm(forms.Form):
    """Why a stopped draft is let through or discarded."""

    reason = forms.CharField(label=_("Reason"), max_length=2_000, widget=forms.Textarea(attrs={"rows": 3}))


class FindingFilters(forms.Form):
    """Which findings to list; what is not understood is left out."""

    check = forms.ChoiceField(label=_("Check"), required=False)
    state = forms.ChoiceField(label=_("State"), required=False, choices=[("", _("all")), *Draft.Gate.choices])

    def __init__(self, *args: Any, benchmark: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = [(name, gettext(benchmarks.check_label(benchmark, name))) for name in benchmarks.check_names(benchmark)]
        self.fields["check"].choices = [("", _("all")), *names]  # type: ignore[attr-defined]

    @property
    def wanted(self) -> dict[str, str]:
        """The filters that were understood, by the names of `queries.findings`."""
        return {name: value for name, value in self.cleaned_data.items() if value}


class AttemptFilters(forms.Form):
    """By what the attempts are counted."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    by = forms.MultipleChoiceField(
        label=_("By"),
        choices=[("trap", _("trap")), ("prompt", _("prompt")), ("generator", _("generator"))],
        widget=forms.CheckboxSelectMultiple,
    )


class SampleFilters(forms.Form):
    """Which samples to list; what is not understood is left out."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), required=False)
    task = forms.ChoiceField(label=_("Task"), required=False)
    status = forms.ChoiceField(label=_("Status"), required=False, choices=[("", _("all")), *Sample.Status.choices])
    text = forms.CharField(label=_("Text"), required=False, widget=forms.SearchInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tasks = [(task, task) for task in queries.sample_tasks()]
        self.fields["benchmark"].choices = [("", _("all")), *benchmark_choices()]  # type: ignore[attr-defined]
        self.fields["task"].choices = [("", _("all")), *tasks]  # type: ignore[attr-defined]


class FreezeForm(forms.Form):
    """A release to be frozen."""

    name = forms.SlugField(
        label=_("Name"),
        max_length=100,
        help_text=_("Letters, digits and hyphens. A name that exists gets its next version."),
    )
    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
