"""A database that is busy: pages and API answer 503 with a sentence and a time to wait, and nothing that was typed is lost."""

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
from tests.review.factories import opened, take

pytestmark = pytest.mark.usefixtures("transactional_db")
SENTENCE = "The database is busy, and nothing was saved. Try again in a few seconds."


@pytest.fixture
def held(ana: User) -> Assignment:
    opened()
    return take(ana)


@pytest.fixture
def client(ana: User) -> Client:
    client = Client()
    client.force_login(ana)
    return client


@pytest.fixture
def locked(held: Assignment, client: Client) -> Iterator[None]:
    """Somebody else writes, and does not stop; who waits here waits for 50 milliseconds."""
    sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 50" if sqlite else "SET lock_timeout = '50ms'")
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE" if sqlite else "BEGIN")
            if not sqlite:
                cursor.execute("LOCK TABLE review_assignment, review_user, review_chainhead IN ACCESS EXCLUSIVE MODE")
        yield
    finally:
        other.close()
        connection.close()


def fields(held: Assignment) -> dict[str, Any]:
    return {"token": str(held.token), "revision": "0", "reason": "typed meanwhile"}


def test_a_page_says_so(locked: None, client: Client, held: Assignment) -> None:
    answer = client.post(reverse("review:submit", args=[held.pk]), fields(held))
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert SENTENCE in answer.content.decode()
    assert not answer.context or "user" not in answer.context, "the page is made without the database"


def test_a_fragment_says_so_where_messages_live(locked: None, client: Client, held: Assignment) -> None:
    answer = client.post(reverse("review:draft", args=[held.pk]), fields(held), headers={"HX-Request": "true"})
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    text = answer.content.decode()
    assert SENTENCE in text
    assert "data-problem" in text
    assert "<html" not in text


def test_the_api_answers_a_problem(locked: None, client: Client, held: Assignment) -> None:
    body = {"token": str(held.token), "revision": 0, "answers": {"reason": "typed meanwhile"}}
    address = reverse("api:assignment-draft", args=[held.pk])
    answer = client.put(address, json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json() == {"type": "urn:mhb:database-busy", "title": SENTENCE, "status": 503}


@pytest.mark.parametrize("place", ["review:workbench", "api:me"])
def test_outside_the_views_too(
    place: str, client: Client, held: Assignment, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    settings.SESSION_SAVE_EVERY_REQUEST = True
    monkeypatch.setattr(SessionStore, "save", save)
    client.raise_request_exception = False
    answer = client.get(reverse(place))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert SENTENCE in answer.content.decode()


@pytest.mark.parametrize("place", ["review:workbench", "api:me"])
def test_other_faults_of_the_database_are_no_queue(
    place: str, client: Client, held: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OperationalError("no such table: review_case")

    client.raise_request_exception = False
    monkeypatch.setattr("review.common.decorators.require", broken)
    monkeypatch.setattr("review.people.api.signed_in_account", broken)
    answer = client.get(reverse(place))
    assert answer.status_code == 500
    assert "Retry-After" not in answer


def test_what_counts_as_busy() -> None:
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


def test_once_it_is_over_the_draft_is_saved(client: Client, held: Assignment) -> None:
    assert client.post(reverse("review:draft", args=[held.pk]), fields(held)).status_code == 302
    assert Draft.objects.get().answers["reason"] == "typed meanwhile"
