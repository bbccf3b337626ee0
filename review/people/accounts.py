"""Services for accounts, which only admins create: nobody can sign up.

Every change is recorded as a `PersonEvent`, without passwords. `review.audit.verification` compares
the accounts with these events, so nothing else may write `role`, `is_active`, `is_staff`,
`is_superuser` or second factors.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _
from knox.models import AuthToken

from review.audit.accounts import account_snapshot, factors_of
from review.audit.chain_entries import canonical
from review.audit.trail import (
    PERSON_EVENTS,
    lock_own_account,
    record,
    record_own_act,
    record_person,
    recording_events,
)
from review.common.second_factor import KINDS
from review.errors import InvitationInvalid, NotAllowed, NotInvitable, RosterRefused
from review.models import Assignment, Case, ChainHead, Declined, Event, PersonEvent, User
from review.people import invitations
from review.people.roster import Roster, RosterRow, conflicts, new_account
from review.rules.permissions import Can, Operator, UserRole, allowed, require
from review.rules.state_machine import Phase, Role
from review.rules.text import plain_name

NAMES = ("first_name", "last_name", "institution", "hospital")
PERSONAL = ("first_name", "last_name", "email", "institution", "hospital")
CHANGEABLE = (*PERSONAL, "specialty", "languages", "stages", "senior", "daily_cap")


@recording_events()
def add_person(user: User, password: str | None, *, actor: User | Operator) -> User:
    """Create an account with its first password; with None, sign-in needs an invitation.

    Raises ValidationError if the password violates the rules for passwords.
    """
    require(actor, Can.OVERSEE)
    if user.is_staff or user.is_superuser:
        _require_superuser(actor)
    if password is not None:
        _check_password(password, user)
    for name in NAMES:
        setattr(user, name, plain_name(getattr(user, name)))
    user.set_password(password)
    user.save()
    record_person(user, PersonEvent.Kind.MADE, actor, **account_snapshot(user, []))
    return user


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise ValidationError({"password": error}) from None


def check_new(**values: str) -> User:
    """`new_account`, which must have a username and e-mail address that no other account has."""
    user = new_account(**values)
    if refused := [reason for _row, reason in conflicts([RosterRow(1, user)])]:
        raise ValidationError({"name": refused})
    return user


def import_people(roster: Roster, *, actor: User | Operator, simulated: bool = False) -> list[User]:
    """Create the accounts listed in a file and invite each person: all or none.

    simulated: the accounts belong permanently to scripts, and nobody is invited.

    Raises:
        RosterRefused: a row was refused, or one of the accounts was created in the meantime.
    """
    if roster.refusals:
        raise RosterRefused("\n".join(map(str, roster.refusals)))
    if simulated and any(entry.user.role != UserRole.PHYSICIAN for entry in roster.entries):
        raise RosterRefused(_("Only physicians can be simulated."))
    try:
        return invite_new([entry.user for entry in roster.entries], actor=actor, simulated=simulated)
    except IntegrityError:
        raise RosterRefused(_("One of the accounts was created in the meantime. Preview the file again.")) from None


@recording_events()
def invite_new(users: list[User], *, actor: User | Operator, simulated: bool = False) -> list[User]:
    """Create accounts without a password and invite their owners, in one transaction.

    Nobody is invited to simulated ones.
    """
    for user in users:
        user.simulated = simulated
        add_person(user, None, actor=actor)
        if not simulated:
            _invite(user, actor)
    return users


@recording_events()
def invite(person_id: int, *, actor: User | Operator) -> User:
    """Create an invitation, which replaces an open one; see `invitations.invitation_link`.

    Raises NotInvitable if the password has been set, or the account is closed.
    """
    user = _lock_user(person_id, actor)
    if not invitations.is_invitable(user):
        raise NotInvitable
    return _invite(user, actor)


@recording_events()
def withdraw_invitation(person_id: int, *, actor: User | Operator) -> User:
    """Withdraw an open invitation. Idempotent."""
    user = _lock_user(person_id, actor)
    if user.invited_at is not None:
        _store(user, invited_at=None)
        record_person(user, PersonEvent.Kind.UNINVITED, actor)
    return user


@recording_events()
def accept_invitation(person_id: int, token: str, password: str, languages: Sequence[str] = ()) -> User:
    """Set the first password, which uses up the invitation. Raises InvitationInvalid.

    `languages`: in which a physician reviews, if they were asked; none leaves what is on record.
    """
    user = User.objects.select_for_update(no_key=True).filter(pk=person_id).first()
    if user is None or not invitations.is_valid(user, token):
        raise InvitationInvalid
    user.set_password(password)
    user.invited_at = None
    user.save(update_fields=["password", "invited_at"])
    record_person(user, PersonEvent.Kind.PASSWORD, user, invitation=True)
    if languages:
        _store_own_languages(user, languages)
    return user


@recording_events()
def set_own_languages(user: User, languages: Sequence[str]) -> None:
    """Store the languages in which a physician says that they review; none: any."""
    require(user, Can.REVIEW)
    _store_own_languages(lock_own_account(user), languages)


def _store_own_languages(user: User, languages: Sequence[str]) -> None:
    before, after = user.languages, list(languages)
    if before == after:
        return
    sealed = {"before": _sealed(user, {"languages": before}), "after": _sealed(user, {"languages": after})}
    _store(user, languages=after)
    record_own_act(user, PersonEvent.Kind.EDITED, **sealed)


@recording_events()
def edit_person(person_id: int, changes: Mapping[str, Any], *, actor: User | Operator) -> User:
    """Edit the profile of a person; `changes` by the names in CHANGEABLE.

    Records only real changes.
    """
    user = _lock_user(person_id, actor)
    values = dict(changes)
    for name in values.keys() & set(NAMES):
        values[name] = plain_name(values[name])
    changed = {name: value for name, value in values.items() if getattr(user, name) != value}
    if unknown := changed.keys() - set(CHANGEABLE):
        raise ValueError(f"not for admins to change: {sorted(unknown)}")
    if "email" in changed and user.email:  # where the link was sent
        user = withdraw_invitation(person_id, actor=actor)
    if changed:
        before = _sealed(user, {name: getattr(user, name) for name in changed})
        _store(user, **changed)
        record_person(user, PersonEvent.Kind.EDITED, actor, before=before, after=_sealed(user, changed))
        theirs = Q(reserved_for=user)
        if changed.get("senior") is False:  # where a policy asks for senior physicians, nobody could take them
            _free_reserved(theirs, actor)
        if "hospital" in changed:  # it may now be that of the case's first reviewer, or of whom it is reserved for
            reviewed = Assignment.objects.filter(role=Role.PRIMARY, physician=user).values("case")
            _free_reserved(theirs | Q(case__in=reviewed), actor, other_hospital=True)
    return user


@recording_events()
def set_role(person_id: int, role: UserRole, *, actor: User | Operator, **because: str) -> User:
    """Change an account's role and end its sessions and API tokens, which were for other rights.

    A new physician is offered no case of which they have read what is hidden from physicians.
    """
    if person_id == actor.pk:
        raise NotAllowed(_("You cannot change your own role."))
    user = _lock_user(person_id, actor)
    if user.role != role:
        change = {"before": user.role, "role": str(role)}
        _store(user, role=role)
        record_person(user, PersonEvent.Kind.ROLE, actor, **change, **because, **end_access(user))
        if role == UserRole.PHYSICIAN:
            _exclude_read_cases(user)
        else:
            _free_reserved(Q(reserved_for=user), actor)
            _free_unanswered(user, actor)
    return user


def _free_unanswered(user: User, actor: User | Operator) -> None:
    """Let others take what this person holds without an answer, and may now read the reviews of."""
    held = Assignment.objects.select_for_update(of=("self",)).filter(
        physician=user, hold=Assignment.Hold.HELD, phase=Phase.COMMIT
    )
    for assignment in held.select_related("case").defer("case__spec").order_by("pk"):
        if not assignment.case.is_copy:
            assignment.free()
            data = {"role": assignment.role, "taken_from": user.pk, "given_to": None}
            record(assignment.case, Event.Kind.REASSIGNED, actor, **data)


def _exclude_read_cases(user: User) -> None:
    """Never offer the cases whose reviews, or traps before a first look, the user has read.

    Closed ones, too: they may be reopened.
    """
    reads = PersonEvent.objects.filter(kind=PersonEvent.Kind.READ, actor=user, person=None)
    opened = {data["case"] for data in reads.values_list("data", flat=True)}
    hidden = Q(reviews__isnull=False) | Q(spec__policy__reveal_first_look=True)
    cases = Case.objects.filter(hidden, pk__in=opened).exclude(assignments__physician=user)
    Declined.objects.bulk_create(
        [
            Declined(case=case, physician=user, reason=Declined.Reason.OTHER, at=timezone.now())
            for case in cases.only("pk").distinct()
        ],
        ignore_conflicts=True,
    )


@recording_events()
def set_admin_access(person_id: int, *, staff: bool, superuser: bool, actor: User) -> User:
    """Grant or revoke access to Django's admin. Only superusers may do this."""
    if person_id == actor.pk:
        raise NotAllowed(_("You cannot change your own access to this admin."))
    user = _lock_user(person_id, actor)
    _require_superuser(User.objects.get(pk=actor.pk))
    if (user.is_staff, user.is_superuser) != (staff, superuser):
        _store(user, is_staff=staff, is_superuser=superuser)
        record_person(user, PersonEvent.Kind.KEEPER, actor, staff=staff, superuser=superuser, **end_access(user))
    return user


