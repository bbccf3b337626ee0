"""claims RUN"""

from argparse import ArgumentParser
from typing import Any

from evaluation.claims import queries
from evaluation.runs.kind import RUNS
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Show what a run claims of its benchmark, each claim with its measurement and what would contradict it. Asks no"
        " model. The exit code is 1 if a measured claim fails."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)

    def step(self, **options: Any) -> dict[str, Any]:
        run = RUNS.get(options["run"])
        found = queries.claims_of_run(run)
        return {**found.as_json(), "failed": found.failed}
