"""test_endpoint NAME"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from generation.endpoints import queries, testing
from generation.management.command_line import Step
from review.rules.permissions import OPERATOR, Can, require


class Command(Step):
    help = "Ask an endpoint one question: latency, tokens, structured output, cost. Exit code 1 if it does not answer."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.CONNECT)
        endpoint = queries.endpoint(options["name"])
        result = testing.test_endpoint(endpoint)
        return {
            "endpoint": endpoint.name,
            **asdict(result),
            "price_in": endpoint.price_in,
            "price_out": endpoint.price_out,
            "failed": int(not result.answered),
        }
