"""compare RUN RUN"""

from argparse import ArgumentParser
from typing import Any

from evaluation.interchange import comparing
from evaluation.interchange.comparing import RunComparison
from evaluation.runs.kind import RUNS
from review.common.serializers import serializer_of
from review.management.step_command import StepCommand
from review.rules.permissions import OPERATOR


class Command(StepCommand):
    help = (
        "Compare two runs, model by model: rates on shared samples, the paired interval, and the samples that flipped."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("first", type=int, metavar="RUN")
        parser.add_argument("second", type=int, metavar="RUN")

    def step(self, **options: Any) -> dict[str, Any]:
        comparison = comparing.compare_runs(RUNS.get(options["first"]), RUNS.get(options["second"]), OPERATOR)
        return dict(serializer_of(RunComparison)(comparison).data)
