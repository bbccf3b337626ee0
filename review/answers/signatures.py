"""Signing off a review: under which name, with which meaning, and with what the policy asks for: the password, a code of the
physician's second factor, or both."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from allauth.mfa import app_settings as mfa
from allauth.mfa.models import Authenticator
from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth.signals import user_login_failed
from django.core.cache import cache
from django.http import HttpRequest

from review import errors
from review.models import Assignment, User
from review.rules.state_machine import Policy, Role, State


class Meaning(StrEnum):
    """What a signature under a review says."""

    REVIEW = "review"
    VERIFICATION = "verification"
    ADJUDICATION = "adjudication"


MEANINGS = {
    State.PRIMARY: Meaning.REVIEW,
    State.SECONDARY: Meaning.VERIFICATION,
    State.ADJUDICATION: Meaning.ADJUDICATION,
}


def meaning(role: Role) -> Meaning:
    """What the signature of this role means."""
    return MEANINGS[role.stage]


def name(physician: User) -> str:
    """The name under which a physician signs now, with the account's, which is nobody else's."""
    full = physician.get_full_name()
    return f"{full} ({physician.username})"[:200] if full else physician.username


def _policy(physician: User, posted: Assignment, token: uuid.UUID) -> Policy | None:
    """Only for who holds it under this token: anybody else's submit is refused as such, whatever it is signed with."""
    held = posted.physician_id == physician.pk and posted.token == token
    return posted.case.frozen.policy if held else None


def check(physician: User, posted: Assignment, token: uuid.UUID, password: str) -> None:
    """Raises SignatureRefused where the policy asks for the password and this is not it.

    Hashing a password is slow by intention, so this comes before the transaction that holds the case.
    """
    policy = _policy(physician, posted, token)
    if policy is not None and policy.sign_with_password and not physician.check_password(password):
        raise errors.SignatureRefused


def check_code(physician: User, policy: Policy, code: str) -> None:
    """Use up `code` where the policy asks for one. Last before the review is written: each code counts once.

    Raises:
        CodeRefused: it is not the one of now, or was used. NoSecondFactor: the physician has none.
    """
    if not policy.sign_with_second_factor:
        return
    if not has_second_factor(physician):
        raise errors.NoSecondFactor
    if not takes_code(physician, code):
        raise errors.CodeRefused


def has_second_factor(user: User) -> bool:
    """Whether the user has set up an authenticator app."""
    return bool(Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists())


def takes_code(user: User, code: str, *, recovery: bool = False) -> bool:
    """Whether `code` is the one that the user's app shows now, or with `recovery` an unused recovery code; it is used then."""
    kinds = [Authenticator.Type.TOTP, *([Authenticator.Type.RECOVERY_CODES] if recovery else [])]
    found = Authenticator.objects.filter(user=user, type__in=kinds)
    return any(one.wrap().validate_code(code) and first_use(one, code) for one in found)


def first_use(authenticator: Authenticator, code: str) -> bool:
    """Whether a code that `authenticator` has just found valid was not used before.

    allauth remembers a used code for one period, but with a tolerance takes it for longer.
    """
    if authenticator.type != Authenticator.Type.TOTP:
        return True  # a recovery code is marked where it is stored
    digits = "".join(filter(str.isdigit, code))
    seconds = mfa.TOTP_PERIOD * (2 * mfa.TOTP_TOLERANCE + 1)
    return cache.add(f"review.signatures.used:{authenticator.user_id}:{digits}", True, timeout=seconds)


@contextmanager
def count_refused_signatures(
    request: HttpRequest, physician: User, posted: Assignment, token: uuid.UUID
) -> Iterator[None]:
    """Around a submit: a refused signature counts as a failed sign-in, and who has had too many is locked out (axes).

    Raises SignatureRefused; axes' middleware answers 429 in its place once there are too many.
    """
    policy = _policy(physician, posted, token)
    if policy is None or not (policy.sign_with_password or policy.sign_with_second_factor):
        yield
        return
    with count_refusals(request, physician, errors.SignatureRefused(), but=errors.NoSecondFactor):
        yield


@contextmanager
def count_refusals(
    request: HttpRequest, user: User, refused: Exception, *, but: type[Exception] | tuple[()] = ()
) -> Iterator[None]:
    """Count an error of the kind of `refused`, raised within, as a failed sign-in of this user's (`but` aside).

    For who is locked out `refused` is raised at once.
    """
    credentials = {"username": user.username}
    if not AxesProxyHandler.is_allowed(request, credentials):
        request.axes_locked_out = True  # type: ignore[attr-defined] # what axes' own backend does
        raise refused
    try:
        yield
    except type(refused) as error:
        if not isinstance(error, but):
            user_login_failed.send(sender=__name__, credentials=credentials, request=request)
        raise
