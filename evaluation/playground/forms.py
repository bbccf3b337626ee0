"""The form of the playground."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from evaluation.playground import services
from evaluation.playground.services import Asked
from generation.models import Endpoint


class PlaygroundForm(forms.Form):
    """What to try, on what, and with which model."""

    what = forms.ChoiceField(label=_("What to try"))
    on = forms.CharField(
        label=_("Record or sample"),
        required=False,
        max_length=300,
        help_text=_(
            "The number of a record, draft:NUMBER, or the key of a sample. Leave empty for the first that fits."
        ),
    )
    prompts = forms.CharField(
        label=_("Prompts"),
        required=False,
        max_length=64,
        help_text=_("A prompt set, released or your own: NAME, or NAME@VERSION."),
    )
    answer = forms.CharField(
        label=_("Answer to judge"),
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    endpoint = forms.ModelChoiceField(
        label=_("Endpoint"),
        queryset=Endpoint.objects.usable(),
        to_field_name="name",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["what"].choices = services.choices()  # type: ignore[attr-defined]

    @property
    def asked(self) -> Asked:
        """What is asked for. Requires a valid form."""
        data = self.cleaned_data
        return Asked(data["what"], data["on"].strip(), data["answer"], data["prompts"])
