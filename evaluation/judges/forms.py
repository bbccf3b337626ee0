"""The form of a validation."""

from django import forms
from django.utils.translation import gettext_lazy as _

from evaluation.judges.services import MOST_ITEMS
from evaluation.models import SEEDS


class ValidationForm(forms.Form):
    """How many responses physicians judge, and by which draw."""

    n = forms.IntegerField(
        label=_("Responses"),
        initial=100,
        min_value=1,
        max_value=MOST_ITEMS,
        help_text=_("Drawn by model, data set, and whether the judge found a failure."),
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        required=False,
        initial=0,
        min_value=0,
        max_value=SEEDS,
        help_text=_("The same seed draws the same responses."),
    )
