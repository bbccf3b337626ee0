"""Sign off a review: the signer's name, the meaning of the signature, and the proof required.

The policy may require the password, a code of the physician's second factor, or both.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from allauth.mfa import app_settings as mfa
from allauth.mfa.models import Authenticator
from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth.signals import user_login_failed
from django.core.cache import cache
from django.http import HttpRequest

from review import errors
from review.models import User
from review.rules.state_machine import Policy, State
from review.turns.turn import ReviewTurn

SIGNED_AS = 200  # characters of the name under a review


# The meaning of a signature under a review of each stage.
MEANINGS = {State.PRIMARY: "review", State.SECONDARY: "verification", State.ADJUDICATION: "adjudication"}


def signing_name(physician: User) -> str:
    """The name with which a physician signs now, including the username, which is unique."""
    full = physician.get_full_name()
    if not full:
        return physician.username
    room = SIGNED_AS - len(physician.username) - len(" ()")
    return f"{full[:room]} ({physician.username})"


def _policy(turn: ReviewTurn, token: uuid.UUID | None) -> Policy | None:
    """The policy of the case, or None if the physician does not hold it under this token.

    A submission from anybody else is refused anyway, whatever it is signed with.
    """
    if turn.is_own and turn.assignment.token == token:
        return turn.case.frozen.policy
    return None


def check_password(turn: ReviewTurn, token: uuid.UUID | None, password: str) -> None:
    """Raise SignatureRefused if the policy requires the password and this one is wrong.

    Call it before the transaction that locks the case: hashing a password is slow on purpose.
    """
    policy = _policy(turn, token)
    if policy is not None and policy.sign_with_password and not turn.physician.check_password(password):
        raise errors.SignatureRefused


def check_code(physician: User, policy: Policy, code: str) -> None:
    """Check and use up `code` if the policy requires one.

    Call it right before the review is written, because each code is valid only once.

    Raises:
        CodeRefused: the code is wrong, or was used before.
        NoSecondFactor: the physician has no second factor.
    """
    if not policy.sign_with_second_factor:
        return
    if not has_second_factor(physician):
        raise errors.NoSecondFactor
    if not use_code(physician, code):
        raise errors.CodeRefused


def has_second_factor(user: User) -> bool:
    """Whether the user has set up an authenticator app."""
    return bool(Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists())


def use_code(user: User, code: str, *, recovery: bool = False) -> bool:
    """Use up a second-factor code. Returns whether it was valid.

    Args:
        recovery: also accept an unused recovery code.
    """
    kinds = [Authenticator.Type.TOTP]
    if recovery:
        kinds.append(Authenticator.Type.RECOVERY_CODES)
    authenticators = Authenticator.objects.filter(user=user, type__in=kinds)
    return any(each.wrap().validate_code(code) and is_first_use(each, code) for each in authenticators)


def is_first_use(authenticator: Authenticator, code: str) -> bool:
    """Whether a code that `authenticator` has just validated is used for the first time.

    allauth remembers a used code for one period only, but with a tolerance accepts it for longer.
    """
    if authenticator.type != Authenticator.Type.TOTP:
        return True  # allauth marks used recovery codes where it stores them
    digits = "".join(filter(str.isdigit, code))
    seconds = mfa.TOTP_PERIOD * (2 * mfa.TOTP_TOLERANCE + 1)
    return cache.add(f"review.signatures.used:{authenticator.user_id}:{digits}", True, timeout=seconds)


@contextmanager
def count_refused_signatures(request: HttpRequest, turn: ReviewTurn, token: uuid.UUID | None) -> Iterator[None]:
    """Wrap a submission, so that a refused signature counts as a failed sign-in.

    After too many of them, axes locks the account out: SignatureRefused is raised at once, and
    axes' middleware responds with 429 instead.
    """
    policy = _policy(turn, token)
    if policy is None or not (policy.sign_with_password or policy.sign_with_second_factor):
        yield
        return
    with count_refusals(request, turn.physician, errors.SignatureRefused(), but=errors.NoSecondFactor):
        yield


@contextmanager
def count_refusals(
    request: HttpRequest, user: User, refused: Exception, *, but: type[Exception] | tuple[()] = ()
) -> Iterator[None]:
    """Count an error of the same class as `refused` as a failed sign-in of `user`.

    If the user is locked out, raises `refused` at once.

    Args:
        but: exceptions that are not counted.
    """
    credentials = {"username": user.username}
    if not AxesProxyHandler.is_allowed(request, credentials):
        request.axes_locked_out = True  # type: ignore[attr-defined] # as axes' own backend does
        raise refused
    try:
        yield
    except type(refused) as error:
        if not isinstance(error, but):
            user_login_failed.send(sender=__name__, credentials=credentials, request=request)
        raise
