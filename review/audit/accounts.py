"""Holds the accounts against their events: role, open or closed, access to Django's admin, second factors."""

from collections.abc import Iterator, Sequence
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import transaction

from review.models import PersonEvent, User

CHUNK = 1000  # accounts in memory at a time
Kind = PersonEvent.Kind

UNRECORDED = "unrecorded"
NAMED = {  # what an event says of an account -> what a disagreement about it is called
    "role": "role",
    "active": "active",
    "staff": "keeper",
    "superuser": "keeper",
    "factors": "second-factor",
}
SAYS: dict[str, dict[str, Any]] = {  # kind of event -> what it says beside its data
    Kind.MADE: {"active": True, "staff": False, "superuser": False, "factors": []},
    Kind.FOUND: {},
    Kind.ROLE: {},
    Kind.KEEPER: {},
    Kind.CLOSED: {"active": False},
    Kind.OPENED: {"active": True},
    Kind.OWN_FACTOR: {},
    Kind.SECOND_FACTOR: {"factors": []},
}


def account_snapshot(user: User, factors: Sequence[str]) -> dict[str, Any]:
    """What an account is, as its first event says it. `factors`: the kinds of second factor, sorted."""
    return {
        "role": str(user.role),
        "active": user.is_active,
        "staff": user.is_staff,
        "superuser": user.is_superuser,
        "factors": list(factors),
    }


def factors_of(users: Sequence[User]) -> dict[int, list[str]]:
    """Account -> the kinds of second factor that it has, sorted."""
    found: dict[int, list[str]] = {user.pk: [] for user in users}
    rows = Authenticator.objects.filter(user__in=[user.pk for user in users]).order_by("type")
    for user, kind in rows.values_list("user_id", "type"):
        found[user].append(kind)
    return found


def disagreements() -> Iterator[tuple[User, str]]:
    """Accounts that are not what their events say, each with what is wrong."""
    last = 0
    while chunk := list(User.objects.filter(pk__gt=last).order_by("pk")[:CHUNK]):
        last = chunk[-1].pk
        for pk in dict.fromkeys(user.pk for user, _what in _compared(chunk)):
            # Once more while nobody can change it: what was changed between two of the statements above is no fault.
            with transaction.atomic():
                again = _compared(list(User.objects.select_for_update(no_key=True).filter(pk=pk)))
            yield from again


def _compared(users: Sequence[User]) -> list[tuple[User, str]]:
    factors = factors_of(users)
    told: dict[int, dict[str, Any]] = {}
    events = PersonEvent.objects.filter(person__in=[user.pk for user in users], kind__in=list(SAYS))
    for person, kind, data in events.order_by("sequence").values_list("person_id", "kind", "data"):
        told.setdefault(person, {}).update(SAYS[kind], **{name: data[name] for name in NAMED if name in data})
    wrong = []
    for user in users:
        if user.pk not in told:
            wrong.append((user, UNRECORDED))
            continue
        is_now = account_snapshot(user, factors[user.pk])
        names = {what for name, what in NAMED.items() if told[user.pk].get(name) != is_now[name]}
        wrong += [(user, what) for what in sorted(names)]
    return wrong
