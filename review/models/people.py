"""Accounts and their roles."""

import re
from typing import Any

from django.contrib.auth.models import AbstractUser, UserManager
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from review.models.cases import account_made
from review.models.usernames import NameField
from review.rules.permissions import UserRole

_BETWEEN = re.compile(r"[,;|，；、]")


def split_list(text: str) -> list[str]:
    """The parts of a list as people write one, with commas or semicolons between; each once."""
    return list(dict.fromkeys(part for each in _BETWEEN.split(text) if (part := each.strip())))


class People(UserManager["User"]):
    """Accounts; one made by `createsuperuser` is an admin. Every account that is created here leaves its event."""

    def create_superuser(self, *args: Any, **fields: Any) -> "User":
        return super().create_superuser(*args, **{"role": UserRole.ADMIN, **fields})

    def _create_user(self, *args: Any, **fields: Any) -> "User":
        with transaction.atomic(using=self.db):
            user: User = super()._create_user(*args, **fields)  # type: ignore[misc]
            account_made.send(User, user=user)
        return user


class User(AbstractUser):
    """An account: one person in one role. The fields from `institution` to `languages` describe physicians."""

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
    role = models.CharField(max_length=16, choices=[(r.value, r.value) for r in UserRole], default=UserRole.PHYSICIAN)
    institution = models.CharField(max_length=200, blank=True)  # the employer: a university, a trust
    hospital = models.CharField(max_length=200, blank=True)
    specialty = models.CharField(max_length=300, blank=True)  # several with commas between; empty: any
    languages = models.JSONField(default=list, blank=True)  # ISO 639-1 codes; empty: any
    stages = models.JSONField(default=list, blank=True)  # stages this physician may work in; empty: any
    daily_cap = models.PositiveSmallIntegerField(null=True, blank=True)  # cases a day; empty: no cap
    paused_at = models.DateTimeField(null=True, blank=True)  # paused by an admin: takes no new case
    invited_at = models.DateTimeField(null=True, blank=True)  # when the invitation that is open was made
    sessions_ended = models.PositiveIntegerField(default=0)  # sessions hold it too: counted up, it ends them all

    keys_off = models.BooleanField(default=False)  # no single letter acts as a key
    keys = models.JSONField(default=dict, blank=True)  # keys chosen for others: {"n": "j"}

    simulated = models.BooleanField(default=False)  # a scripted stand-in for a physician: from its making, for good

    objects = People()  # type: ignore[misc]

    class Meta(AbstractUser.Meta):
        constraints = [
            models.CheckConstraint(condition=Q(role__in=[r.value for r in UserRole]), name="user_role_known"),
            models.UniqueConstraint(Lower("username"), name="user_name_once"),
        ]

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """What every session holds; a session that holds another one is over."""
        of_password: str = super()._get_session_auth_hash(secret)  # type: ignore[misc]
        return f"{of_password}-{self.sessions_ended}" if self.sessions_ended else of_password

    @property
    def specialties(self) -> list[str]:
        """The specialties, one by one."""
        return split_list(self.specialty)

    @property
    def asked_specialties(self) -> list[str]:
        """What a case may ask for, in lower case, to be this physician's; empty: anything. A comma may belong to a name."""
        return [each.casefold() for each in dict.fromkeys([self.specialty.strip(), *self.specialties]) if each]

    def __str__(self) -> str:
        name = self.get_full_name() or self.username
        return gettext("%(name)s (simulated)") % {"name": name} if self.simulated else name
