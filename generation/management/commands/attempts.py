"""attempts --benchmark mhb [--by trap] [--by prompt] [--by generator]"""

from argparse import ArgumentParser
from typing import Any

from generation import benchmarks, outcomes
from generation.cli import Step


class Command(Step):
    help = "How many attempts physicians' approval took, by trap, prompt and generator."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("--benchmark", required=True)
        parser.add_argument(
            "--by", action="append", choices=outcomes.BY, help="several times for several (default: all)"
        )

    def step(self, **options: Any) -> dict[str, Any]:
        benchmarks.recipe(options["benchmark"])
        by = [name for name in outcomes.BY if name in (options["by"] or outcomes.BY)]
        return {
            "attempts": [
                {
                    **dict(zip(by, row.key, strict=True)),
                    "decided": row.decided,
                    "approved": row.approved,
                    "first": row.first,
                    "first_approved": row.first_approved,
                    "mean_attempts": row.mean,
                }
                for row in outcomes.attempts(options["benchmark"], by)
            ]
        }
