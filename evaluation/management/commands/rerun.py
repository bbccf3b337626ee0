"""rerun DIR [--budget MONEY] [--budget-calls N] [--yes] [--wait]"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from evaluation.interchange import rerunning
from evaluation.runs import services
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from generation.jobs.settings import Budget
from generation.management.command_line import (
    add_launch_options,
    given_settings,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Repeat the run of a bundle with new calls: same release (by checksum), settings, seed and endpoints (by name)."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, metavar="DIR")
        add_launch_options(parser)

    def step(self, **options: Any) -> dict[str, Any]:
        repeat = rerunning.repeat_of(options["folder"], **given_settings(options, Budget))
        if refused := unconfirmed_estimate(self, estimate_run(repeat.settings), options):
            return refused
        run = services.launch_run(repeat.settings)
        progress = progress_of(self, RUNS, run, wait=options["wait"])
        return {
            "run": run.pk,
            "release": str(run.release),
            "differences": list(repeat.differences),
            "responses": progress.responses.total,
            "responses_done": progress.responses.done,
            "judged": progress.judgments.done,
            "status": run.status,
            "paused": run.paused_detail,
            "failed": paused_exit_code(run),
        }
