"""The form of a webhook, and the filters of what was sent."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from generation.common.fields import NamesSecret
from generation.models import ENV_NAME_PATTERN
from generation.notifications.services import EMAIL, FIELDS, OCCASIONS, check
from review.common.lists import Filters, any_of
from review.models import Delivery, Webhook


def _receivers() -> list[tuple[str, Any]]:
    hooks = Webhook.objects.order_by("name").values_list("name", flat=True)
    return [(EMAIL, _("people, by e-mail")), *((name, name) for name in hooks)]


class DeliveryFilters(Filters):
    """Which messages to list."""

    to = any_of(_("Sent to"), _receivers)
    status = any_of(_("Status"), lambda: Delivery.Status.choices)


class WebhookForm(NamesSecret, forms.ModelForm[Webhook]):
    """A webhook's address and its events."""

    hidden_if_refused = "secret_env"

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
        error_messages = {
            "name": {"invalid": _("Use letters, digits, hyphens and underscores only, without spaces.")},
        }

    def clean(self) -> None:
        """Refuse an address or a variable that the operator does not allow."""
        super().clean()
        data = self.cleaned_data
        if "url" in data and "secret_env" in data:
            check(Webhook(url=data["url"], secret_env=data["secret_env"]))
