"""approval_attempts --benchmark mhb [--by trap] [--by prompt] [--by generator]"""

from argparse import ArgumentParser
from typing import Any

from generation.outcomes import attempts
from generation.recipes import registry
from review.management.step_command import StepCommand


def _counts(row: attempts.Attempts) -> dict[str, Any]:
    return {
        "decided": row.decided,
        "approved": row.approved,
        "first": row.first,
        "first_approved": row.first_approved,
        "mean_attempts": row.mean,
    }


class Command(StepCommand):
    help = "Show how many attempts approval took, by trap, prompt and generator."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--benchmark", required=True)
        parser.add_argument(
            "--by", action="append", choices=attempts.GROUPINGS, help="group by this; repeat for several (default: all)"
        )

    def step(self, **options: Any) -> dict[str, Any]:
        registry.recipe(options["benchmark"])
        by = attempts.grouping(options["by"] or ())
        return {
            "attempts": [
                {**dict(zip(by, row.key, strict=True)), **_counts(row)}
                for row in attempts.attempts(options["benchmark"], by)
            ]
        }
