"""The form that freezes a release."""

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.recipes.forms import benchmark_choices


class FreezeForm(forms.Form):
    """A release to be frozen."""

    name = forms.SlugField(
        label=_("Name"),
        max_length=100,
        help_text=_("Letters, digits and hyphens. A name that exists gets its next version."),
    )
    benchmark = forms.ChoiceField(label=_("Benchmark"), choices=benchmark_choices)
