"""Filters of the sample list."""

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.models import Sample, SampleVersion
from generation.recipes.forms import benchmark_choices
from generation.samples import queries
from review.common.lists import ALL, Filters
from review.labels import task_label
from review.rules.state_machine import NOT_SAMPLED

SAMPLE_STATUSES = [*Sample.Status.choices, (NOT_SAMPLED, _("not sampled for review"))]
VERSION_STATUSES = [*SampleVersion.Status.choices, (NOT_SAMPLED, _("not sampled for review"))]


class SampleFilters(Filters):
    """Which samples to list."""

    text = forms.CharField(label=_("Title or sample"), required=False, widget=forms.SearchInput)
    benchmark = forms.ChoiceField(label=_("Benchmark"), required=False)
    task = forms.ChoiceField(label=_("Task"), required=False)
    status = forms.ChoiceField(label=_("Status"), required=False, choices=[ALL, *SAMPLE_STATUSES])

    def full_clean(self) -> None:
        tasks = [(task, task_label(task)) for task in queries.sample_tasks()]
        self.fields["benchmark"].choices = [ALL, *benchmark_choices()]  # type: ignore[attr-defined]
        self.fields["task"].choices = [ALL, *tasks]  # type: ignore[attr-defined]
        super().full_clean()
