"""What people do to the site: recorded in the chain of accounts, beside what is done to accounts.

Who acts is known from the request; on the command line, and for what workers do, it is nobody.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date
from typing import Any, TypeVar

from django.db.models import QuerySet

from review.audit.trail import record_person
from review.models import Event, PersonEvent, User

Kind = PersonEvent.Kind
E = TypeVar("E", Event, PersonEvent)
MAX_VALUE = 500  # characters of a changed value
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(9900, 1, 1)  # of a filter

_acting: ContextVar[Callable[[], Any] | None] = ContextVar("the account of the request", default=None)


@contextmanager
def acting_for(account: Callable[[], Any]) -> Iterator[None]:
    """Within it, what is recorded was done by the account that the function returns.

    A function, because the API knows the account of a token only when its view begins.
    """
    token = _acting.set(account)
    try:
        yield
    finally:
        _acting.reset(token)


def acting_account() -> User | None:
    """The account of the request; None outside of requests and before signing in."""
    account = _acting.get()
    if account is None:
        return None
    user: User | None = account()
    if user is None or not user.is_authenticated:
        return None
    return user


def record_act(kind: Kind, what: str, name: str, actor: User | None = None, **data: Any) -> None:
    """Record that somebody did `what` (a verb in the past) to the thing called `name`.

    Values are integers, text, and lists and mappings of them. Raises RuntimeError outside
    `trail.recording_events`.
    """
    record_person(None, kind, actor or acting_account(), what=what, name=name, **data)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[str]]:
    """The fields that differ, each with its value before and after, as text."""
    differing = {}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            differing[name] = [_text(before.get(name)), _text(after.get(name))]
    return differing


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = str(value)
    if len(text) > MAX_VALUE:
        return f"{text[:MAX_VALUE]}…"
    return text


def acts(**filters: Any) -> QuerySet[PersonEvent]:
    """What was done to accounts and the site, filtered as `matching` says."""
    return matching(PersonEvent.objects.select_related("actor", "person"), **filters)


def matching(
    rows: QuerySet[E], *, actor: str = "", kind: str = "", since: date | None = None, until: date | None = None
) -> QuerySet[E]:
    """The events of an account and a kind. `since`, `until`: dates in UTC, both included."""
    given = {"actor__username": actor, "kind": kind, "at__date__gte": since, "at__date__lte": until}
    return rows.filter(**{name: value for name, value in given.items() if value})
