"""test_endpoint NAME"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from generation import tasks
from generation.endpoints import queries
from generation.trials.findings import TrialFinding
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Ask an endpoint one question as jobs ask: latency, tokens, structured output, cost. Exit code 1 if it does not "
        "answer, or cannot do what jobs ask for."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--images", action="store_true", help="show it a picture too: one more call")

    def step(self, **options: Any) -> dict[str, Any]:
        endpoint = queries.endpoint(options["name"])
        result = tasks.test_endpoint(endpoint, images=options["images"])
        return {
            "endpoint": endpoint.name,
            **asdict(result),
            "price_in": endpoint.price_in,
            "price_out": endpoint.price_out,
            "findings": [f"{TrialFinding(**each).words} {each['detail']}".strip() for each in result.findings],
            "failed": int(not result.answered or bool(result.findings)),
        }