@recording_events()
def set_paused(person_id: int, paused: bool, *, actor: User) -> User:
    """Stop or resume assigning new cases to a physician.

    Cases in progress can be finished; reserved ones are free for others. Idempotent.
    """
    user = _lock_user(person_id, actor)
    if (user.paused_at is not None) != paused:
        paused_at, kind = None, PersonEvent.Kind.RESUMED
        if paused:
            paused_at, kind = timezone.now(), PersonEvent.Kind.PAUSED
        _store(user, paused_at=paused_at)
        record_person(user, kind, actor)
        if paused:
            _free_reserved(Q(reserved_for=user), actor)
    return user


@recording_events()
def set_active(person_id: int, active: bool, *, actor: User | Operator, **because: str) -> User:
    """Close or reopen an account.

    Its work remains; a held case is free again when its lease expires, a reserved one at once.

    Closing ends all sessions and API tokens for good.
    """
    if person_id == actor.pk:
        raise NotAllowed(_("You cannot close your own account."))
    user = _lock_user(person_id, actor)
    if user.is_active != active:
        _store(user, is_active=active)
        if active:
            record_person(user, PersonEvent.Kind.OPENED, actor, **because)
        else:
            record_person(user, PersonEvent.Kind.CLOSED, actor, **because, **end_access(user))
            _free_reserved(Q(reserved_for=user), actor)
    return user


