"""Accounts and their roles."""

import re
from typing import Any

from django.contrib.auth.models import AbstractUser, UserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db import models, transaction
from django.db.models import Q, Value
from django.db.models.functions import Lower
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from review.models.cases import account_created
from review.models.enums import choices_of, values_of
from review.models.usernames import NameField
from review.rules.permissions import UserRole

_SEPARATOR = re.compile(r"[,;|，；、]")


def split_list(text: str) -> list[str]:
    """Split a list that a person has typed, at commas and the like; duplicates are dropped."""
    parts = [part.strip() for part in _SEPARATOR.split(text)]
    return list(dict.fromkeys(filter(None, parts)))


class People(UserManager["User"]):
    """Manager of accounts. Creating one sends `account_created`; a superuser is an admin."""

    def create_superuser(self, *args: Any, **fields: Any) -> "User":
        return super().create_superuser(*args, **{"role": UserRole.ADMIN, **fields})

    def _create_user(self, *args: Any, **fields: Any) -> "User":
        with transaction.atomic(using=self.db):
            user: User = super()._create_user(*args, **fields)  # type: ignore[misc]
            account_created.send(User, user=user)
        return user


class User(AbstractUser):
    """An account: one person in one role. `institution` to `senior` describe physicians."""

    username = NameField(
        _("username"),
        max_length=150,
        unique=True,
        help_text=_(
            "At most 150 characters: letters, digits and @/./+/-/_. Capital letters are converted to lowercase."
        ),
        validators=[UnicodeUsernameValidator()],
        error_messages={"unique": _("A user with that username already exists.")},
    )
    role = models.CharField(max_length=16, choices=choices_of(UserRole), default=UserRole.PHYSICIAN)
    institution = models.CharField(max_length=200, blank=True)  # the employer: a university, a trust
    hospital = models.CharField(max_length=200, blank=True)
    specialty = models.CharField(max_length=300, blank=True)  # comma-separated; empty: any
    languages = models.JSONField(default=list, blank=True)  # ISO 639-1 codes; empty: any
    stages = models.JSONField(default=list, blank=True)  # stages this physician may work in; empty: any
    senior = models.BooleanField(default=False, db_default=False)  # may decide where a policy wants it
    daily_cap = models.PositiveSmallIntegerField(null=True, blank=True)  # cases a day; empty: no cap
    paused_at = models.DateTimeField(null=True, blank=True)  # paused by an admin: takes no new case
    invited_at = models.DateTimeField(null=True, blank=True)  # when the open invitation was created
    # Part of the session hash: incrementing it ends all sessions.
    sessions_ended = models.PositiveIntegerField(default=0)

    keys_off = models.BooleanField(default=False)  # single-letter shortcuts are disabled
    keys = models.JSONField(default=dict, blank=True)  # remapped shortcuts: {"n": "j"}

    # Of pages and e-mails, as last chosen; empty: never signed in.
    site_language = models.CharField(max_length=16, blank=True, default="", db_default="")
    emails_paused = models.BooleanField(default=False, db_default=False)
    emails_off = models.JSONField(  # occasions of which no e-mail is sent
        default=list, db_default=Value([], models.JSONField()), blank=True
    )

    simulated = models.BooleanField(default=False)  # a scripted stand-in for a physician; never changes

    objects = People()  # type: ignore[misc]

    class Meta(AbstractUser.Meta):
        constraints = [
            models.CheckConstraint(condition=Q(role__in=values_of(UserRole)), name="user_role_known"),
            models.UniqueConstraint(Lower("username"), name="user_name_once"),
        ]

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """The hash stored in every session; a session with a different one has ended."""
        password_hash: str = super()._get_session_auth_hash(secret)  # type: ignore[misc]
        if self.sessions_ended:
            return f"{password_hash}-{self.sessions_ended}"
        return password_hash

    @property
    def specialties(self) -> list[str]:
        """The specialties as a list."""
        return split_list(self.specialty)

    @property
    def matching_specialties(self) -> list[str]:
        """The case specialties that this physician may review, case-folded; empty: any.

        Includes the whole field, because a comma may be part of a specialty's name.
        """
        return [name.casefold() for name in dict.fromkeys([self.specialty.strip(), *self.specialties]) if name]

    @property
    def matching_languages(self) -> list[str]:
        """The languages of cases that this physician may review, without regions; empty: any."""
        return [code.partition("-")[0].lower() for code in self.languages]

    def __str__(self) -> str:
        name = self.get_full_name() or self.username
        if self.simulated:
            return gettext("%(name)s (simulated)") % {"name": name}
        return name
