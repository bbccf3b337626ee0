"""add_model RUN ENDPOINT [--budget MONEY] [--budget-calls N] [--yes] [--wait]"""

from argparse import ArgumentParser
from typing import Any

from evaluation.runs import adding
from evaluation.runs.estimate import estimate_run
from evaluation.runs.kind import RUNS
from generation.endpoints import queries as endpoints_queries
from generation.management.command_line import Step, amount, count, follow, paused, unconfirmed
from generation.tasks import work_on_job
from review.common.waking import wake
from review.rules.permissions import OPERATOR, Can, require


class Command(Step):
    help = "Add a model to a finished run: same release, settings and judge. No other model is asked again."

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("endpoint")
        parser.add_argument("--budget", type=amount, metavar="MONEY", help="what this model may cost")
        parser.add_argument("--budget-calls", type=count, metavar="N", help="make at most N more calls")
        parser.add_argument("--yes", action="store_true", help="add it without a budget")
        parser.add_argument("--wait", action="store_true", help="follow the work to its end")

    def step(self, **options: Any) -> dict[str, Any]:
        require(OPERATOR, Can.MEASURE)
        run, endpoint = RUNS.get(options["run"]), endpoints_queries.endpoint(options["endpoint"])
        if refused := unconfirmed(self, estimate_run(adding.check_model(run, endpoint)), options):
            return refused
        run = adding.add_model(run.pk, endpoint, money=options["budget"], calls=options["budget_calls"])
        wake(work_on_job, run.pk)
        if options["wait"]:
            follow(self, RUNS, run)
        progress = RUNS.progress(run)
        run.refresh_from_db()
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
            "failed": paused(run),
        }