def _free_reserved(which: Q, actor: User | Operator, **only: bool) -> None:
    """Let anybody take these reserved cases, except copies, which nobody else may.

    What a person holds stays held; if its lease runs out, it is reserved for nobody.
    """
    not_done = (Assignment.Hold.OPEN, Assignment.Hold.HELD)
    rows = Assignment.objects.filter(which, reserved_for__isnull=False, hold__in=not_done, **only)
    reserved = rows.select_for_update(of=("self",))
    for assignment in reserved.select_related("case").defer("case__spec").order_by("pk"):
        if not assignment.case.is_copy:
            assignment.reserved_for = None
            assignment.save(update_fields=["reserved_for"])
            data = {"role": assignment.role, "taken_from": None, "given_to": None}
            record(assignment.case, Event.Kind.REASSIGNED, actor, **data)


@recording_events()
def set_password(person_id: int, password: str, *, actor: User | Operator) -> User:
    """Set an account's password and end all its sessions and API tokens.

    Raises ValidationError if the password violates the rules for passwords.
    """
    user = _lock_user(person_id, actor)
    _check_password(password, user)
    user.set_password(password)
    user.save(update_fields=["password"])
    record_person(user, PersonEvent.Kind.PASSWORD, actor, **end_access(user))
    return user


@recording_events()
def set_own_password(user: User, password: str) -> None:
    """Set the user's own password and end the user's API tokens and other sessions."""
    lock_own_account(user)  # before its password differs
    user.set_password(password)
    user.save(update_fields=["password"])
    record_own_act(user, PersonEvent.Kind.PASSWORD, tokens=delete_tokens(user))


