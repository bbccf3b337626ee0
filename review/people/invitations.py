"""Invitation links, with which people set the first password of their accounts.

Links are signed and not stored. The signature covers the password and the time of the invitation,
so a link is void once the password is set or the invitation is withdrawn or renewed.
"""

import logging
import smtplib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import mail
from django.core.mail.backends.base import BaseEmailBackend
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from review.common import csv_text
from review.common.notifications import language_of
from review.common.provider_accounts import signs_in_elsewhere
from review.models import User
from review.rules.shown_fields import Hidden, shown

log = logging.getLogger(__name__)


class _Signer(PasswordResetTokenGenerator):
    """Django's token generator over the values that end an invitation.

    See PASSWORD_RESET_TIMEOUT.
    """

    key_salt = "review.people.invitations"

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        return f"{user.pk}/{user.password}/{user.invited_at and user.invited_at.timestamp()}/{timestamp}"


_signer = _Signer()


def invitation_link(user: User, site: str = "") -> str:
    """The URL of the newest invitation; `site` is its origin, such as `https://mhb.example.org`."""
    path = reverse("invitation", kwargs={"person_id": user.pk, "token": _signer.make_token(user)})
    return (site or settings.MHB_SITE_URL).rstrip("/") + path


@dataclass(frozen=True, slots=True)
class Invitation:
    """A new invitation. `link` is empty if it was e-mailed, as then only its owner needs it."""

    user: Hidden[User]
    link: str
    emailed: bool = False

    @property
    @shown
    def expires_at(self) -> datetime | None:
        return expires_at(self.user)

    @property
    def mailto(self) -> str:
        """The invitation as an e-mail in the reader's own mail program; "" without an address."""
        if not (self.link and self.user.email):
            return ""
        subject, text = _email(self.user, self.link)
        fields = urlencode({"subject": subject, "body": text}, quote_via=quote)
        return f"mailto:{quote(self.user.email, safe='@')}?{fields}"

    @property
    @shown
    def username(self) -> str:
        return self.user.username


def send_invitations(users: Sequence[User], site: str = "") -> list[Invitation]:
    """E-mail the links if the site sends e-mail; other links are returned, to be shown once.

    Call it after the accounts have been committed. After the first e-mail that fails for another
    reason than its address no other is tried.
    """
    invitations = []
    connection = None
    if settings.MHB_EMAILS:
        connection = mail.get_connection()
    for user in users:
        link, emailed = invitation_link(user, site), False
        if connection is not None and user.email:
            try:
                emailed = bool(_send(user, link, connection))
            except (smtplib.SMTPRecipientsRefused, ValueError) as error:  # of this address alone
                log.warning("an invitation could not be e-mailed: %s", type(error).__name__)
            except (OSError, smtplib.SMTPException) as error:
                log.warning("an invitation could not be e-mailed: %s", type(error).__name__)
                connection = None
        if emailed:
            link = ""
        invitations.append(Invitation(user, link, emailed))
    if connection is not None:
        connection.close()
    return invitations


def invitations_as_json(invitations: Sequence[Invitation]) -> dict[str, dict[str, Any]]:
    """The invitations as JSON-serializable data, by username."""
    links = {}
    for invitation in invitations:
        links[invitation.user.username] = {"link": invitation.link, "emailed": invitation.emailed}
    return links


def links_as_csv(invitations: Sequence[Invitation]) -> str:
    """The links that were not e-mailed, as CSV."""
    rows = [("name", "username", "email", "link")]
    for invitation in invitations:
        user = invitation.user
        if invitation.link:
            rows.append((str(user), user.username, user.email, invitation.link))
    return csv_text.table(rows)


def _email(user: User, link: str) -> tuple[str, str]:
    """The subject and the text, in the person's language."""
    context = {"person": user, "link": link, "until": expires_at(user)}
    with translation.override(language_of(user)):
        return _("Your MHB account"), render_to_string("review/people/invitation.txt", context)


def _send(user: User, link: str, connection: BaseEmailBackend) -> int:
    connection.open()
    subject, text = _email(user, link)
    return mail.send_mail(subject, text, None, [user.email], connection=connection)


def is_valid(user: User, token: str) -> bool:
    """Whether `token` belongs to the account's open invitation."""
    return is_invitable(user) and user.invited_at is not None and _signer.check_token(user, token)


def is_invitable(user: User) -> bool:
    """Whether the account can get its first password: open, without one, and a person's here."""
    has_none = user.is_active and not user.simulated and not user.has_usable_password()
    return has_none and not signs_in_elsewhere(user)


def expires_at(user: User) -> datetime | None:
    """When the open invitation expires; None if there is none."""
    return user.invited_at and user.invited_at + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)


def is_open(user: User) -> bool:
    """Whether an invitation can still be used."""
    until = expires_at(user)
    return until is not None and until > timezone.now() and is_invitable(user)
