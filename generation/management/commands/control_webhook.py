"""control_webhook disable|enable|delete NAME"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from generation.notifications import services
from review.management.step_command import StepCommand
from review.models import Webhook


class Command(StepCommand):
    help = (
        "Switch a webhook off, which drops its waiting messages, on again, or delete one that has received no message."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["disable", "enable", "delete"])
        parser.add_argument("name")

    def step(self, **options: Any) -> dict[str, Any]:
        hook, action = Webhook.objects.filter(name=options["name"]).first(), options["action"]
        if hook is None:
            raise CommandError(f"There is no webhook named {options['name']}.")
        if action == "delete":
            services.delete_webhook(hook)
        else:
            services.save_webhook(hook, active=action == "enable")
        return {"webhook": options["name"], "state": f"{action}d"}
