"""Accounts: made, invited, changed, paused, closed, opened again, given a new password and rid of a lost second factor, by
admins. Nobody signs up.

Whatever is done to an account is written down beside it (`PersonEvent`), without passwords.
`review.audit.verification` compares the accounts with these events, so nothing else may write `role`,
`is_active`, `is_staff`, `is_superuser` or second factors.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from allauth.mfa.models import Authenticator
from django.db import IntegrityError
from django.db.models import F, QuerySet
from django.dispatch import receiver
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from knox.models import AuthToken

from review.audit.accounts import account_snapshot, factors_of
from review.audit.trail import record_person, recording_events
from review.errors import InvitationInvalid, NotAllowed, NotInvitable, RosterRefused
from review.models import PersonEvent, User, account_made
from review.people import invitations
from review.people.roster import Roster
from review.rules.permissions import Can, Operator, UserRole, require

CHANGEABLE = (
    "first_name", "last_name", "email", "institution", "hospital", "specialty", "languages", "stages", "daily_cap",
)  # fmt: skip


@recording_events()
def add_person(user: User, password: str | None, *, actor: User | Operator) -> User:
    """Store a new account with its first password; None: nobody can sign in until an invitation was used."""
    require(actor, Can.OVERSEE)
    if user.is_staff or user.is_superuser:
        _require_keeper(actor)
    user.set_password(password)
    user.save()
    record_person(user, PersonEvent.Kind.MADE, _by(actor), **account_snapshot(user, []))
    return user


def import_people(roster: Roster, *, actor: User | Operator, simulated: bool = False) -> list[User]:
    """Store the accounts of a file and invite each: all of them, or none.

    simulated: they are scripts' from their making, for good, and nobody is invited to them.

    Raises:
        RosterRefused: a row was refused, or somebody has made one of the accounts meanwhile.
    """
    if roster.refusals:
        raise RosterRefused("\n".join(map(str, roster.refusals)))
    if simulated and any(entry.user.role != UserRole.PHYSICIAN for entry in roster.entries):
        raise RosterRefused(_("Only physicians can be simulated."))
    try:
        if simulated:
            return _add_simulated([entry.user for entry in roster.entries], actor=actor)
        return invite_new([entry.user for entry in roster.entries], actor=actor)
    except IntegrityError:
        raise RosterRefused(_("One of the accounts was created in the meantime. Preview the file again.")) from None


@recording_events()
def _add_simulated(users: Sequence[User], *, actor: User | Operator) -> list[User]:
    for user in users:
        user.simulated = True
        add_person(user, None, actor=actor)
    return list(users)


@recording_events()
def invite_new(users: Sequence[User], *, actor: User | Operator) -> list[User]:
    """Store new accounts without a password and invite each, in one transaction."""
    for user in users:
        add_person(user, None, actor=actor)
        _invite(user, actor)
    return list(users)


@recording_events()
def invite(person_id: int, *, actor: User | Operator) -> User:
    """Make an invitation, for `invitations.link_of` to show its link once; one that was open before ends.

    Raises NotInvitable where the password has been set, or the account is closed.
    """
    require(actor, Can.OVERSEE)
    user = _locked(person_id)
    _require_access_to(user, actor)
    if not invitations.is_invitable(user):
        raise NotInvitable
    return _invite(user, actor)


@recording_events()
def expire_invitation(person_id: int, *, actor: User | Operator) -> User:
    """End an invitation before its time; twice is once."""
    require(actor, Can.OVERSEE)
    user = _locked(person_id)
    _require_access_to(user, actor)
    if user.invited_at is not None:
        user.invited_at = None
        user.save(update_fields=["invited_at"])
        record_person(user, PersonEvent.Kind.UNINVITED, _by(actor))
    return user


@recording_events()
def accept_invitation(person_id: int, token: str, password: str) -> User:
    """Set the first password, with which the invitation is used up. Raises InvitationInvalid."""
    user = User.objects.select_for_update(no_key=True).filter(pk=person_id).first()
    if user is None or not invitations.is_valid(user, token):
        raise InvitationInvalid
    user.set_password(password)
    user.invited_at = None
    user.save(update_fields=["password", "invited_at"])
    record_person(user, PersonEvent.Kind.PASSWORD, user, invitation=True)
    return user


@receiver(account_made)
@recording_events()
def note_account(sender: type[User], *, user: User, **_more: Any) -> None:  # noqa: ARG001
    """The event of an account that the operator or the demo has made."""
    record_person(user, PersonEvent.Kind.MADE, None, **account_snapshot(user, []))


@recording_events()
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


@recording_events()
def set_role(person_id: int, role: UserRole, *, actor: User) -> User:
    """Give an account another role. Its sessions and API tokens end: they were given to somebody with other rights."""
    require(actor, Can.OVERSEE)
    if person_id == actor.pk:
        raise NotAllowed(_("You cannot change your own role."))
    user = _locked(person_id)
    if user.role != role:
        before, user.role = user.role, role
        user.save(update_fields=["role"])
        record_person(user, PersonEvent.Kind.ROLE, actor, before=before, role=str(role), **_end_access(user))
    return user


@recording_events()
def set_keeper(person_id: int, *, staff: bool, superuser: bool, actor: User) -> User:
    """Open Django's admin to an account, or close it. Only for somebody who has that access."""
    _require_keeper(actor)
    if person_id == actor.pk:
        raise NotAllowed(_("You cannot change your own access to this admin."))
    user = _locked(person_id)
    if (user.is_staff, user.is_superuser) != (staff, superuser):
        user.is_staff, user.is_superuser = staff, superuser
        user.save(update_fields=["is_staff", "is_superuser"])
        record_person(user, PersonEvent.Kind.KEEPER, actor, staff=staff, superuser=superuser, **_end_access(user))
    return user


