"""The forms of run pages."""

from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from evaluation import registry
from evaluation.models import Run
from evaluation.numbers.rules import COMBINED
from evaluation.policies import POLICIES
from evaluation.protocol import Protocol
from evaluation.reports.comparison_lines import rule_label, rule_names
from evaluation.runs import plan, queries
from evaluation.runs.settings import RunSettings
from generation.jobs.forms import BUDGET, SpendingForm
from generation.models import Endpoint, Release
from generation.prompts import queries as prompts_queries
from review.common.lists import Filters, any_of
from review.common.row_fields import RowsField
from review.rules.text import whole_number

OUTCOME = "outcome-"  # before the name of an outcome: the field of its rule


class ReleaseField(forms.ModelChoiceField[Release]):
    """A choice of releases, labelled with their size, which determines the cost of a run."""

    def label_from_instance(self, obj: Release) -> str:
        samples = ngettext("%(n)d sample", "%(n)d samples", obj.samples_count) % {"n": obj.samples_count}
        rubrics = ngettext("%(n)d rubric", "%(n)d rubrics", obj.rubrics_count) % {"n": obj.rubrics_count}
        return f"{obj} ({samples}, {rubrics})"


def _released() -> list[tuple[str, Protocol]]:
    """The protocol of each benchmark that has a release."""
    names = Release.objects.order_by("benchmark").values_list("benchmark", flat=True).distinct()
    return [(name, registry.protocol(name)) for name in names]


class RunFilters(Filters):
    """Which runs to list."""

    text = forms.CharField(label=_("Release, study, model or judge"), required=False, widget=forms.SearchInput)
    benchmark = any_of(_("Benchmark"), lambda: [(name, gettext(each.label)) for name, each in _released()])
    status = any_of(_("Status"), lambda: Run.Status.choices)


COLUMNS = [
    ("release", _("Release")),
    ("models", _("Models")),
    ("judge", _("Judge")),
    ("status", _("Status")),
    ("rate", _("Rate")),
    ("note", _("Note")),
    ("cost", _("Cost")),
    ("launched", _("Launched")),
]
USUAL_COLUMNS = [name for name, _label in COLUMNS if name != "note"]
KEPT_COLUMNS = "run-columns"  # in the session


def chosen_columns(request: HttpRequest) -> list[str]:
    """The columns of the list of runs: as asked by `?columns=`, which is kept, or as kept."""
    if "columns" in request.GET:
        asked = request.GET.getlist("columns")
        request.session[KEPT_COLUMNS] = [name for name, _label in COLUMNS if name in asked]
    kept: list[str] = request.session.get(KEPT_COLUMNS, USUAL_COLUMNS)
    return kept


class DescriptionForm(forms.Form):
    """What people call a run, and what they want to remember about it."""

    title = forms.CharField(label=_("Title"), max_length=120, required=False)
    note = forms.CharField(label=_("Note"), max_length=2000, required=False, widget=forms.Textarea(attrs={"rows": 3}))


