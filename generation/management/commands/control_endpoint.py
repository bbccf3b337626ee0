"""control_endpoint disable|enable|delete NAME"""

from argparse import ArgumentParser
from typing import Any

from generation.endpoints import queries, services
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Disable an endpoint (what runs goes on), enable it again, or delete one that was never used or tested."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["disable", "enable", "delete"])
        parser.add_argument("name")

    def step(self, **options: Any) -> dict[str, Any]:
        endpoint, action = queries.endpoint(options["name"]), options["action"]
        if action == "delete":
            services.delete_endpoint(endpoint)
        else:
            services.set_disabled(endpoint, disabled=action == "disable")
        return {"endpoint": options["name"], "state": f"{action}d"}
