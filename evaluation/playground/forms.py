"""The form of the playground."""

from django import forms
from django.utils.translation import gettext_lazy as _

from evaluation.playground import services
from evaluation.playground.services import PlaygroundSettings
from generation.jobs.forms import SettingsForm
from generation.models import Endpoint


class PlaygroundForm(SettingsForm):
    """What to try, on what, and with which model."""

    settings_class = PlaygroundSettings

    what = forms.ChoiceField(choices=services.choices)
    endpoint = forms.ModelChoiceField(label=_("Endpoint"), queryset=Endpoint.objects.usable(), to_field_name="name")
