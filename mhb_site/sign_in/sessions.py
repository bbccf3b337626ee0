"""Sessions in the database, each read in one statement with the account that it is of.

Whose session it is stands within its signed data, so the process keeps in mind whose it was before. That is a guess by which
the account is read along, and nothing more: the session decides, and where it names somebody else that account is read by
itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.middleware import AuthenticationMiddleware, get_user
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db import connection
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from review.common import sql
from review.models import User

KEPT_IN_MIND = 10_000  # sessions
_accounts: dict[str, int] = {}  # by session key
_read_along: ContextVar[User | None] = ContextVar("the account read with the session", default=None)

_SESSION = """SELECT {s}, {u}, EXISTS (SELECT 1 FROM review_notice n WHERE n.user_id = u.id AND n.read_at IS NULL)
FROM django_session s LEFT JOIN review_user u ON u.id = %s
WHERE s.session_key = %s AND s.expire_date > %s"""


class SessionStore(db.SessionStore):
    """Django's, with the account that was read along, if any."""

    account: User | None = None

    def save(self, must_create: bool = False) -> None:
        super().save(must_create)
        if (account := self.get(SESSION_KEY)) and self.session_key:
            _keep_in_mind(self.session_key, int(account))

    def _get_session_from_db(self) -> Any:
        key = self.session_key or ""
        if key in _accounts:
            now = connection.ops.adapt_datetimefield_value(timezone.now())
            for session, account, has_notices in sql.instances(_SESSION, (_accounts[key], key, now), s=Session, u=User):
                if account is not None:
                    account.has_notices = bool(has_notices)
                self.account = account
                return session
            del _accounts[key]
        return super()._get_session_from_db()  # type: ignore[misc]


class AccountMiddleware(AuthenticationMiddleware):
    """Django's, for sessions that bring their account."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _account(request))  # type: ignore[assignment]


def _account(request: HttpRequest) -> Any:
    request.session.get(SESSION_KEY)  # reads it
    with _reading_along(getattr(request.session, "account", None)):
        user = get_user(request)
    if user.pk is not None and request.session.session_key:
        _keep_in_mind(request.session.session_key, user.pk)
    return user


def _keep_in_mind(session: str, account: int) -> None:
    if len(_accounts) >= KEPT_IN_MIND:
        _accounts.clear()
    _accounts[session] = account


@contextmanager
def _reading_along(account: User | None) -> Iterator[None]:
    token = _read_along.set(account)
    try:
        yield
    finally:
        _read_along.reset(token)


def read_along(user_id: int) -> User | None:
    """The account of this key, where it came with the session of the request."""
    account = _read_along.get()
    return account if account is not None and account.pk == user_id else None
