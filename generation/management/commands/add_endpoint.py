"""add_endpoint NAME --url URL --model MODEL [--key-env VAR] ..."""

from argparse import ArgumentParser, ArgumentTypeError
from decimal import Decimal
from typing import Any

from generation.endpoints import services
from generation.llm.http.provider_words import DECISIONS
from generation.management.command_line import StepCommand, parse_amount
from generation.models import ENDPOINT_FIELDS, Endpoint
from review.rules import json_nesting
from review.rules.permissions import OPERATOR, Can, require


def parse_fields(text: str) -> dict[str, Any]:
    """Parse request fields given as an option. Raises ArgumentTypeError."""
    try:
        fields = json_nesting.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ArgumentTypeError("not a JSON object")
    return fields


class Command(StepCommand):
    help = "Add an endpoint: a model at an OpenAI-compatible address."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--url", required=True, help="the base URL, up to and including /v1")
        parser.add_argument("--model", required=True)
        parser.add_argument("--key-env", default="", help="name of the environment variable that holds the key")
        parser.add_argument("--temperature", type=float)
        parser.add_argument("--top-p", type=float)
        parser.add_argument("--max-tokens", type=int)
        parser.add_argument(
            "--completion-tokens", action="store_true", help="send the limit as max_completion_tokens, not max_tokens"
        )
        parser.add_argument(
            "--default-sampling", action="store_true", help="send neither temperature nor top_p: the model refuses them"
        )
        parser.add_argument("--reasoning-effort", default="", help="for example low, medium or high")
        parser.add_argument(
            "--extra-body", type=parse_fields, default={}, metavar="JSON", help="further request fields"
        )
        parser.add_argument("--family", default="", help="the model's family, if its name does not begin with it")
        parser.add_argument("--price-in", type=parse_amount, default=Decimal(0), help="per million prompt tokens")
        parser.add_argument("--price-out", type=parse_amount, default=Decimal(0), help="per million completion tokens")
        parser.add_argument("--price-cached", type=parse_amount, help="per million prompt tokens from its cache")
        parser.add_argument("--context-tokens", type=int, help="length of its context, prompt and reply together")
        parser.add_argument(
            "--output-format",
            default="",
            choices=["", *Endpoint.OutputFormat.values],
            help="pin the format of structured replies (default: what it is found to accept)",
        )
        parser.add_argument("--reasoning-start", default="", help="its own mark before reasoning")
        parser.add_argument("--reasoning-end", default="", help="its own mark after reasoning")
        parser.add_argument(
            "--endings",
            type=parse_fields,
            default={},
            metavar="JSON",
            help=f"what unknown finish reasons mean: {', '.join(DECISIONS)}",
        )
        parser.add_argument("--concurrency", type=int, default=8)
        parser.add_argument("--rpm", type=int, help="requests per minute (default: no limit)")
        parser.add_argument("--tpm", type=int, help="tokens per minute (default: no limit)")
        parser.add_argument(
            "--batches", action="store_true", help="the endpoint supports the batch protocol (files and batches)"
        )
        parser.add_argument(
            "--batch-discount", type=parse_amount, default=Decimal("0.5"), help="price factor for provider batches"
        )
        parser.add_argument("--timeout", type=float, default=120, help="seconds")

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.CONNECT)
        values = {name: options[name] for name in (*ENDPOINT_FIELDS, "batch_discount")}
        endpoint = services.add_endpoint(**values)
        return {"endpoint": endpoint.name, **{name: getattr(endpoint, name) for name in ("url", "model", "simulated")}}
