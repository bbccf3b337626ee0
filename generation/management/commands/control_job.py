"""control_job pause|resume|adapt|cancel|retry|budget|pace batch:7

[--budget MONEY|none] [--budget-calls N|none] [--priority high|normal|low] [--most-lanes N|none]
"""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import CommandError

from generation.jobs import kinds, life_cycle, services
from generation.jobs.settings import JobLimits, Setting, settings_of
from generation.management.command_line import number
from generation.trials import checking
from review.management.step_command import StepCommand
from review.rules.text import whole_number

ACTIONS: dict[str, Callable[[int], object]] = {
    "pause": life_cycle.pause,
    "resume": services.resume,
    "adapt": checking.adapt,
    "cancel": services.cancel,
    "retry": services.retry_failed,
}
LIMITS = {"budget": ("budget_money", "budget_calls"), "pace": ("priority", "most_lanes")}
NO_LIMIT = "none"


def _limit(each: Setting, text: str) -> Any:
    """The value of a limit. Raises ArgumentTypeError."""
    if text == NO_LIMIT or each.choices:
        return text
    return number(each, text)


def _parse_job(text: str) -> tuple[str, int]:
    name, _, number = text.partition(":")
    known = [f"{kind.name}:N" for kind in kinds.all_kinds()]
    if f"{name}:N" not in known or (pk := whole_number(number)) is None:
        raise ArgumentTypeError(f"{text!r} is neither {' nor '.join(known)}")
    return name, pk


class Command(StepCommand):
    help = (
        "Pause, resume or cancel a batch or a run, retry failed rows, change its budget or pace, or 'adapt' endpoints that "
        "refuse what it sends: no temperature, another name of the limit, no provider batches. Safe to repeat."
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*ACTIONS, *LIMITS])
        parser.add_argument(
            "job", type=_parse_job, metavar="JOB", help=" or ".join(f"{kind.name}:N" for kind in kinds.all_kinds())
        )
        for each in settings_of(JobLimits):
            action = next(action for action, names in LIMITS.items() if each.name in names)
            parser.add_argument(
                each.option,
                dest=each.name,
                type=partial(_limit, each),
                choices=dict(each.choices or ()) or None,
                help=f"with '{action}'" + ("; 'none' for no limit" if each.default is None else ""),
            )

    def step(self, **options: Any) -> dict[str, Any]:
        name, pk = options["job"]
        kind = kinds.kind_named(name)
        action, result = options["action"], None
        if action in LIMITS:
            given = {name: options[name] for name in LIMITS[action] if options[name] is not None}
            if not given and action == "budget":
                raise CommandError("Give --budget, --budget-calls, or both; 'none' means no limit.")
            limits = {name: None if value == NO_LIMIT else value for name, value in given.items()}
            life_cycle.change_limits(kind.get(pk).pk, **limits)
        else:
            result = ACTIONS[action](kind.get(pk).pk)
        job = kind.get(pk)
        return {
            "job": job.name,
            "status": job.status,
            "paused": job.paused_detail,
            "advice": life_cycle.advice(job),
            "calls": job.calls,
            "cost": job.cost,
            "budget": job.budget_money,
            "budget_calls": job.budget_calls,
            "priority": job.priority,
            "most_lanes": job.most_lanes,
            "again": result if isinstance(result, int) else 0,
        }
