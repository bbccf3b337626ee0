"""API clients for the people of the cast, and fixtures for sent tasks and uploaded files."""

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
    """A client that sends JSON; `token` is its bearer token, empty for an anonymous client."""

    default_format = "json"
    token = ""


@pytest.fixture
def api(db: None) -> Api:
    """Return a function that builds clients: `api(ana)` has a token of Ana, `api(None)` none."""

    def client_of(user: User | None) -> Client:
        client = Client()
        if user is not None:
            _stored, token = AuthToken.objects.create(user, expiry=timedelta(days=1))
            client.token = token
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    return client_of


@pytest.fixture(autouse=True)
def no_tasks(sent_tasks: list[tuple[Any, ...]]) -> None:
    """No test of the API sends a task."""


@pytest.fixture(autouse=True)
def uploads(settings: Any, tmp_path: Path) -> Path:
    """The folder that holds uploaded files during a test."""
    folder = tmp_path / "uploads"
    settings.MEDIA_ROOT = folder
    return folder