@recording_events()
def set_paused(person_id: int, paused: bool, *, actor: User) -> User:
    """Hand a physician no new case, or hand out again. What is in hand can be finished; twice is once."""
    require(actor, Can.OVERSEE)
    user = _locked(person_id)
    if (user.paused_at is not None) != paused:
        user.paused_at = timezone.now() if paused else None
        user.save(update_fields=["paused_at"])
        record_person(user, PersonEvent.Kind.PAUSED if paused else PersonEvent.Kind.RESUMED, actor)
    return user


@recording_events()
def set_active(person_id: int, active: bool, *, actor: User) -> User:
    """Close an account, or open it again. What the person did stays; a case in hand goes on when its lease runs out.

    Sessions and API tokens end for good when it is closed.
    """
    require(actor, Can.OVERSEE)
    if person_id == actor.pk:
        raise NotAllowed(_("You cannot close your own account."))
    user = _locked(person_id)
    if user.is_active != active:
        user.is_active = active
        user.save(update_fields=["is_active"])
        if active:
            record_person(user, PersonEvent.Kind.OPENED, actor)
        else:
            record_person(user, PersonEvent.Kind.CLOSED, actor, **_end_access(user))
    return user


@recording_events()
def set_password(person_id: int, password: str, *, actor: User | Operator) -> User:
    """Give somebody a new password; every session and every API token of that person ends with the old one."""
    require(actor, Can.OVERSEE)
    user = _locked(person_id)
    _require_access_to(user, actor)
    user.set_password(password)
    user.save(update_fields=["password"])
    record_person(user, PersonEvent.Kind.PASSWORD, _by(actor), **_end_access(user))
    return user


@recording_events()
def set_own_password(user: User, password: str) -> None:
    """Change one's own password; every API token and every other session ends with the old one."""
    user.set_password(password)
    user.save(update_fields=["password"])
    record_person(user, PersonEvent.Kind.PASSWORD, user, tokens=_drop_tokens(user))


@recording_events()
def take_second_factor(person_id: int, *, actor: User | Operator) -> User:
    """Take away what somebody signs in with beside the password, recovery codes included; twice is once."""
    require(actor, Can.OVERSEE)
    if isinstance(actor, User) and person_id == actor.pk:  # the account's own page asks who it is first
        raise NotAllowed(_("You cannot remove your own second factor here. Remove it in your account settings."))
    user = _locked(person_id)
    _require_access_to(user, actor)
    gone, _each = Authenticator.objects.filter(user=user).delete()
    if gone:
        record_person(user, PersonEvent.Kind.SECOND_FACTOR, _by(actor))
    return user


def noting_factors(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Decorate a page on which people change their own second factor: the change and its event are one transaction."""

    @wraps(view)
    def noted(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        user = request.user
        if request.method != "POST" or not isinstance(user, User):
            return view(request, *args, **kwargs)
        rows = Authenticator.objects.filter(user=user).order_by("pk").values_list("pk", flat=True)
        with recording_events():
            before = list(rows.all())
            answer = view(request, *args, **kwargs)
            if list(rows.all()) != before:
                record_person(user, PersonEvent.Kind.OWN_FACTOR, user, factors=factors_of([user])[user.pk])
        return answer

    return noted


def may_take_over(user: User, actor: User | Operator) -> bool:
    """Whether `actor` may give this account a new password or take its second factor away, and so could sign in with it.

    Accounts with access to Django's admin can do more than an admin: only a superuser may do this to them.
    """
    return not (user.is_staff or user.is_superuser) or not isinstance(actor, User) or actor.is_superuser


def account_trail(person: User) -> QuerySet[PersonEvent]:
    """What was done to an account, the newest first."""
    return PersonEvent.objects.filter(person=person).select_related("actor").order_by("-id")


def _end_access(user: User) -> dict[str, int]:
    """End all sessions, API tokens and the invitation of an account, for the event to say so."""
    User.objects.filter(pk=user.pk).update(sessions_ended=F("sessions_ended") + 1, invited_at=None)
    user.refresh_from_db(fields=["sessions_ended", "invited_at"])
    return {"tokens": _drop_tokens(user)}


def _drop_tokens(user: User) -> int:
    return int(AuthToken.objects.filter(user=user).delete()[0])


def _require_keeper(actor: User | Operator) -> None:
    require(actor, Can.OVERSEE)
    if isinstance(actor, User) and not actor.is_superuser:
        raise NotAllowed


def _require_access_to(user: User, actor: User | Operator) -> None:
    if not may_take_over(user, actor):
        raise NotAllowed(_("Only a superuser can change how an account with access to Django's admin signs in."))


def _invite(user: User, actor: User | Operator) -> User:
    user.invited_at = timezone.now()
    user.save(update_fields=["invited_at"])
    record_person(user, PersonEvent.Kind.INVITED, _by(actor))
    return user


def _by(actor: User | Operator) -> User | None:
    return actor if isinstance(actor, User) else None


def _locked(person_id: int) -> User:
    return User.objects.select_for_update(no_key=True).get(pk=person_id)
