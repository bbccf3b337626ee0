"""The form of the playground."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from evaluation.playground import services
from evaluation.playground.services import PlaygroundSettings
from generation.jobs.endpoint_choices import EndpointChoices
from generation.jobs.forms import SettingsForm

MAX_ENDPOINTS = 3  # as many replies as fit side by side


class PlaygroundForm(SettingsForm):
    """What to try, on what, and with which models. The page itself asks for edited turns."""

    settings_class = PlaygroundSettings
    omitted = ("turns",)

    what = forms.ChoiceField(choices=services.choices)
    prompts = forms.ChoiceField(
        required=False, choices=services.prompt_choices, help_text=_("A set of the benchmark that you try.")
    )
    endpoints = EndpointChoices(
        label=_("Endpoints"), required=False, help_text=_("Up to three, whose replies are shown side by side.")
    )

    def clean_endpoints(self) -> Any:
        endpoints = self.cleaned_data["endpoints"]
        if len(endpoints) > MAX_ENDPOINTS:
            raise ValidationError(gettext("Choose at most three endpoints."))
        return endpoints
