"""Filters of attempts."""

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.recipes.forms import benchmark_choices


class AttemptFilters(forms.Form):
    """The benchmark, and what to group attempts by."""

    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    by = forms.MultipleChoiceField(
        label=_("Group by"),
        choices=[("trap", _("trap")), ("prompt", _("prompt")), ("generator", _("generator"))],
        widget=forms.CheckboxSelectMultiple,
    )
