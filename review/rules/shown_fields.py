"""What an answer shows: the same to the API, its schema, the shell, and the files of a bundle.

An answer is a dataclass or a TypedDict. Its fields are shown, and those of its properties that are
marked with `shown`. `Hidden[Batch]` is the type of a field that is not shown, and
`Annotated[int, Shown("unjudged")]` that of one that has another name there.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")
Getter = TypeVar("Getter", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Shown:
    """How a field or property is shown; as a decorator below `@property`, that it is.

    `name`: the shown one; empty: its own. `places`: after the point of a Decimal. `recent`: stored
    JSON may lack it, and it has its default then.
    """

    name: str = ""
    places: int = 8
    hidden: bool = False
    recent: bool = False

    def __call__(self, getter: Getter) -> Getter:
        getter.__dict__["shown"] = self
        return getter


HIDDEN = Shown(hidden=True)
PLAIN = Shown()
Hidden = Annotated[T, HIDDEN]
Recent = Annotated[T, Shown(recent=True)]


def shown(getter: Getter) -> Getter:
    """Show a property under its own name. Stands below `@property`."""
    return PLAIN(getter)


@dataclass(frozen=True, slots=True)
class ShownField:
    """A shown value of an answer: its name there, the attribute that has it, and its type.

    `default`: of a recent field.
    """

    name: str
    attribute: str
    hint: Any
    places: int
    is_recent: bool = False
    default: Any = None


@cache
def shown_fields(kind: type[Any]) -> tuple[ShownField, ...]:
    """The fields of an answer, then its properties, each in the order in which they are written."""
    hints = get_type_hints(kind, include_extras=True)
    defaults: dict[str, Any] = dict.fromkeys(hints)
    if not is_typeddict(kind):
        defaults = {field.name: field.default for field in fields(kind)}
    found = []
    for name, default in defaults.items():
        hint, how = _without_mark(hints[name])
        if not how.hidden:
            found.append(ShownField(how.name or name, name, hint, how.places, how.recent, default))
    for name, member in _members(kind).items():
        how = getattr(getattr(member, "fget", None), "shown", HIDDEN)
        if not how.hidden:
            found.append(ShownField(how.name or name, name, get_type_hints(member.fget)["return"], how.places))
    return tuple(found)


def _members(kind: type) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        members |= vars(base)
    return members


def _without_mark(hint: Any) -> tuple[Any, Shown]:
    """A type hint without its mark, and the mark."""
    if get_origin(hint) is not Annotated:
        return hint, PLAIN
    plain, *marks = get_args(hint)
    return plain, next((mark for mark in marks if isinstance(mark, Shown)), PLAIN)


def shown_values(item: Any) -> dict[str, Any]:
    """What a dataclass shows, by name."""
    kind: Any = type(item)
    return {field.name: getattr(item, field.attribute) for field in shown_fields(kind)}
