"""Sessions in the database; one with which nobody has signed in yet ends after an hour."""

from datetime import timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.utils import timezone

UNKNOWN = timedelta(hours=1)  # anybody can begin one: at a provider, with a passkey


class SessionStore(db.SessionStore):
    """Django's store (SESSION_ENGINE)."""

    def _validate_session_key(self, key: str | None) -> bool:
        """Whether a cookie's value can be a key: it may hold a NUL, which PostgreSQL refuses."""
        return key is not None and key.isalnum() and bool(super()._validate_session_key(key))  # type: ignore[misc]  # not in its stub

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row = super().create_model_instance(data)
        if SESSION_KEY not in data:
            row.expire_date = min(row.expire_date, timezone.now() + UNKNOWN)
        return row
