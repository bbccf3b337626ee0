"""control_site pause|resume [--json]"""

from argparse import ArgumentParser
from typing import Any

from mhb_site.backup import services
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Let a restored site make calls and send e-mails and webhooks again, or stop both."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["pause", "resume"])

    def step(self, **options: Any) -> dict[str, Any]:
        if options["action"] == "pause":
            act = services.pause_site
        else:
            act = services.resume_site
        return {"changed": act()}
