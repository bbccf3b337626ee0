"""Session and account are read in one statement, by a guess of the account that decides nothing."""

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from mhb_site.sign_in import sessions
from review.models import Notice, User
from tests.review.factories import open_case
from tests.review.pages import Browse

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def signed_in_as(client: Client) -> str:
    """The username of the account that a page is shown to; empty if nobody is signed in."""
    response = client.get(reverse("review:mine"))
    return response.context["user"].username if response.status_code == 200 else ""


def session_queries(client: Client) -> list[str]:
    """The statements of one page that read sessions or accounts."""
    with CaptureQueriesContext(connection) as captured:
        client.get(reverse("review:mine"))
    tables = ("django_session", "review_user")
    return [
        query["sql"] for query in captured if any(f"FROM {table}" in query["sql"].replace('"', "") for table in tables)
    ]


def test_session_and_account_are_read_in_one_statement(browse: Browse, ana: User) -> None:
    client = browse(ana)
    assert len(session_queries(client)) == 1, "this process signed it in"
    sessions._account_ids.clear()
    assert len(session_queries(client)) == 2, "as in a process that does not know the session"
    assert len(session_queries(client)) == 1
    assert signed_in_as(client) == ana.username


def test_a_wrong_guess_never_signs_in_another_account(browse: Browse, ana: User, bo: User) -> None:
    client = browse(ana)
    signed_in_as(client)
    sessions._account_ids[client.session.session_key or ""] = bo.pk
    assert signed_in_as(client) == ana.username
    sessions._account_ids[client.session.session_key or ""] = 10**9
    assert signed_in_as(client) == ana.username


def test_the_session_decides_the_account(browse: Browse, ana: User, bo: User) -> None:
    client = browse(ana)
    signed_in_as(client)
    session = client.session
    session[SESSION_KEY] = str(bo.pk)  # the session still holds the hash of ana's password
    session.save()
    assert signed_in_as(client) == ""


def test_every_way_to_end_a_session_signs_out(browse: Browse, ana: User, bo: User) -> None:
    for end in ("deleted", "expired", "closed", "ended"):
        client = browse(ana)
        assert signed_in_as(client) == ana.username
        stored = Session.objects.filter(pk=client.session.session_key)
        match end:
            case "deleted":
                stored.delete()
            case "expired":
                stored.update(expire_date=timezone.now())
            case "closed":
                User.objects.filter(pk=ana.pk).update(is_active=False)
            case "ended":
                User.objects.filter(pk=ana.pk).update(is_active=True, sessions_ended=1)
        assert signed_in_as(client) == "", end
        User.objects.filter(pk=ana.pk).update(is_active=True)
        ana.refresh_from_db()


def test_a_new_notice_is_shown_at_once(browse: Browse, ana: User) -> None:
    client = browse(ana)
    assert signed_in_as(client) == ana.username
    assert not client.get(reverse("review:mine")).context["user"].has_notices
    Notice.objects.create(user=ana, kind=Notice.Kind.PROBLEM, case=open_case(1), text="!", at=timezone.now())
    assert client.get(reverse("review:mine")).context["user"].has_notices


def test_the_number_of_remembered_sessions_is_limited(
    browse: Browse, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_REMEMBERED", 1)
    sessions._account_ids.clear()
    assert (signed_in_as(browse(ana)), signed_in_as(browse(bo))) == (ana.username, bo.username)
    assert list(sessions._account_ids.values()) == [bo.pk]
