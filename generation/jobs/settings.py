"""The settings of an action, declared once; form, API, command and repetition are derived from it.

A settings class is a `settings_class` whose fields are `name: type = setting(...)`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from decimal import Decimal
from functools import cache, partial
from types import NoneType
from typing import Any, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from generation.jobs.life_cycle import MAX_CALLS
from generation.models.jobs import Job

Text = str | Promise
T = TypeVar("T")
RECORDS, MODELS, LIMITS = "records", "models", "limits"
SECTIONS = (RECORDS, MODELS, LIMITS)


@dataclass(frozen=True, slots=True)
class Setting:
    """How one setting is shown and checked everywhere.

    Attributes:
        section: the step of the form that asks for it.
        least, most: of a number; `most` is also the maximum length of a text or of a list's texts.
        entries: the maximum length of a list.
        choices: the values with their labels; empty if the form finds them out.
        pattern: what the whole of a text must match.
        rows: of the form's field, for a long text.
        option: of the command, if it is not the name.
        column: the job's field that keeps the value, if a launch stores it as it is.
        api_name: in the API, if it is not the name.
    """

    label: Text
    help: Text = ""
    _: KW_ONLY
    section: str = MODELS
    least: float | None = None
    most: Any = None
    entries: int = 100
    choices: Sequence[tuple[str, Any]] | None = None
    pattern: str = ""
    rows: int = 0
    option: str = ""
    column: str = ""
    api_name: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """A field of a settings class: `kind` is its type, of each entry if it has `many`.

    A `named` setting has values by name; with `many`, each is a list.
    """

    name: str
    setting: Setting
    kind: type
    many: bool
    named: bool
    default: Any  # MISSING if it is required

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def api_name(self) -> str:
        return self.setting.api_name or self.name

    @property
    def option(self) -> str:
        return self.setting.option or f"--{self.name.replace('_', '-')}"

    @property
    def description(self) -> Text:
        return self.setting.help or self.setting.label


def setting(label: Text, help: Text = "", *, default: Any = MISSING, default_factory: Any = MISSING, **how: Any) -> Any:
    """A field of a settings class; required without a default. `how`: see `Setting`."""
    return field(default=default, default_factory=default_factory, metadata={"setting": Setting(label, help, **how)})


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def settings_class(kind: type[T] | None = None, /, *, kw_only: bool = False) -> Any:
    """Make a class of settings. `kw_only`: for a base, whose settings have defaults."""
    if kind is None:
        return partial(settings_class, kw_only=kw_only)
    return dataclass(frozen=True, slots=True, kw_only=kw_only)(kind)


@cache
def declared(settings: type) -> tuple[Declared, ...]:
    """The declared fields of a settings class, in the order of the form."""
    hints, found = get_type_hints(settings), []
    for each in fields(settings):
        kind, shapes = hints[each.name], list[Any]()
        while parts := [part for part in get_args(kind) if part is not NoneType]:
            shapes.append(get_origin(kind))
            kind = parts[-1]
        if each.default_factory is MISSING:
            default = each.default
        else:
            default = each.default_factory()
        how = each.metadata["setting"]
        found.append(Declared(each.name, how, kind, Sequence in shapes, Mapping in shapes, default))
    return tuple(sorted(found, key=lambda each: SECTIONS.index(each.setting.section)))


def stored_values(settings: type, job: Any) -> dict[str, Any]:
    """The values of the settings that a job keeps as they are."""
    return {each.name: getattr(job, each.setting.column) for each in declared(settings) if each.setting.column}


def columns(settings: Any) -> dict[str, Any]:
    """The fields of a new job with these settings that are kept as they are, by column."""
    return {
        each.setting.column: getattr(settings, each.name)
        for each in declared(settings.__class__)
        if each.setting.column
    }


@settings_class(kw_only=True)
class Budget:
    """The maximum cost and number of a job's calls; None: no limit."""

    budget_money: Decimal | None = setting(
        _("Cost budget"),
        _(
            "In the currency of the endpoint prices. No new calls start once this amount is "
            "spent. Leave empty for no limit."
        ),
        section=LIMITS,
        least=0,
        option="--budget",
        default=None,
    )
    budget_calls: int | None = setting(
        _("Call budget"),
        _("Retries and repairs count. Leave empty for no limit."),
        section=LIMITS,
        least=0,
        most=MAX_CALLS,
        default=None,
    )


@settings_class(kw_only=True)
class JobLimits(Budget):
    """What may be changed while a job runs."""

    priority: str = setting(
        _("Priority"),
        _("Of jobs that ask the same model, those of higher priority are answered first."),
        section=LIMITS,
        choices=Job.Priority.choices,
        default=Job.Priority.NORMAL.value,
    )
    most_lanes: int | None = setting(
        _("Worker processes"),
        _("How many may work on it at the same time. Leave empty for the usual number."),
        section=LIMITS,
        least=1,
        most=64,
        default=None,
    )


@settings_class(kw_only=True)
class LaunchSettings(JobLimits):
    """What every launch has. None of it is repeated by a launch like an earlier one."""

    first_only: bool = setting(
        _("One record first"),
        _("Pauses when the first record has ended, so that you can look at its result before the rest is paid for."),
        section=LIMITS,
        option="--one-first",
        default=False,
    )
    fresh: bool = setting(
        _("Ignore cached replies"),
        _("If this is off, a request that the same model has already answered is not sent again."),
        section=LIMITS,
        default=False,
    )

    @property
    def of_job(self) -> dict[str, Any]:
        """The fields of a new job that these settings are."""
        return {each.name: getattr(self, each.name) for each in declared(LaunchSettings)}
