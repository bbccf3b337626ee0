"""decide_ending NAME [ENDING MEANING]"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from generation.endpoints import queries, services
from generation.llm.provider_words import DECISIONS
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Decide what an unknown ending (finish reason) of an endpoint's replies means, or list those to decide. Retry"
        " failed rows afterwards: what is paid for is read again."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("ending", nargs="?", help="as the endpoint says it; none: it says nothing")
        parser.add_argument("meaning", nargs="?", choices=[str(meaning) for meaning in DECISIONS])

    def step(self, **options: Any) -> dict[str, Any]:
        endpoint = queries.endpoint(options["name"])
        if options["ending"] is not None and options["meaning"] is not None:
            endpoint = services.decide_ending(endpoint, options["ending"], options["meaning"])
        undecided = [asdict(found) for found in queries.unknown_endings(endpoint)]
        return {
            "endpoint": endpoint.name,
            "endings": endpoint.endings,
            "undecided": undecided,
            "failed": int(options["ending"] is not None and options["meaning"] is None),
        }
