"""Filters of the sample list."""

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.models import Sample, SampleVersion
from generation.recipes.forms import benchmark_choices
from generation.samples import queries
from review.common.lists import Filters, any_of
from review.labels import task_label
from review.rules.state_machine import NOT_SAMPLED

SAMPLE_STATUSES = [*Sample.Status.choices, (NOT_SAMPLED, _("not sampled for review"))]
VERSION_STATUSES = [*SampleVersion.Status.choices, (NOT_SAMPLED, _("not sampled for review"))]


class SampleFilters(Filters):
    """Which samples to list."""

    text = forms.CharField(label=_("Title or sample"), required=False, widget=forms.SearchInput)
    benchmark = any_of(_("Benchmark"), benchmark_choices)
    task = any_of(_("Task"), lambda: [(task, task_label(task)) for task in queries.sample_tasks()])
    status = any_of(_("Status"), lambda: SAMPLE_STATUSES)
