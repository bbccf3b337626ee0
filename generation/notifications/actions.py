"""The action on webhooks."""

from typing import Any, Literal

from django.core.management.base import CommandError

from generation.notifications import services
from review.common.commands import Action, Positional
from review.models import Webhook


class ControlWebhook(Action):
    """Switch a webhook off, which drops its waiting messages, on again, or delete one that has
    received no message.
    """

    action: Positional[Literal["disable", "enable", "delete"]]
    name: Positional[str]

    def perform(self) -> dict[str, Any]:
        hook = Webhook.objects.filter(name=self.name).first()
        if hook is None:
            raise CommandError(f"There is no webhook named {self.name}.")
        if self.action == "delete":
            services.delete_webhook(hook)
        else:
            services.save_webhook(hook, active=self.action == "enable")
        return {"webhook": self.name, "state": f"{self.action}d"}
