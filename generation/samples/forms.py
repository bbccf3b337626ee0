"""Filters of the sample list."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.models import Sample, SampleVersion
from generation.recipes.forms import benchmark_choices
from generation.samples import queries
from review.labels import said
from review.rules.state_machine import NOT_SAMPLED

SAMPLE_STATUSES = [*Sample.Status.choices, (NOT_SAMPLED, _("not sampled for review"))]
VERSION_STATUSES = [*SampleVersion.Status.choices, (NOT_SAMPLED, _("not sampled for review"))]


class SampleFilters(forms.Form):
    """Which samples to list; what is not understood is left out."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), required=False)
    task = forms.ChoiceField(label=_("Task"), required=False)
    status = forms.ChoiceField(label=_("Status"), required=False, choices=[("", _("all")), *SAMPLE_STATUSES])
    text = forms.CharField(label=_("Text"), required=False, widget=forms.SearchInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tasks = [(task, said(task)) for task in queries.sample_tasks()]
        self.fields["benchmark"].choices = [("", _("all")), *benchmark_choices()]  # type: ignore[attr-defined]
        self.fields["task"].choices = [("", _("all")), *tasks]  # type: ignore[attr-defined]
