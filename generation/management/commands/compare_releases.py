"""compare_releases A B [--change reworded]"""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from generation.releases import comparing, queries
from review.management.step_command import StepCommand
from review.rules.permissions import OPERATOR


class Command(StepCommand):
    help = "Compare two releases of a benchmark: samples added, removed, reworded and re-released, with what differs."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("before", help="NAME, or NAME@VERSION")
        parser.add_argument("after", help="NAME, or NAME@VERSION")
        parser.add_argument("--change", default="", choices=comparing.Change.values, help="list only these samples")

    def step(self, **options: Any) -> dict[str, Any]:
        before, after = queries.release(options["before"]), queries.release(options["after"])
        difference = comparing.compare(before, after, OPERATOR)
        return {**difference.summary, "samples": [asdict(row) for row in difference.samples(options["change"])]}