class RunForm(SpendingForm):
    """The settings of a run: release, models under test, judges and plan."""

    settings_class = RunSettings
    records_title = _("Release")
    omitted = (*BUDGET, "outcomes", "comparisons")  # the last two are asked for by selects
    shown = ("datasets", "preset", "primary_dataset", "policies")

    release = ReleaseField(queryset=Release.objects.order_by("-pk"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["judge"].required = True  # unless code reads the answers
        self.chosen = self._release()
        self._adapt(self.chosen)

    def _release(self) -> Release | None:
        """The chosen release, as far as it can be read before validation."""
        if self.is_bound:
            value = self.data.get("release")
        else:
            value = self.initial.get("release")
        if isinstance(value, Release):
            return value
        return Release.objects.filter(pk=whole_number(str(value or "")) or 0).first()

    def _adapt(self, release: Release | None) -> None:
        """Adapt fields and choices to the benchmark of this release."""
        self.fields["judge_temperature"].help_text = _temperature_help()
        self._add_pairs()
        if release is None:
            for name in ("datasets", "seed", "prompts", "preset", "primary_dataset", "policies", "policy_samples"):
                del self.fields[name]
            return
        protocol, datasets = registry.protocol(release.benchmark), queries.data_sets_in(release)
        names = [(dataset.name, gettext(dataset.label)) for dataset in datasets]
        in_variants = any(dataset.variant for dataset in datasets)
        self._offer("datasets", names, is_offered=in_variants)
        texts = [(name, gettext(POLICIES[name].label)) for name in protocol.policies]
        self._offer("policies", texts, is_offered=bool(texts))
        if not texts:
            del self.fields["policy_samples"]
        if not in_variants:
            del self.fields["seed"]
        own = prompts_queries.choices(release.benchmark)
        sets = [("", gettext("default prompts")), *zip(own, own, strict=True)]
        self._offer("prompts", sets, is_offered=bool(own))
        presets = [(name, gettext(preset.label)) for name, preset in protocol.presets.items()]
        self._offer("preset", presets, is_offered=bool(presets))
        metrics = [(rate.name, gettext(rate.label)) for rate in protocol.rates]
        if presets:
            metrics.insert(0, ("", gettext("Set by the counting rules")))
        self._offer("metric", metrics)
        pooled = []
        if protocol.pooled:
            pooled = [(COMBINED, gettext("Combined"))]
        primary = [("", gettext("All data sets as one family")), *names, *pooled]
        self._offer("primary_dataset", primary, is_offered=len(datasets) > 1)
        for outcome, label in rule_names(protocol):
            rules = [(rule, rule_label(rule, protocol)) for rule in plan.known_rules(protocol, outcome)]
            choices = [("", gettext("By the counting rules")), *rules]
            self.fields[OUTCOME + outcome] = forms.ChoiceField(label=label, choices=choices, required=False)
        if protocol.judge is None:
            for name in ("judge", "further_judges", "panel", "judgments", "judge_temperature", "judging"):
                del self.fields[name]

    def _add_pairs(self) -> None:
        """Ask for the planned comparisons by rows of two selects."""
        choices = [("", "---------"), *Endpoint.objects.usable().values_list("name", "name")]
        self.fields["comparisons"] = RowsField(
            {
                "first": forms.ChoiceField(label=gettext("First model"), choices=choices),
                "second": forms.ChoiceField(label=gettext("Second model"), choices=choices),
            },
            label=gettext("Planned comparisons"),
            help_text=gettext("Leave all empty to compare every pair."),
        )

    def get_initial_for_field(self, field: forms.Field, field_name: str) -> Any:
        """The initial value of a field; rules and comparisons from the lists that a launch has."""
        if field_name.startswith(OUTCOME):
            rules = dict([rule.split("=", 1) for rule in self.initial.get("outcomes", ())])
            return rules.get(field_name.removeprefix(OUTCOME), "")
        if field_name == "comparisons":
            return [pair.split(":") for pair in self.initial.get("comparisons", ())]
        return super().get_initial_for_field(field, field_name)

    def clean(self) -> dict[str, Any]:
        """Gather the rules that differ, and the planned comparisons."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        outcomes = []
        for name in self.fields:
            if name.startswith(OUTCOME) and data.get(name):
                outcomes.append(f"{name.removeprefix(OUTCOME)}={data[name]}")
        comparisons = [":".join(pair) for pair in data.get("comparisons", ())]
        return {**data, "outcomes": outcomes, "comparisons": comparisons}


def _temperature_help() -> str:
    """The help text with the published temperature of each benchmark that has a release."""
    published = []
    for _name, protocol in _released():
        if protocol.judge_temperature is not None:
            published.append(f"{gettext(protocol.label)}: {protocol.judge_temperature}")
    text = gettext("Leave empty for the published setting (%(settings)s).") % {"settings": "; ".join(published) or "–"}
    # Not inline: xgettext does not read f-strings.
    note = gettext("A temperature set on the judge's endpoint is used only where none is published.")
    return f"{text} {note}"
