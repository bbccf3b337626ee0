"""Signing off a review: under which name, with which meaning, and with the password where the policy asks for it."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from axes.handlers.proxy import AxesProxyHandler
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest

from review import errors
from review.machine import Role, State
from review.models import Assignment, User


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


def asks_password(physician: User, assignment_id: int, token: uuid.UUID) -> bool:
    """Whether signing off this assignment takes the password.

    Only of who holds it under this token: anybody else's submit is refused as such, whatever the password.
    """
    return Assignment.objects.filter(
        pk=assignment_id, physician=physician, token=token, case__spec__policy__sign_with_password=True
    ).exists()


def check(physician: User, assignment_id: int, token: uuid.UUID, password: str) -> None:
    """Raises SignatureRefused where the policy asks for the password and this is not it.

    Hashing a password is slow by intention, so this comes before the transaction that holds the case.
    """
    if asks_password(physician, assignment_id, token) and not physician.check_password(password):
        raise errors.SignatureRefused


@contextmanager
def counted(request: HttpRequest, physician: User, assignment_id: int, token: uuid.UUID) -> Iterator[None]:
    """Around a submit: a refused signature counts as a failed sign-in, and who has had too many is locked out (axes).

    Raises SignatureRefused; axes' middleware answers 429 in its place once there are too many.
    """
    if not asks_password(physician, assignment_id, token):
        yield
        return
    credentials = {"username": physician.username}
    if not AxesProxyHandler.is_allowed(request, credentials):
        request.axes_locked_out = True  # type: ignore[attr-defined] # what axes' own backend does
        raise errors.SignatureRefused
    try:
        yield
    except errors.SignatureRefused:
        user_login_failed.send(sender=__name__, credentials=credentials, request=request)
        raise
