"""What an action takes, declared once as a pydantic model; form, API, command and columns follow.

pydantic's `Field` says what a setting is called, its help, bounds and default. `AskedAs` marks what
pydantic has no word for. Texts are translated where they are shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

from django.db.models import Choices
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.fields import FieldInfo

from generation import errors
from generation.jobs.life_cycle import MAX_CALLS
from generation.models.jobs import Job

RECORDS, MODELS, LIMITS = "records", "models", "limits"
SECTIONS = (RECORDS, MODELS, LIMITS)
BOUNDS = ("ge", "le", "max_length", "pattern")
MOST_ENTRIES = 100  # of a list that declares no maximum, in a request


@dataclass(frozen=True, slots=True)
class AskedAs:
    """How a setting is asked for and kept. Annotate its type with it.

    Attributes:
        section: the step of the form that asks for it.
        offered: the form finds out the values that it offers.
        rows: of the form's field, for a long text.
        option: of the command, if it is not the name.
        column: the job's field that keeps the value, if a launch stores it as it is.
    """

    section: str = MODELS
    offered: bool = False
    rows: int = 0
    option: str = ""
    column: str = ""


class Settings(BaseModel):
    """What an action takes. Raises `refusal` for values that it cannot take."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, regex_engine="python-re")
    refusal: ClassVar[type[errors.GenerationError]] = errors.InvalidSettings

    @model_validator(mode="wrap")
    @classmethod
    def _refuse(cls, values: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise cls.refusal(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error

    @classmethod
    def stored_values(cls, job: Any) -> dict[str, Any]:
        """The values of the settings that a job keeps as they are."""
        return {each.name: getattr(job, each.asked.column) for each in settings_of(cls) if each.asked.column}

    @property
    def columns(self) -> dict[str, Any]:
        """The fields of a new job with these settings that are kept as they are, by column."""
        kept = [each for each in settings_of(self.__class__) if each.asked.column]
        return {each.asked.column: getattr(self, each.name) for each in kept}


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of `Settings`, as form, API and command read it.

    `kind`: its type, of each entry if it has `many`. `named`: it has values by name; with `many`,
    each is a list. `bounds`: of each value, by pydantic's names. `entries`: the maximum length of a
    list.
    """

    name: str
    field: FieldInfo
    asked: AskedAs
    kind: type
    many: bool
    named: bool
    bounds: Mapping[str, Any]
    entries: int

    @property
    def required(self) -> bool:
        return self.field.is_required()

    @property
    def default(self) -> Any:
        """Its value if none is given; None if it is required."""
        if self.required:
            return None
        return self.field.get_default(call_default_factory=True, validated_data={})

    @property
    def label(self) -> Promise:
        return gettext_lazy(self.field.title or "")

    @property
    def help(self) -> Promise:
        return gettext_lazy(self.field.description or "")

    @property
    def description(self) -> Promise:
        return gettext_lazy(self.field.description or self.field.title or "")

    @property
    def choices(self) -> Sequence[tuple[str, Any]] | None:
        """The values with their labels; empty if the form finds them out, None for any value."""
        if issubclass(self.kind, Choices):
            return self.kind.choices
        if self.asked.offered:
            return ()
        return None

    @property
    def api_name(self) -> str:
        return self.field.serialization_alias or self.name

    @property
    def option(self) -> str:
        return self.asked.option or f"--{self.name.replace('_', '-')}"


@cache
def settings_of(model: type[Settings]) -> tuple[Setting, ...]:
    """The settings of a model, in the order of the form."""
    found = [_setting(name, field) for name, field in model.model_fields.items()]
    return tuple(sorted(found, key=lambda each: SECTIONS.index(each.asked.section)))


def _setting(name: str, field: FieldInfo) -> Setting:
    asked, rules = AskedAs(), []
    for mark in field.metadata:
        if isinstance(mark, AskedAs):
            asked = mark
        else:
            rules.append(mark)
    kind, shapes, inner_rules = _innermost(field.annotation)
    entries = MOST_ENTRIES
    if shapes:  # what the field itself says is about the list
        entries = _bounds(rules).get("max_length", entries)
        rules = inner_rules
    return Setting(name, field, asked, kind, Sequence in shapes, Mapping in shapes, _bounds(rules), entries)


def _innermost(annotation: Any) -> tuple[Any, list[Any], list[Any]]:
    """The type of a value itself, the lists and mappings around it, and the rules for it."""
    shapes: list[Any] = []
    rules: list[Any] = []
    while parts := [part for part in get_args(annotation) if part is not NoneType]:
        if get_origin(annotation) is Annotated:
            annotation, *marks = parts
            for mark in marks:
                rules += mark.metadata
            continue
        if get_origin(annotation) in (Sequence, Mapping):
            shapes.append(get_origin(annotation))
        annotation = parts[-1]
    return annotation, shapes, rules


def _bounds(rules: Sequence[Any]) -> dict[str, Any]:
    bounds = {}
    for rule in rules:
        for name in BOUNDS:
            bound = getattr(rule, name, None)
            if bound is not None:
                bounds[name] = bound
    return bounds


class Budget(Settings):
    """The maximum cost and number of a job's calls; None: no limit."""

    budget_money: Annotated[Decimal | None, AskedAs(LIMITS, option="--budget")] = Field(
        None,
        title=_("Cost budget"),
        description=_(
            "In the currency of the endpoint prices. No new calls start once this amount is "
            "spent. Leave empty for no limit."
        ),
        ge=0,
    )
    budget_calls: Annotated[int | None, AskedAs(LIMITS)] = Field(
        None,
        title=_("Call budget"),
        description=_("Retries and repairs count. Leave empty for no limit."),
        ge=0,
        le=MAX_CALLS,
    )


class JobLimits(Budget):
    """What may be changed while a job runs."""

    priority: Annotated[Job.Priority, AskedAs(LIMITS)] = Field(
        Job.Priority.NORMAL,
        title=_("Priority"),
        description=_("Of jobs that ask the same model, those of higher priority are answered first."),
    )
    most_lanes: Annotated[int | None, AskedAs(LIMITS)] = Field(
        None,
        title=_("Worker processes"),
        description=_("How many may work on it at the same time. Leave empty for the usual number."),
        ge=1,
        le=64,
    )


class LaunchSettings(JobLimits):
    """What every launch has. None of it is repeated by a launch like an earlier one."""

    first_only: Annotated[bool, AskedAs(LIMITS, option="--one-first")] = Field(
        False,
        title=_("One record first"),
        description=_(
            "Pauses when the first record has ended, so that you can look at its result before the rest is paid for."
        ),
    )
    fresh: Annotated[bool, AskedAs(LIMITS)] = Field(
        False,
        title=_("Ignore cached replies"),
        description=_("If this is off, a request that the same model has already answered is not sent again."),
    )

    @property
    def of_job(self) -> dict[str, Any]:
        """The fields of a new job that these settings are."""
        return {name: getattr(self, name) for name in LaunchSettings.model_fields}
