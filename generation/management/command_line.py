"""Options of settings and of launches for commands, and waiting for a job's work."""

import time
from argparse import ArgumentTypeError
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from pydantic.fields import FieldInfo
from rest_framework.exceptions import ValidationError as InvalidBody

from generation.engine.sweeping import sweep
from generation.jobs.estimate import Estimate
from generation.jobs.kinds import JobKind
from generation.jobs.life_cycle import is_running
from generation.jobs.live_status import live_workers
from generation.jobs.serializers import LikeSerializer, api_field
from generation.jobs.settings import Budget, Setting, Settings, settings_of
from generation.models.jobs import Job
from generation.recipes import registry
from generation.trials import checking
from review.common.commands import Action, Shell
from review.common.serializers import field_errors
from review.common.site_pause import paused_since

Options = dict[str, Any]  # parsed, by the names of settings
POLL = 0.3  # seconds


@dataclass(frozen=True, kw_only=True)
class SettingsOptions(Shell):
    """An option for each setting of a model. The field has what is given, by the settings' names.

    Attributes:
        settings: the model.
        omit: names of settings without an option.
        optional: no setting has to be given; `--like` may give it.
    """

    settings: type[Settings]
    omit: Container[str] = ()
    optional: bool = False

    def add(self, parser: Any, name: str, field: FieldInfo) -> None:
        for each in settings_of(self.settings):
            if each.name not in self.omit:
                required = each.required and not self.optional
                parser.add_argument(each.option, **_option(each, required=required))

    def value(self, name: str, options: Mapping[str, Any]) -> Options:
        return {each.name: options.get(each.name) for each in settings_of(self.settings)}


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(SettingsOptions):
    """The options of an action that launches a job."""

    settings: type[Settings] = Budget
    optional: bool = True

    def add(self, parser: Any, name: str, field: FieldInfo) -> None:
        super().add(parser, name, field)
        parser.add_argument("--yes", action="store_true", help="launch without a budget")
        parser.add_argument("--wait", action="store_true", help="wait until the job ends, and show its progress")

    def value(self, name: str, options: Mapping[str, Any]) -> Options:
        return {**super().value(name, options), "yes": options["yes"], "wait": options["wait"]}


def like_help(kind: str) -> str:
    """The help of the option that repeats an earlier job."""
    return f"use the settings of this {kind} for what is not given; not its limit, its budget or --fresh"


def _option(each: Setting, *, required: bool) -> dict[str, Any]:
    """What argparse is told of a setting."""
    options: dict[str, Any] = {"dest": each.name, "help": str(each.description).replace("%", "%%")}
    if required:
        options["required"] = True
    if each.named:
        options["help"] += " Repeat it for several."
        return {**options, "action": "append", "type": _pair, "metavar": "NAME=VALUE"}
    if each.many:
        options["help"] += " Repeat it for several."
        return {**options, "action": "extend", "type": _texts}
    if each.kind is bool:
        return {**options, "action": "store_true", "default": None}
    if each.choices:
        return {**options, "choices": [value for value, _label in each.choices]}
    if each.kind in (int, float, Decimal):
        return {**options, "type": partial(number, each)}
    return options


def given_settings(options: Options, settings: type[Settings]) -> dict[str, Any]:
    """The settings that parsed options give; the others have their defaults."""
    given = {}
    for each in settings_of(settings):
        value = options.get(each.name)
        if value is not None and each.named:
            value = named_value(each, value)
        if value is not None:
            given[each.name] = value
    return given


def _texts(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals):
        raise ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


def named_value(each: Setting, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The value of a named setting; where it may be of any type, as JSON or a word."""
    if each.many:
        values_by_name: dict[str, Any] = {}
        for name, value in pairs:
            values_by_name.setdefault(name, []).append(value)
        return values_by_name
    if each.kind is Any:
        return {name: registry.read_setting(value) for name, value in pairs}
    return dict(pairs)


def number(each: Setting, text: str) -> Any:
    """The number that an option gives a setting. Raises ArgumentTypeError."""
    try:
        return api_field(each).run_validation(text)
    except InvalidBody as error:
        raise ArgumentTypeError(f"{text!r}: {' '.join(map(str, error.args[0]))}") from None


def launch_body(
    serializer: type[LikeSerializer], options: Options, given: Mapping[str, Any], like: int | None
) -> dict[str, Any]:
    """The options of a launch, completed by --like and validated as a request to the API is.

    `given`: values that no option has by itself; None means not given. Raises CommandError.
    """
    settings = settings_of(serializer.settings_class)
    options_given = given_settings(options, serializer.settings_class)
    body = {each.api_name: options_given.get(each.name) for each in settings} | dict(given)
    body = {name: value for name, value in body.items() if value is not None}
    missing = [each.option for each in settings if each.required and each.api_name not in body]
    if missing and like is None:
        raise CommandError(f"Give {' and '.join(missing)}, or --like {serializer.kind.name.upper()}.")
    request = serializer(data={**body, "like": like})
    if not request.is_valid():
        faults = field_errors(request.errors)
        raise CommandError("; ".join(f"{fault['field']}: {fault['detail']}".removeprefix(": ") for fault in faults))
    return dict(request.validated_data)


def unconfirmed_estimate(action: Action, estimate: Estimate, options: Options) -> dict[str, Any] | None:
    """The estimate, as the result of a launch without budget and --yes; None if it may proceed."""
    if options["yes"] or options["budget_money"] is not None or options["budget_calls"] is not None:
        return None
    action.tell("Nothing was launched. Give --budget or --budget-calls, or --yes for no limit.")
    return {
        "calls": estimate.calls,
        "tokens_in": estimate.tokens_in,
        "tokens_out": estimate.tokens_out,
        "cost": estimate.cost,
        "seconds": estimate.seconds,
        "most_calls": estimate.most_calls,
        "most_cost": estimate.most_cost,
        "most_seconds": estimate.most_seconds,
        "review_hours": estimate.review_hours,
        "currency": settings.MHB_CURRENCY,
        "budget": estimate.budget_money,
        "budget_calls": estimate.budget_calls,
        "one_model": [f"{role} and {other}: {model}" for role, other, model in estimate.one_model],
        "lines": [asdict(line) for line in estimate.lines],
        "assumed": "{} tokens in and {} out per call where nothing was measured".format(*estimate.tokens_assumed),
        "failed": 1,
    }


def paused_exit_code(job: Job) -> int:
    """1 if the job is paused, else 0; for the exit code."""
    return int(job.status == Job.Status.PAUSED)


def progress_of(action: Action, kind: JobKind[Any], job: Job, *, wait: bool) -> Any:
    """The progress of a job; `wait`: follow it to its end first."""
    if wait:
        _follow(action, kind, job)
    job.refresh_from_db()
    return kind.progress(job)


def _follow(action: Action, kind: JobKind[Any], job: Job) -> None:
    """Follow a job to its end. If no worker is running, this process works on it."""
    if paused_since():
        action.tell("This site is paused since it was restored: the job waits for `control_site resume`.")
    shown = -1
    while is_running(job.pk):
        if (percent := kind.progress(job).percent) != shown:
            shown = percent
            action.tell(f"{shown} %")
        if live_workers(runs_lanes=True).exists():
            time.sleep(POLL)
        else:
            sweep(kind)
            if checking.check_models(job.pk):
                kind.work(job.pk)
            if is_running(job.pk):
                time.sleep(POLL)  # rows held by a dead process return when their lease expires
