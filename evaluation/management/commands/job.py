"""job pause|resume|cancel|retry|budget batch:7 [--budget MONEY|none] [--budget-calls N|none]"""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

from django.core.management.base import CommandError

from evaluation import tasks
from evaluation.errors import EvaluationError
from evaluation.runs import queries as runs_queries
from evaluation.runs import services as runs_services
from generation import tasks as generation_tasks
from generation.batches import queries as batches_queries
from generation.batches import services as batches_services
from generation.jobs.life_cycle import advice
from generation.management.command_line import Step, amount, count
from generation.models.jobs import Job
from review.rules.permissions import OPERATOR, Can, require

DEEDS: dict[str, dict[str, Callable[[int], object]]] = {
    "batch": {
        "pause": batches_services.pause_batch,
        "resume": batches_services.resume_batch,
        "cancel": batches_services.cancel_batch,
        "retry": batches_services.retry_failed,
    },
    "run": {
        "pause": runs_services.pause_run,
        "resume": runs_services.resume_run,
        "cancel": runs_services.cancel_run,
        "retry": runs_services.retry_failed,
    },
}
NO_LIMIT: Literal["none"] = "none"


def _money(text: str) -> Decimal | Literal["none"]:
    return NO_LIMIT if text == NO_LIMIT else amount(text)


def _calls(text: str) -> int | Literal["none"]:
    return NO_LIMIT if text == NO_LIMIT else count(text)


def _job(text: str) -> tuple[str, int]:
    kind, _, number = text.partition(":")
    if kind not in DEEDS or not (number.isdecimal() and len(number) < 19):
        raise ArgumentTypeError(f"{text!r} is neither batch:N nor run:N")
    return kind, int(number)


class Command(Step):
    help = "Pause, resume or cancel a batch or a run, retry failed rows, or change its budget. Safe to repeat."
    expected = (*Step.expected, EvaluationError)

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*DEEDS["batch"], "budget"])
        parser.add_argument("job", type=_job, metavar="JOB", help="batch:N or run:N")
        parser.add_argument(
            "--budget", type=_money, metavar="MONEY", help="with 'budget': an amount, or 'none' for no limit"
        )
        parser.add_argument(
            "--budget-calls", type=_calls, metavar="N", help="with 'budget': a number, or 'none' for no limit"
        )

    def step(self, **options: Any) -> dict[str, Any]:
        kind, pk = options["job"]
        require(OPERATOR, Can.PRODUCE if kind == "batch" else Can.MEASURE)
        job = _found(kind, pk)
        if options["action"] == "budget":
            given = {"money": options["budget"], "calls": options["budget_calls"]}
            if set(given.values()) == {None}:
                raise CommandError("Give --budget, --budget-calls, or both; 'none' means no limit.")
            now = {"money": job.budget_money, "calls": job.budget_calls}
            wanted = {name: _meant(said, now[name]) for name, said in given.items()}
            set_budget = batches_services.set_batch_budget if kind == "batch" else runs_services.set_run_budget
            came: object = set_budget(pk, **wanted)
        else:
            came = DEEDS[kind][options["action"]](pk)
        job = _found(kind, pk)
        if job.status == Job.Status.RUNNING:
            generation_tasks.wake(generation_tasks.work_on_batch if kind == "batch" else tasks.work_on_run, pk)
        return {
            "job": job.name,
            "status": job.status,
            "paused": job.paused_detail,
            "advice": advice(job),
            "calls": job.calls,
            "cost": job.cost,
            "budget": job.budget_money,
            "budget_calls": job.budget_calls,
            "again": came if isinstance(came, int) else 0,
        }


def _meant(said: Any, now: Any) -> Any:
    """The new value of one budget: an option left out keeps the current value."""
    return now if said is None else None if said == NO_LIMIT else said


def _found(kind: str, pk: int) -> Job:
    return batches_queries.batch(pk) if kind == "batch" else runs_queries.run(pk)
