"""Clients of the API for everybody in the cast."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from knox.models import AuthToken
from rest_framework.test import APIClient

from review.models import User

Api = Callable[[User | None], "Client"]


class Client(APIClient):
    """Speaks JSON; `token` is what it signs in with."""

    default_format = "json"
    token = ""


@pytest.fixture
def api(db: None) -> Api:
    """`api(ana)`: a client with a token of that person; `api(None)`: anonymous."""

    def client(user: User | None) -> Client:
        made = Client()
        if user is not None:
            _stored, token = AuthToken.objects.create(user, expiry=timedelta(days=1))
            made.token = token
            made.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return made

    return client


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The tasks that were sent, instead of sending them."""
    sent: list[tuple[str, int]] = []

    def wake(task: Any, pk: int) -> None:
        sent.append((task.name.rpartition(".")[2], pk))

    monkeypatch.setattr("review.common.waking.wake", wake)
    return sent


@pytest.fixture(autouse=True)
def uploads(settings: Any, tmp_path: Path) -> Path:
    """Where uploaded files are kept during a test."""
    folder = tmp_path / "uploads"
    settings.MEDIA_ROOT = folder
    return folder
