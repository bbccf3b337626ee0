"""evaluate --release NAME --endpoint A --endpoint B [--judge J [--judge K --panel RULE]] [--answers K] [--like RUN] ..."""

from argparse import ArgumentParser
from typing import Any

from evaluation.runs import queries, services
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from evaluation.runs.serializers import RunSettingsSerializer, run_settings
from evaluation.runs.settings import RunSettings
from generation.management.command_line import (
    add_launch_options,
    add_like_option,
    launch_body,
    paused_exit_code,
    progress_of,
    unconfirmed_estimate,
)
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = "Evaluate models on a release: a judge decides each rubric, or code reads the answers."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--judge",
            action="append",
            help="required unless code reads the benchmark's answers; repeat for a panel",
        )
        add_like_option(parser, RUNS)
        add_launch_options(parser, RunSettings, omit=("judge", "further_judges"))

    def step(self, **options: Any) -> dict[str, Any]:
        judge, *further = options.pop("judge") or [None]
        given = {"judge": judge, "further_judges": None if judge is None else further}
        settings = run_settings(launch_body(RunSettingsSerializer, options, given))
        if refused := unconfirmed_estimate(self, estimate_run(settings), options):
            return refused
        run = services.launch_run(settings)
        progress = progress_of(self, RUNS, run, wait=options["wait"])
        return {
            "run": run.pk,
            "release": str(run.release),
            "responses": progress.responses.total,
            "responses_done": progress.responses.done,
            "responses_failed": progress.responses.failed,
            "judgments": progress.judgments.total,
            "judged": progress.judgments.done,
            "unjudged": progress.judgments.failed,
            "votes": progress.votes.total,
            "calls": progress.responses.calls,
            "cost": progress.responses.cost,
            "simulated": queries.is_simulated(run),
            "status": run.status,
            "paused": run.paused_detail,
            "failed": queries.count_not_done(run) if options["wait"] else paused_exit_code(run),
        }
