"""job pause|resume|cancel|retry|budget batch:7 [--budget MONEY|none] [--budget-calls N|none]"""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

from django.core.management.base import CommandError

from evaluation import queries, services, tasks
from evaluation.errors import EvaluationError
from generation import queries as generation_queries
from generation import services as generation
from generation import tasks as generation_tasks
from generation.cli import Step, amount, count
from generation.jobs import Job, advice
from review.permissions import OPERATOR, Can, require

DEEDS: dict[str, dict[str, Callable[[int], object]]] = {
    "batch": {
        "pause": generation.pause_batch,
        "resume": generation.resume_batch,
        "cancel": generation.cancel_batch,
        "retry": generation.retry_failed,
    },
    "run": {
        "pause": services.pause_run,
        "resume": services.resume_run,
        "cancel": services.cancel_run,
        "retry": services.retry_failed,
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
    help = "Pause, resume or cancel a batch or a run, try again what failed, or change its budget. May be said twice."
    expected = (*Step.expected, EvaluationError)

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*DEEDS["batch"], "budget"])
        parser.add_argument("job", type=_job, metavar="JOB", help="batch:N or run:N")
        parser.add_argument("--budget", type=_money, metavar="MONEY", help="for 'budget': an amount, or 'none'")
        parser.add_argument("--budget-calls", type=_calls, metavar="N", help="for 'budget': a number, or 'none'")

    def step(self, **options: Any) -> dict[str, Any]:
        kind, pk = options["job"]
        require(OPERATOR, Can.PRODUCE if kind == "batch" else Can.MEASURE)
        job = _found(kind, pk)
        if options["action"] == "budget":
            given = {"money": options["budget"], "calls": options["budget_calls"]}
            if set(given.values()) == {None}:
                raise CommandError("Say --budget, --budget-calls, or both; 'none' is no limit.")
            now = {"money": job.budget_money, "calls": job.budget_calls}
            wanted = {name: _meant(said, now[name]) for name, said in given.items()}
            set_budget = generation.set_batch_budget if kind == "batch" else services.set_run_budget
            came: object = set_budget(pk, **wanted)
        else:
            came = DEEDS[kind][options["action"]](pk)
        job = _found(kind, pk)
        if job.status == Job.Status.RUNNING:
            generation_tasks.wake(generation_tasks.work_on_batch if kind == "batch" else tasks.work_on_run, pk)
        return {
            "job": job.job,
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
    """What is left out stays as it is."""
    return now if said is None else None if said == NO_LIMIT else said


def _found(kind: str, pk: int) -> Job:
    return generation_queries.batch(pk) if kind == "batch" else queries.run(pk)
