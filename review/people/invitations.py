"""The links with which people set the first password of their accounts. A link is signed and stored nowhere.

It is signed over the password and the moment of the invitation: once the password is set, or the invitation is withdrawn or
made anew, the link is worth nothing.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.urls import reverse
from django.utils import timezone

from review.models import User


class _Signer(PasswordResetTokenGenerator):
    """Django's, over what an invitation ends with. It is valid for PASSWORD_RESET_TIMEOUT."""

    key_salt = "review.people.invitations"

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        return f"{user.pk}/{user.password}/{user.invited_at and user.invited_at.timestamp()}/{timestamp}"


_signer = _Signer()


def link_of(user: User, site: str = "") -> str:
    """The address of an invitation that was made just now; `site` is what it begins with, as in `https://mhb.example.org`."""
    path = reverse("invitation", kwargs={"person_id": user.pk, "token": _signer.make_token(user)})
    return (site or settings.MHB_SITE_URL).rstrip("/") + path


def is_valid(user: User, token: str) -> bool:
    """Whether this is the token of the invitation that is open for the account."""
    return is_invitable(user) and user.invited_at is not None and _signer.check_token(user, token)


def is_invitable(user: User) -> bool:
    """Whether a first password can be set: the account is open and has none."""
    return user.is_active and not user.has_usable_password()


def expires_at(user: User) -> datetime | None:
    """Until when the open invitation can be used; None where there is none."""
    return user.invited_at and user.invited_at + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)


def is_open(user: User) -> bool:
    """Whether an invitation can still be used."""
    until = expires_at(user)
    return until is not None and until > timezone.now() and is_invitable(user)
