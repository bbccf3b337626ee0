"""Accounts in the trail: their first event, and whether they are still what events say.

Compared are role, open, paused, senior, admin access, second factors.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from allauth.mfa.models import Authenticator
from django.dispatch import receiver

from review.audit.chain_entries import NOT_OURS
from review.audit.trail import record_person, recording_events
from review.models import PersonEvent, User, account_created

Kind = PersonEvent.Kind

UNRECORDED = "unrecorded"
ATTRIBUTES = ("role", "active", "paused", "senior", "staff", "superuser", "factors")  # that events record
MISMATCH_NAMES = {"staff": "keeper", "superuser": "keeper", "factors": "second-factor"}  # of the others, their own
IMPLIED_DATA: dict[str, dict[str, Any]] = {  # kind of event -> attributes it implies besides its data
    Kind.MADE: {"active": True, "paused": False, "staff": False, "superuser": False, "factors": []},
    Kind.PAUSED: {"paused": True},
    Kind.RESUMED: {"paused": False},
    Kind.CLOSED: {"active": False},
    Kind.OPENED: {"active": True},
    Kind.SECOND_FACTOR: {"factors": []},
}
TELLING = (*IMPLIED_DATA, Kind.FOUND, Kind.EDITED, Kind.ROLE, Kind.KEEPER, Kind.OWN_FACTOR)


def account_snapshot(user: User, factors: Sequence[str]) -> dict[str, Any]:
    """The state of an account, as its first event records it.

    Args:
        factors: the kinds of second factor, sorted.
    """
    return {
        "role": str(user.role),
        "active": user.is_active,
        "senior": user.senior,
        "staff": user.is_staff,
        "superuser": user.is_superuser,
        "factors": list(factors),
    }


@receiver(account_created)
@recording_events()
def record_new_account(sender: type[User], *, user: User, **_more: Any) -> None:  # noqa: ARG001
    """Record the creation of an account by the operator or the demo."""
    record_person(user, PersonEvent.Kind.MADE, None, **account_snapshot(user, []))


def factors_of(users: Sequence[User]) -> dict[int, list[str]]:
    """The kinds of second factor that each account has, sorted, by primary key of the account."""
    factors: dict[int, list[str]] = {user.pk: [] for user in users}
    rows = Authenticator.objects.filter(user__in=[user.pk for user in users]).order_by("type")
    for user, kind in rows.values_list("user_id", "type"):
        factors[user].append(kind)
    return factors


def mismatches(accounts: Collection[int]) -> list[tuple[int, str]]:
    """The accounts that differ from their events, each with the name of the mismatch."""
    users = list(User.objects.filter(pk__in=accounts).order_by("pk"))
    factors = factors_of(users)
    recorded: dict[int, dict[str, Any]] = {}
    events = PersonEvent.objects.filter(person__in=accounts, kind__in=TELLING)
    for person, kind, data in events.order_by("sequence").values_list("person_id", "kind", "data"):
        with suppress(*NOT_OURS):  # the check of the chain names such an event
            values = data
            if kind == Kind.EDITED:
                values = data.get("after", {})
            attributes = {name: values[name] for name in ATTRIBUTES if name in values}
            recorded.setdefault(person, {}).update(IMPLIED_DATA.get(kind, {}), **attributes)
    result = []
    for user in users:
        if user.pk not in recorded:
            result.append((user.pk, UNRECORDED))
            continue
        current = {**account_snapshot(user, factors[user.pk]), "paused": user.paused_at is not None}
        # `found` does not tell whether an account is paused; older events do not tell of seniors.
        expected = {"paused": current["paused"], "senior": False, **recorded[user.pk]}
        differing = set()
        for name in ATTRIBUTES:
            if expected.get(name) != current[name]:
                differing.add(MISMATCH_NAMES.get(name, name))
        result += [(user.pk, name) for name in sorted(differing)]
    return result
