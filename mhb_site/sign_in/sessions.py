"""Sessions in the database, each read together with its account in one statement.

The account of a session is inside its signed data, so the process remembers which one it was
before. This is only a guess for reading the account along: the session decides, and if it names
another account, that one is read separately.
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

MAX_REMEMBERED = 10_000  # sessions
_account_ids: dict[str, int] = {}  # by session key
_account_var: ContextVar[User | None] = ContextVar("the account read with the session", default=None)

_SELECT_SESSION_SQL = """SELECT {s}, {u}, EXISTS (SELECT 1 FROM review_notice n WHERE n.user_id = u.id AND n.read_at IS NULL)
FROM django_session s LEFT JOIN review_user u ON u.id = %s
WHERE s.session_key = %s AND s.expire_date > %s"""


class SessionStore(db.SessionStore):
    """Django's, with the account that was read along with the session, if any."""

    account: User | None = None

    def save(self, must_create: bool = False) -> None:
        super().save(must_create)
        if (account := self.get(SESSION_KEY)) and self.session_key:
            _remember_account(self.session_key, int(account))

    def _get_session_from_db(self) -> Any:
        key = self.session_key or ""
        if key in _account_ids:
            now = connection.ops.adapt_datetimefield_value(timezone.now())
            for session, account, has_notices in sql.select_instances(
                _SELECT_SESSION_SQL, (_account_ids[key], key, now), s=Session, u=User
            ):
                if account is not None:
                    account.has_notices = bool(has_notices)
                self.account = account
                return session
            del _account_ids[key]
        return super()._get_session_from_db()  # type: ignore[misc]


class AccountMiddleware(AuthenticationMiddleware):
    """Django's, using the account that was read along with the session."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = SimpleLazyObject(lambda: _load_account(request))  # type: ignore[assignment]


def _load_account(request: HttpRequest) -> Any:
    request.session.get(SESSION_KEY)  # loads the session
    with _account_read_along(getattr(request.session, "account", None)):
        user = get_user(request)
    if user.pk is not None and request.session.session_key:
        _remember_account(request.session.session_key, user.pk)
    return user


def _remember_account(session: str, account: int) -> None:
    if len(_account_ids) >= MAX_REMEMBERED:
        _account_ids.clear()
    _account_ids[session] = account


@contextmanager
def _account_read_along(account: User | None) -> Iterator[None]:
    token = _account_var.set(account)
    try:
        yield
    finally:
        _account_var.reset(token)


def account_from_session(user_id: int) -> User | None:
    """The account with this key if it was read along with the session of the request, else None."""
    account = _account_var.get()
    return account if account is not None and account.pk == user_id else None