@recording_events()
def remove_second_factor(person_id: int, *, actor: User | Operator) -> User:
    """Remove an account's second factors, including recovery codes. Idempotent."""
    if person_id == actor.pk:  # the account settings ask for the password again
        raise NotAllowed(_("You cannot remove your own second factor here. Remove it in your account settings."))
    user = _lock_user(person_id, actor)
    deleted, _by_model = Authenticator.objects.filter(user=user).delete()
    if deleted:
        record_person(user, PersonEvent.Kind.SECOND_FACTOR, actor)
    return user


def record_factor_changes(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Decorate a view that changes the user's own second factor, to record its event atomically.

    A new factor ends the user's API tokens and other sessions, which were begun without it.
    """

    @wraps(view)
    def recording_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        user = request.user
        if request.method != "POST" or not isinstance(user, User):
            return view(request, *args, **kwargs)
        rows = Authenticator.objects.filter(user=user).order_by("pk").values_list("pk", "type")
        with recording_events():
            lock_own_account(user)  # before any factor, as everywhere
            before = list(rows.all())
            response = view(request, *args, **kwargs)
            if (after := list(rows.all())) != before:
                ended: dict[str, int] = {}
                if any(kind in KINDS for _pk, kind in {*after} - {*before}):
                    ended = end_access(user)
                    update_session_auth_hash(request, user)  # this session goes on
                record_own_act(user, PersonEvent.Kind.OWN_FACTOR, factors=factors_of([user])[user.pk], **ended)
        return response

    return recording_view


def may_manage(user: User, actor: User | Operator) -> bool:
    """Whether `actor` may change the account `user`: its profile, role, state or way to sign in.

    Accounts with access to Django's admin have more rights than admins: only superusers may change
    them, and their owners.
    """
    if actor.is_superuser:
        return True
    return allowed(actor, Can.OVERSEE) and (actor == user or not (user.is_staff or user.is_superuser))


def account_trail(person: User) -> QuerySet[PersonEvent]:
    """The events of an account, newest first."""
    return PersonEvent.objects.filter(person=person).select_related("actor").order_by("-id")


def end_access(user: User) -> dict[str, int]:
    """End an account's sessions, API tokens and invitation; returns data for the event."""
    User.objects.filter(pk=user.pk).update(sessions_ended=F("sessions_ended") + 1, invited_at=None)
    user.refresh_from_db(fields=["sessions_ended", "invited_at"])
    return {"tokens": delete_tokens(user)}


def delete_tokens(user: User, **which: str) -> int:
    """Delete the user's API tokens: all, or those that these fields name. Returns how many."""
    _rows, by_model = AuthToken.objects.filter(user=user, **which).delete()  # names of tokens are rows, too
    return int(by_model.get(AuthToken._meta.label, 0))


def _require_superuser(actor: User | Operator) -> None:
    require(actor, Can.OVERSEE)
    if not actor.is_superuser:
        raise NotAllowed


def _invite(user: User, actor: User | Operator) -> User:
    _store(user, invited_at=timezone.now())
    record_person(user, PersonEvent.Kind.INVITED, actor)
    return user


def _store(user: User, **values: Any) -> None:
    for name, value in values.items():
        setattr(user, name, value)
    user.save(update_fields=list(values))


def _sealed(user: User, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values as events hold them: names and addresses, which may have to go one day, as digests."""
    key = bytes.fromhex(ChainHead.objects.get(pk=PERSON_EVENTS).key)
    sealed = dict(values)
    for name in values.keys() & PERSONAL:
        sealed[name] = hmac.new(key, canonical([user.pk, values[name]]), "sha256").hexdigest()[:16]
    return sealed


def _lock_user(person_id: int, actor: User | Operator) -> User:
    """The account, locked like the actor's own: two admins may end each other's rights at once.

    Raises NotAllowed if the actor, as their account is now, may not change it.
    """
    rows = User.objects.select_for_update(no_key=True).order_by("pk").in_bulk({person_id, actor.pk or person_id})
    if isinstance(actor, User):
        actor = rows[actor.pk]
    require(actor, Can.OVERSEE)
    if (user := rows.get(person_id)) is None:
        raise User.DoesNotExist
    if not may_manage(user, actor):
        raise NotAllowed(_("Only a superuser can change an account with access to Django's admin."))
    return user
