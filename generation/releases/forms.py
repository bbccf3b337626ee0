"""The form that freezes a release."""

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.recipes.forms import benchmark_choices


class FreezeForm(forms.Form):
    """A release to be frozen."""

    name = forms.SlugField(
        label=_("Name"),
        max_length=100,
        help_text=_("Use letters, digits and hyphens. With an existing name, the next version is created."),
    )
    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
    seen = forms.CharField(
        required=False, widget=forms.HiddenInput
    )  # what the preview showed; empty: none was seen yet
