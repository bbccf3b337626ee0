"""With a busy database, pages and API answer 503 with a sentence and a time to wait.

Nothing that was typed is lost.
"""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError, connection
from django.test import Client
from django.urls import reverse

from mhb_site.web.errors import is_busy
from review.models import Assignment, Draft, User
from tests.conftest import impatient
from tests.review.factories import claim, open_case

pytestmark = pytest.mark.usefixtures("transactional_db")
SENTENCE = "The database is busy, and nothing was saved. Try again in a few seconds."


@pytest.fixture
def held(ana: User) -> Assignment:
    open_case()
    return claim(ana)


@pytest.fixture
def client(ana: User) -> Client:
    client = Client()
    client.force_login(ana)
    return client


@pytest.fixture
def locked(held: Assignment, client: Client) -> Iterator[None]:
    """Hold a write lock on another connection; ours waits for it for 50 milliseconds."""
    sqlite = connection.vendor == "sqlite"
    with impatient():
        other = connection.copy()
        try:
            with other.cursor() as cursor:
                cursor.execute("BEGIN IMMEDIATE" if sqlite else "BEGIN")
                if not sqlite:
                    tables = "review_assignment, review_user, review_chainhead"
                    cursor.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
            yield
        finally:
            other.close()


def fields(held: Assignment) -> dict[str, Any]:
    return {"token": str(held.token), "revision": "0", "reason": "typed meanwhile"}


def test_a_page_answers_503(locked: None, client: Client, held: Assignment) -> None:
    response = client.post(reverse("review:submit", args=[held.pk]), fields(held))
    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert SENTENCE in response.content.decode()
    assert not response.context or "user" not in response.context, "the page is rendered without the database"


def test_a_fragment_answers_503_with_a_message(locked: None, client: Client, held: Assignment) -> None:
    response = client.post(reverse("review:draft", args=[held.pk]), fields(held), headers={"HX-Request": "true"})
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    text = response.content.decode()
    assert SENTENCE in text
    assert "data-problem" in text
    assert "<html" not in text


def test_the_api_answers_503_with_a_problem(locked: None, client: Client, held: Assignment) -> None:
    body = {"token": str(held.token), "revision": 0, "answers": {"reason": "typed meanwhile"}}
    address = reverse("api:assignment-draft", args=[held.pk])
    response = client.put(address, json.dumps(body), content_type="application/json")
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert response["Content-Type"] == "application/problem+json"
    assert response.json() == {"type": "urn:mhb:database-busy", "title": SENTENCE, "status": 503}


@pytest.mark.parametrize("place", ["review:workbench", "api:me"])
def test_an_error_outside_the_views_is_answered_with_503(
    place: str, client: Client, held: Assignment, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    settings.SESSION_SAVE_EVERY_REQUEST = True
    monkeypatch.setattr(SessionStore, "save", save)
    client.raise_request_exception = False
    response = client.get(reverse(place))
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert SENTENCE in response.content.decode()


@pytest.mark.parametrize("place", ["review:workbench", "api:me"])
def test_other_database_errors_are_answered_with_500(
    place: str, client: Client, held: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OperationalError("no such table: review_case")

    client.raise_request_exception = False
    monkeypatch.setattr("review.common.decorators.may_request", broken)
    monkeypatch.setattr("review.people.api.signed_in_account", broken)
    response = client.get(reverse(place))
    assert response.status_code == 500
    assert "Retry-After" not in response


def test_which_errors_mean_a_busy_database() -> None:
    def wrapped(cause: Exception) -> OperationalError:
        error = OperationalError("in the words of the server, which may be Chinese")
        error.__cause__ = cause
        return error

    for cause in (
        psycopg.errors.LockNotAvailable(),
        psycopg.errors.QueryCanceled(),
        psycopg.errors.DeadlockDetected(),
        psycopg.errors.TooManyConnections(),
        psycopg.errors.AdminShutdown(),
        psycopg.OperationalError("connection refused"),
    ):
        assert is_busy(wrapped(cause)), cause
    assert is_busy(OperationalError("database is locked"))
    assert is_busy(OperationalError("database table is locked: review_case"))
    assert not is_busy(wrapped(psycopg.errors.DiskFull()))
    assert not is_busy(OperationalError("database or disk is full"))
    assert not is_busy(ValueError("database is locked"))


def test_the_draft_is_saved_once_the_database_is_free(client: Client, held: Assignment) -> None:
    assert client.post(reverse("review:draft", args=[held.pk]), fields(held)).status_code == 302
    assert Draft.objects.get().answers["reason"] == "typed meanwhile"
