"""add_model RUN ENDPOINT [--budget MONEY] [--budget-calls N] [--yes] [--wait]"""

from argparse import ArgumentParser
from typing import Any

from evaluation.runs import adding, queries
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from generation.endpoints import queries as endpoints_queries
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
    help = "Add a model to a finished run: same release, settings and judge. No other model is asked again."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("endpoint")
        add_launch_options(parser)

    def step(self, **options: Any) -> dict[str, Any]:
        run, endpoint = RUNS.get(options["run"]), endpoints_queries.endpoint(options["endpoint"])
        if refused := unconfirmed_estimate(self, estimate_run(adding.check_model(run, endpoint)), options):
            return refused
        run = adding.add_model(run.pk, endpoint, **given_settings(options, Budget))
        progress = progress_of(self, RUNS, run, wait=options["wait"])
        return {
            "run": run.pk,
            "models": list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)),
            "responses": progress.responses.total,
            "responses_done": progress.responses.done,
            "judgments": progress.rubrics_total,
            "judged": progress.judgments.done,
            "calls": progress.responses.calls,
            "cost": progress.responses.cost,
            "status": run.status,
            "paused": run.paused_detail,
            "failed": queries.count_not_done(run) if options["wait"] else paused_exit_code(run),
        }
