"""The links with which people set the first password of their accounts. A link is signed and stored nowhere.

It is signed over the password and the moment of the invitation: once the password is set, or the invitation is withdrawn or
made anew, the link is worth nothing.
"""

import logging
import smtplib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from review.models import User

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation that was made just now. `link` is empty where it was e-mailed: nobody but its owner needs it."""

    user: User
    link: str
    emailed: bool = False


def hand_out(users: Sequence[User], site: str = "") -> list[Invitation]:
    """E-mail each person's link where the site sends e-mail; the links of the others, to be shown once. Call it after the
    accounts were stored. After the first e-mail that cannot be sent, no other is tried."""
    found = []
    connection = mail.get_connection() if settings.MHB_EMAILS else None
    for user in users:
        link, emailed = link_of(user, site), False
        if connection is not None and user.email:
            try:
                emailed = bool(_send(user, link, connection))
            except (OSError, smtplib.SMTPException) as error:
                log.warning("an invitation could not be e-mailed: %s", type(error).__name__)
                connection = None
        found.append(Invitation(user, "" if emailed else link, emailed))
    if connection is not None:
        connection.close()
    return found


def told(invitations: Sequence[Invitation]) -> dict[str, dict[str, Any]]:
    """What programs are told of invitations, by account name."""
    return {each.user.username: {"link": each.link, "emailed": each.emailed} for each in invitations}


def _send(user: User, link: str, connection: BaseEmailBackend) -> int:
    context = {"person": user, "link": link, "until": expires_at(user)}
    text = render_to_string("review/people/invitation.txt", context)
    connection.open()
    return mail.send_mail(_("Your MHB account"), text, None, [user.email], connection=connection)


def is_valid(user: User, token: str) -> bool:
    """Whether this is the token of the invitation that is open for the account."""
    return is_invitable(user) and user.invited_at is not None and _signer.check_token(user, token)


def is_invitable(user: User) -> bool:
    """Whether a first password can be set: the account is open and has none. A simulated physician's never gets one."""
    return user.is_active and not user.simulated and not user.has_usable_password()


def expires_at(user: User) -> datetime | None:
    """Until when the open invitation can be used; None where there is none."""
    return user.invited_at and user.invited_at + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)


def is_open(user: User) -> bool:
    """Whether an invitation can still be used."""
    until = expires_at(user)
    return until is not None and until > timezone.now() and is_invitable(user)
