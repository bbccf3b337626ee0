"""leave_out RUN ENDPOINT [--because TEXT] [--role target|judge] [--again]"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from evaluation.runs import leaving, queries
from evaluation.runs.kind import RUNS
from generation.endpoints import queries as endpoints_queries
from review.management.step_command import StepCommand


class Command(StepCommand):
    help = (
        "Leave a model, or a judge of a panel, out of a run that goes on without it, or add it again. Safe to repeat."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("run", type=int)
        parser.add_argument("endpoint")
        parser.add_argument("--because", default="", metavar="TEXT", help="why; the report says so")
        parser.add_argument("--role", choices=[queries.TARGET, queries.JUDGE], default="", help="if it has both")
        parser.add_argument("--again", action="store_true", help="add a model again that was left out")

    def step(self, **options: Any) -> dict[str, Any]:
        run, endpoint = RUNS.get(options["run"]), endpoints_queries.endpoint(options["endpoint"])
        if options["again"] and options["because"]:
            raise CommandError("--because belongs to leaving out, not to --again.")
        if options["again"]:
            run = leaving.add_again(run.pk, endpoint, role=options["role"])
        else:
            run = leaving.leave_out(run.pk, endpoint, because=options["because"], role=options["role"])
        return {
            "run": run.pk,
            "status": run.status,
            "left_out": [each.endpoint.name for each in queries.left_out(run)],
            "models": [
                {
                    "model": each.name,
                    "role": each.role,
                    "done": each.done,
                    "open": each.open,
                    "failed": each.failed,
                    "not_asked": each.not_asked,
                }
                for each in queries.model_states(run)
            ],
        }
