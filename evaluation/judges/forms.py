"""The form that starts a validation."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from evaluation import registry
from evaluation.models import MAX_SEED, Run


class ValidationForm(forms.Form):
    """How many responses physicians judge, and the seed of the draw."""

    n = forms.CharField(
        label=_("Responses"),
        max_length=10,
        help_text=_(
            "A number, or a share of each stratum such as 10%. Drawn by model, data set, and whether the judge found a failure."
        ),
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        required=False,
        initial=0,
        min_value=0,
        max_value=MAX_SEED,
        help_text=_("The same seed draws the same responses."),
    )

    def __init__(self, run: Run, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["n"].initial = registry.protocol(run.release.benchmark).validation_sample
