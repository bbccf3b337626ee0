"""The form of a webhook."""

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.models import ENV_NAME_PATTERN
from generation.told.services import FIELDS, OCCASIONS, check
from review.models import Webhook


class WebhookForm(forms.ModelForm[Webhook]):
    """A webhook's address and its events."""

    secret_env = forms.RegexField(
        label=_("Variable with the secret"),
        regex=ENV_NAME_PATTERN,
        max_length=100,
        help_text=_("The NAME of an environment variable of the workers, such as MHB_KEY_HOOK; never the secret."),
    )
    occasions = forms.MultipleChoiceField(label=_("Send when"), choices=OCCASIONS, widget=forms.CheckboxSelectMultiple)

    class Meta:
        model = Webhook
        fields = FIELDS
        labels = {"name": _("Name"), "url": _("Address"), "active": _("In use")}

    def clean(self) -> None:
        """Refuse an address or a variable that the operator does not allow."""
        super().clean()
        data = self.cleaned_data
        if "url" in data and "secret_env" in data:
            check(Webhook(url=data["url"], secret_env=data["secret_env"]))
