"""The form to freeze a release, and the filters of released samples."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from generation.jobs.endpoint_choices import Picks
from generation.jobs.forms import SettingsForm
from generation.models import Batch, Release, ReleasedSample, Sample, SampleVersion, Source
from generation.recipes.configuration import configurations
from generation.recipes.forms import benchmark_choices
from generation.recipes.registry import names
from generation.releases.freezing.card_fields import CARD_FIELDS, MOST
from generation.releases.freezing.composition import Composition
from generation.samples.queries import sample_tasks
from generation.templatetags.work import facet_label, facet_value
from review.common.lists import ALL, Filters, any_of
from review.labels import benchmark_label, language_label, task_label


def _batches() -> list[tuple[int, str]]:
    """The batches with samples, newest first."""
    rows = Batch.objects.filter(Exists(Sample.objects.filter(batch=OuterRef("pk")))).order_by("-pk")
    choices = []
    for pk, benchmark, source in rows.values_list("pk", "benchmark", "source__name"):
        number = gettext("Batch %(n)s") % {"n": pk}
        choices.append((pk, " · ".join([number, benchmark_label(benchmark), source])))
    return choices


def _languages() -> list[tuple[str, Any]]:
    versions = SampleVersion.objects.order_by("case__language")
    codes = versions.values_list("case__language", flat=True).distinct()
    return [(code, language_label(code)) for code in codes]


def _configurations() -> list[tuple[str, Any]]:
    labels: dict[str, Any] = {"": _("All samples")}
    for benchmark in names():
        for offered in configurations(benchmark):
            labels[offered.name] = " · ".join([benchmark_label(benchmark), gettext(offered.label)])
    return list(labels.items())


_LINES = forms.Textarea(attrs={"rows": 2})


def _card_field(name: str) -> forms.CharField:
    label, help_text = CARD_FIELDS[name]
    return forms.CharField(label=label, help_text=help_text, max_length=MOST, required=False, widget=_LINES)


class ReleaseFilters(Filters):
    """Which releases to list."""

    text = forms.CharField(label=_("Name"), required=False, max_length=100, widget=forms.SearchInput)
    benchmark = any_of(_("Benchmark"), benchmark_choices)


class ReleasedFilters(Filters):
    """Which samples of a release to list."""

    text = forms.CharField(label=_("Key, title or criterion"), required=False, max_length=200, widget=forms.SearchInput)
    task = forms.ChoiceField(label=_("Task"), required=False)
    facet = forms.ChoiceField(label=_("Property"), required=False)
    split = forms.ChoiceField(label=_("Split"), required=False, choices=[ALL, *ReleasedSample.Split.choices])

    def __init__(self, data: Mapping[str, Any], release: Release, *, with_held_out: bool) -> None:
        self._release, self._with_held_out = release, with_held_out and release.held_out_count
        super().__init__(data)

    def full_clean(self) -> None:
        benchmark, counts = self._release.benchmark, self._release.counts
        self._offer("task", [(task, task_label(task)) for task in counts["task"]], is_offered=len(counts["task"]) > 1)
        facets = []
        for name, values in counts.items():
            if name != "task":
                choices = [(f"{name}={value}", facet_value(benchmark, name, value)) for value in values]
                facets.append((facet_label(benchmark, name), choices))
        self._offer("facet", facets, is_offered=bool(facets))
        if not self._with_held_out:
            del self.fields["split"]
        super().full_clean()

    def _offer(self, name: str, choices: list[Any], *, is_offered: bool) -> None:
        if is_offered:
            self.fields[name].choices = [ALL, *choices]  # type: ignore[attr-defined]
        else:
            del self.fields[name]


class FreezeForm(SettingsForm):
    """A release to freeze."""

    settings_class = Composition
    omitted = ("where",)  # asked for by fields of their own
    field_order = ("name", "benchmark", "batches", "source", "task", "language", "simulated")

    name = forms.SlugField(
        label=_("Name"),
        max_length=100,
        error_messages={"invalid": _("Use letters, digits, hyphens and underscores only, without spaces.")},
        help_text=_("Use letters, digits and hyphens. With an existing name, the next version is created."),
    )
    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    batches = forms.TypedMultipleChoiceField(
        choices=_batches,
        coerce=int,
        required=False,
        widget=Picks,
        help_text=_("Choose none for all."),
    )
    source = any_of(_("Source"), lambda: [(row.name, row.name) for row in Source.objects.order_by("name")])
    task = any_of(_("Task"), lambda: [(task, task_label(task)) for task in sample_tasks()])
    language = any_of(_("Language"), _languages)
    simulated = forms.ChoiceField(
        label=_("Simulated samples"),
        required=False,
        choices=[
            ("", _("Do not mix")),
            ("no", _("Leave out")),
            ("yes", _("Only these")),
            ("any", _("Mix with the others")),
        ],
        help_text=_("Samples written by a simulated model or reviewed by a simulated physician."),
    )
    configuration = forms.ChoiceField(choices=_configurations, required=False)
    card_motivation = _card_field("motivation")
    card_funding = _card_field("funding")
    card_ethics = _card_field("ethics")
    card_pay = _card_field("pay")
    card_maintenance = _card_field("maintenance")
    card_citation = _card_field("citation")
    card_biases = _card_field("biases")
    # The counts that the preview showed; empty before the first preview.
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def chosen(self) -> list[forms.BoundField]:
        """The fields that say what goes in."""
        return [field for field in self if not field.name.startswith("card_")]

    @property
    def about(self) -> list[forms.BoundField]:
        """The fields for the data card."""
        return [field for field in self if field.name.startswith("card_")]

    def card(self) -> dict[str, str]:
        """The texts for the data card; only for a valid form."""
        return {name: self.cleaned_data[f"card_{name}"] for name in CARD_FIELDS}

    def composition(self) -> Composition:
        """The chosen composition; only for a valid form. Raises WrongComposition."""
        data = self.cleaned_data
        where = {name: data[name] for name in ("source", "task", "language", "simulated") if data[name]}
        return Composition(**self.values, where=where)
