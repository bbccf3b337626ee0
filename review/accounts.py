"""Accounts: made, changed, paused, closed, opened again, given a new password and rid of a lost second factor, by admins.
Nobody signs up.

Whatever is done to an account is written down beside it (`PersonEvent`), without passwords.
"""

from collections.abc import Mapping
from typing import Any

from allauth.mfa.models import Authenticator
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from knox.models import AuthToken

from review.errors import NotAllowed
from review.models import PersonEvent, User
from review.permissions import Can, require
from review.trail import record_person, recorded

CHANGEABLE = ("first_name", "last_name", "hospital", "specialty", "languages", "stages", "daily_cap")


@recorded()
def add_person(user: User, password: str, *, actor: User) -> User:
    """Store a new account with its first password."""
    require(actor, Can.OVERSEE)
    user.set_password(password)
    user.save()
    record_person(user, PersonEvent.Kind.MADE, actor, role=user.role)
    return user


@recorded()
def edit_person(person_id: int, changes: Mapping[str, Any], *, actor: User) -> User:
    """Change what is recorded about a person; `changes` by the names in CHANGEABLE. What stays as it was is not noted."""
    require(actor, Can.OVERSEE)
    user = _locked(person_id)
    changed = {name: value for name, value in changes.items() if getattr(user, name) != value}
    if unknown := changed.keys() - set(CHANGEABLE):
        raise ValueError(f"not for admins to change: {sorted(unknown)}")
    if changed:
        before = {name: getattr(user, name) for name in changed}
        for name, value in changed.items():
            setattr(user, name, value)
        user.save(update_fields=list(changed))
        record_person(user, PersonEvent.Kind.EDITED, actor, before=before, after=changed)
    return user


@recorded()
def set_paused(person_id: int, paused: bool, *, actor: User) -> User:
    """Hand a physician no new case, or hand out again. What is in hand can be finished; twice is once."""
    require(actor, Can.OVERSEE)
    user = _locked(person_id)
    if (user.paused_at is not None) != paused:
        user.paused_at = timezone.now() if paused else None
        user.save(update_fields=["paused_at"])
        record_person(user, PersonEvent.Kind.PAUSED if paused else PersonEvent.Kind.RESUMED, actor)
    return user


@recorded()
def set_active(person_id: int, active: bool, *, actor: User) -> User:
    """Close an account, or open it again. What the person did stays; a case in hand goes on when its lease runs out."""
    require(actor, Can.OVERSEE)
    if person_id == actor.pk:
        raise NotAllowed(_("Nobody closes the own account."))
    user = _locked(person_id)
    if user.is_active != active:
        user.is_active = active
        user.save(update_fields=["is_active"])
        record_person(user, PersonEvent.Kind.OPENED if active else PersonEvent.Kind.CLOSED, actor)
    return user


@recorded()
def set_password(person_id: int, password: str, *, actor: User) -> User:
    """Give somebody a new password; every session and every API token of that person ends with the old one."""
    require(actor, Can.OVERSEE)
    user = _locked(person_id)
    user.set_password(password)
    user.save(update_fields=["password"])
    AuthToken.objects.filter(user=user).delete()
    record_person(user, PersonEvent.Kind.PASSWORD, actor)
    return user


@recorded()
def take_second_factor(person_id: int, *, actor: User) -> User:
    """Take away what somebody signs in with beside the password, recovery codes included; twice is once."""
    require(actor, Can.OVERSEE)
    if person_id == actor.pk:  # the account's own page asks who it is first
        raise NotAllowed(_("Nobody takes away the own second factor here. Remove it in your account."))
    user = _locked(person_id)
    gone, _each = Authenticator.objects.filter(user=user).delete()
    if gone:
        record_person(user, PersonEvent.Kind.SECOND_FACTOR, actor)
    return user


def account_trail(person: User) -> QuerySet[PersonEvent]:
    """What was done to an account, the newest first."""
    return PersonEvent.objects.filter(person=person).select_related("actor").order_by("-id")


def _locked(person_id: int) -> User:
    return User.objects.select_for_update(no_key=True).get(pk=person_id)
