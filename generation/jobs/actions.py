"""The action on batches and runs at work."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from django.core.management.base import CommandError
from pydantic import Field
from pydantic.fields import FieldInfo

from generation.jobs import kinds, life_cycle, services
from generation.jobs.settings import JobLimits, Setting, settings_of
from generation.management.command_line import SettingsOptions, number
from generation.trials import checking
from review.common.commands import Action, Shell
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


def _job_names() -> list[str]:
    return [f"{kind.name}:N" for kind in kinds.all_kinds()]


def _limit(each: Setting, text: str) -> Any:
    """The value of a limit. Raises ArgumentTypeError."""
    if text == NO_LIMIT or each.choices:
        return text
    return number(each, text)


def _parse_job(text: str) -> tuple[str, int]:
    name, _, digits = text.partition(":")
    pk = whole_number(digits)
    if f"{name}:N" not in _job_names() or pk is None:
        raise ArgumentTypeError(f"{text!r} is neither {' nor '.join(_job_names())}")
    return name, pk


@dataclass(frozen=True, kw_only=True)
class LimitOptions(SettingsOptions):
    """An option for each limit of a job, which may be 'none'."""

    def add(self, parser: Any, name: str, field: FieldInfo) -> None:
        for each in settings_of(self.settings):
            action = next(action for action, names in LIMITS.items() if each.name in names)
            help_text = f"with '{action}'"
            if each.default is None:
                help_text += "; 'none' for no limit"
            choices = dict(each.choices or ()) or None
            parser.add_argument(
                each.option, dest=each.name, type=partial(_limit, each), choices=choices, help=help_text
            )


class ControlJob(Action):
    """Pause, resume or cancel a batch or a run, retry failed rows, change its budget or pace, or
    'adapt' endpoints that refuse what it sends: no temperature, another name of the limit, no
    provider batches. Safe to repeat.
    """

    action: Annotated[str, Shell(positional=True, choices=[*ACTIONS, *LIMITS])]
    job: Annotated[tuple[str, int], Shell(positional=True, parse=_parse_job, metavar="JOB")] = Field(
        description=" or ".join(_job_names())
    )
    limits: Annotated[dict[str, Any], LimitOptions(settings=JobLimits)]

    def perform(self) -> dict[str, Any]:
        name, pk = self.job
        kind = kinds.kind_named(name)
        again = 0
        if self.action in LIMITS:
            life_cycle.change_limits(kind.get(pk).pk, **self._changed_limits())
        else:
            result = ACTIONS[self.action](kind.get(pk).pk)
            if isinstance(result, int):
                again = result
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
            "again": again,
        }

    def _changed_limits(self) -> dict[str, Any]:
        """The limits that shall change; None for no limit. Raises CommandError."""
        changed: dict[str, Any] = {}
        for name in LIMITS[self.action]:
            value = self.limits[name]
            if value == NO_LIMIT:
                changed[name] = None
            elif value is not None:
                changed[name] = value
        if not changed and self.action == "budget":
            raise CommandError("Give --budget, --budget-calls, or both; 'none' means no limit.")
        return changed
