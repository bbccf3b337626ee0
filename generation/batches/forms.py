"""Forms of the pages on batches."""

import json
from collections.abc import Collection
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from generation.batches import launch
from generation.batches import queries as batches_queries
from generation.batches.draw import FIELDS, FIRST, RANDOM, STRATIFIED, draw_fields, parse_where
from generation.common.fields import ShallowJSON
from generation.errors import WrongDraw, WrongPlan, WrongSetting
from generation.jobs.endpoint_choices import EndpointChoice, EndpointChoices
from generation.jobs.forms import SpendingForm
from generation.models import Source
from generation.prompts import queries as prompts_queries
from generation.recipes import registry
from generation.recipes.forms import benchmark_choices
from generation.recipes.recipe import ModelRole, Preset, TrapPlan
from generation.samples import queries
from review.rules import json_nesting
from review.rules.text import is_storable


class BenchmarkAndSourceForm(forms.Form):
    """The benchmark and source of a new batch; they decide which roles the launch form asks for."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    source = forms.ModelChoiceField(label=_("Source"), queryset=Source.objects.order_by("name"), to_field_name="name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        benchmark = str(self["benchmark"].value() or "")
        left = batches_queries.unused_by_source(benchmark) if benchmark in dict(benchmark_choices()) else {}
        self.fields["source"].label_from_instance = (  # type: ignore[attr-defined]
            lambda source: _with_records_left(source, left.get(source.pk, 0))
        )


def _with_records_left(source: Source, left: int) -> str:
    """A source and how many of its records the benchmark has not used yet."""
    return ngettext("%(source)s (%(n)s record left)", "%(source)s (%(n)s records left)", left) % {
        "source": source.name,
        "n": number_format(left, force_grouping=True),
    }


PLAN_BYTES = 100_000
SEVERAL_HELP = _("Choose one or more. Each record gets one draft per endpoint.")
UNSTORABLE = _("This JSON contains a character that cannot be stored (NUL, or half of a surrogate pair). Remove it.")


class BatchForm(SpendingForm):
    """The endpoint for each role of a recipe, the record limit, and how to make samples."""

    settings_class = launch.BatchSettings
    omitted = ("benchmark", "source", "roles", "further_endpoints", "checks")
    shown = ("preset", "limit", "plan")
    also_records = ("stratify_by", "plan_file", "plan_text")

    changes = ShallowJSON(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono", "spellcheck": "false"}),
        help_text=_('Override preset values, as JSON. For example: {"%(name)s": %(value)s}.'),
    )
    draw = forms.ChoiceField(
        required=False,
        choices=[
            (FIRST, _("in order of import")),
            (RANDOM, _("drawn at random")),
            (STRATIFIED, _("drawn at random, in proportion to the values of a field")),
        ],
    )
    stratify_by = forms.ChoiceField(
        label=_("Field for strata"), required=False, help_text=_("Only used by a draw in proportion to a field.")
    )
    where = forms.CharField(
        required=False,
        max_length=5_000,
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono", "spellcheck": "false"}),
        help_text=_("One FIELD=VALUE on each line. Fields: %(fields)s. Write unknown where a record has no value."),
    )
    plan = forms.ChoiceField(
        required=False,
        help_text=_("A preference for the generator. The record decides which traps fit."),
    )
    plan_file = forms.FileField(
        label=_("Custom plan"),
        required=False,
        help_text=_('JSON, for example {"A1": 30, "C": 20}. It replaces the plan above.'),
    )
    # The text of the plan file, carried from the estimate to the launch.
    plan_text = forms.CharField(required=False, max_length=PLAN_BYTES, widget=forms.HiddenInput)
    compare = forms.ChoiceField(
        required=False,
        help_text=_("Runs a second batch over the same records with different prompts."),
    )
    skip = forms.MultipleChoiceField(
        label=_("Skip these checks"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("All other checks run before physicians see a sample."),
    )

    def __init__(self, *args: Any, benchmark: str, source: Source, kinds: Collection[str], **kwargs: Any) -> None:
        """`kinds`: the kinds of the unused records; only the roles that these need are offered."""
        super().__init__(*args, **kwargs)
        self._benchmark, self._source, self._file_text = benchmark, source, ""
        recipe = registry.recipe(benchmark)
        needed = registry.roles_for(benchmark, kinds or recipe.kinds)
        for role in needed:
            required = not (role.default or role.optional or role.checks)
            options: dict[str, Any] = {"label": gettext(role.label), "required": required}
            self.fields[f"role-{role.name}"] = (
                EndpointChoices(help_text=SEVERAL_HELP, **options)
                if role.multiple
                else EndpointChoice(empty_label=_empty_label(benchmark, role), **options)
            )
        known = draw_fields(source)
        self.fields["stratify_by"].choices = [(name, name) for name in known]  # type: ignore[attr-defined]
        self.fields["where"].help_text = self.fields["where"].help_text % {"fields": ", ".join(known)}
        presets = [(preset.name, _preset_choice(preset)) for preset in recipe.presets]
        plans = [(plan.name, plan.name) for plan in recipe.plans]
        named = [*recipe.prompt_sets, *prompts_queries.choices(benchmark)]
        sets = [("", _("default prompts")), *((name, name) for name in named)]
        checks = [(name, gettext(registry.check_label(benchmark, name))) for name in registry.check_names(benchmark)]
        self._offer("preset", presets, is_offered=bool(presets))
        if presets:
            preset = cast("forms.ChoiceField", self.fields["preset"])
            preset.initial, preset.widget = presets[0][0], forms.RadioSelect(choices=presets)
            name, value = next(iter(recipe.presets[0].values.items()), ("…", "…"))
            help_text = self.fields["changes"].help_text % {"name": name, "value": json.dumps(value)}
            self.fields["changes"].help_text = help_text
        else:
            del self.fields["changes"]
        self._offer("plan", [*plans, (registry.NO_PLAN, _("none"))], is_offered=bool(plans))
        if not any(term.parent for term in queries.terms(benchmark)):  # a plan is distributed over subtypes
            del self.fields["plan_file"], self.fields["plan_text"]
        self._offer("prompts", sets, is_offered=len(sets) > 1)
        compare_choices = [(f"={name}", label) for name, label in sets]
        self._offer("compare", [("", _("nothing")), *compare_choices], is_offered=len(sets) > 1)
        self._offer("skip", checks, is_offered=bool(checks))
        roles = [f"role-{role.name}" for role in needed]
        self.order_fields(
            [
                *roles,
                "one_model",
                "preset",
                "changes",
                "limit",
                "draw",
                "stratify_by",
                "seed",
                "where",
                "plan",
                "plan_file",
                "prompts",
                "compare",
                "skip",
            ]
        )

    def _offer(self, name: str, choices: list[Any], *, is_offered: bool) -> None:
        if is_offered:
            self.fields[name].choices = choices  # type: ignore[attr-defined]
        else:
            del self.fields[name]

    def clean_plan_file(self) -> TrapPlan | None:
        """Parse the plan file. Raises ValidationError if it is invalid."""
        file = self.cleaned_data["plan_file"]
        if file is None:
            return None
        try:
            if file.size > PLAN_BYTES:
                raise ValueError
            self._file_text = file.read().decode("utf-8-sig")
        except ValueError as mistake:
            raise ValidationError(_("This file is not valid JSON.")) from mistake
        return self._read_plan(self._file_text)

    def clean_plan_text(self) -> TrapPlan | None:
        """Parse the plan file's text, carried over from before the estimate.

        Raises ValidationError if it was altered on its way.
        """
        text = self.cleaned_data["plan_text"]
        return self._read_plan(text) if text else None

    def clean_where(self) -> dict[str, list[str]]:
        """Parse the filter. Raises ValidationError for a malformed line."""
        lines = [line for line in self.cleaned_data["where"].splitlines() if line.strip()]
        try:
            return parse_where(lines)
        except WrongDraw as mistake:
            raise ValidationError(str(mistake)) from mistake

    def clean_changes(self) -> dict[str, Any]:
        """The overrides. Raises ValidationError for a name that the preset does not have."""
        changes = self.cleaned_data["changes"] or {}
        if not is_storable(changes):
            raise ValidationError(UNSTORABLE)
        if not isinstance(changes, dict):
            raise ValidationError(_("Enter a JSON object: setting names with their values."))
        try:
            registry.resolve_settings(self._benchmark, self.cleaned_data.get("preset", ""), changes)
        except WrongSetting as mistake:
            raise ValidationError(str(mistake)) from mistake
        return changes

    def _read_plan(self, text: str) -> TrapPlan | None:
        try:
            plan = json_nesting.loads(text)
            if not is_storable(plan):
                raise ValidationError(UNSTORABLE)
            return registry.resolve_plan(self._benchmark, plan)
        except WrongPlan as mistake:
            raise ValidationError(str(mistake)) from mistake
        except ValueError as mistake:
            raise ValidationError(_("This file is not valid JSON.")) from mistake

    def _is_folded(self, name: str) -> bool:
        return super()._is_folded(name) and not name.startswith("role-")

    @property
    def carried(self) -> list[tuple[str, str]]:
        """The submitted values without the budget; a plan file is carried as its text."""
        pairs = [(name, value) for name, value in super().carried if name != "plan_text" or not self._file_text]
        return [*pairs, ("plan_text", self._file_text)] if self._file_text else pairs

    @property
    def needs_endpoint(self) -> bool:
        """Whether any role must have an endpoint."""
        return any(field.required for name, field in self.fields.items() if name.startswith("role-"))

    @property
    def settings(self) -> launch.BatchSettings:
        """The settings to launch; only for a valid form."""
        data = self.cleaned_data
        plan = data.get("plan_file") or data.get("plan_text") or registry.plan(self._benchmark, data.get("plan", ""))
        checks = [name for name in registry.check_names(self._benchmark) if name not in data.get("skip", ())]
        compare: str = data.get("compare", "")
        endpoints = {
            name.removeprefix("role-"): endpoint
            for name, endpoint in data.items()
            if name.startswith("role-") and endpoint
        }
        several = registry.recipe(self._benchmark).multiple_role
        first, *further_endpoints = endpoints.pop(several, None) or [None]
        draw = f"{STRATIFIED}:{data['stratify_by'] or FIELDS[0]}" if data["draw"] == STRATIFIED else data["draw"]
        return launch.BatchSettings(
            **self.values
            | {
                "benchmark": self._benchmark,
                "source": self._source,
                "roles": endpoints if first is None else {**endpoints, several: first},
                "further_endpoints": further_endpoints,
                "draw": draw,
                "where": data["where"],
                "plan": plan,
                "compare": compare[1:] if compare else None,
                "changes": data.get("changes") or {},
                "checks": checks,
            }
        )


def _empty_label(benchmark: str, role: ModelRole) -> str:
    """The label for choosing no endpoint for a role."""
    if role.default:
        return gettext("same as role %(role)s") % {"role": registry.role_name(benchmark, role.default)}
    return gettext("none (this role is optional)") if role.optional else "---------"


def _preset_choice(preset: Preset) -> SafeString:
    label, rule = gettext(preset.label), gettext(preset.rule)
    return format_html("<span><strong>{}</strong><br><span class='quiet'>{}</span></span>", label, rule)
