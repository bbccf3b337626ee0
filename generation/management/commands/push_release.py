"""push_release NAME --repository OWNER/NAME"""

from argparse import ArgumentParser
from typing import Any

from generation.releases import hub, queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = f"Publish a release as a data set on the Hugging Face hub. The token is read from {hub.TOKEN}."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="NAME, or NAME@VERSION")
        parser.add_argument("--repository", required=True, metavar="OWNER/NAME", help="created if it is missing")
        parser.add_argument("--private", action="store_true", help="if it is created, only its owner can see it")

    def step(self, **options: Any) -> dict[str, Any]:
        return hub.push_release(queries.release(options["name"]), options["repository"], private=options["private"])
