"""A session brings its account in one statement: by a guess, which decides nothing."""

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


def who(client: Client) -> str:
    """The name of the account on the page."""
    answer = client.get(reverse("review:mine"))
    return answer.context["user"].username if answer.status_code == 200 else ""


def asked(client: Client) -> list[str]:
    """The statements of a page that read sessions or accounts."""
    with CaptureQueriesContext(connection) as seen:
        client.get(reverse("review:mine"))
    tables = ("django_session", "review_user")
    return [query["sql"] for query in seen if any(f"FROM {table}" in query["sql"].replace('"', "") for table in tables)]


def test_session_and_account_are_one_statement(browse: Browse, ana: User) -> None:
    client = browse(ana)
    assert len(asked(client)) == 1, "it was signed in here"
    sessions._account_ids.clear()
    assert len(asked(client)) == 2, "as in a process that has not seen it"
    assert len(asked(client)) == 1
    assert who(client) == ana.username


def test_a_wrong_guess_gives_nobody_anothers_account(browse: Browse, ana: User, bo: User) -> None:
    client = browse(ana)
    who(client)
    sessions._account_ids[client.session.session_key or ""] = bo.pk
    assert who(client) == ana.username
    sessions._account_ids[client.session.session_key or ""] = 10**9
    assert who(client) == ana.username


def test_the_session_decides_whose_it_is(browse: Browse, ana: User, bo: User) -> None:
    client = browse(ana)
    who(client)
    session = client.session
    session[SESSION_KEY] = str(bo.pk)  # the password's digest in it is still ana's
    session.save()
    assert who(client) == ""


def test_what_ends_a_session_ends_it(browse: Browse, ana: User, bo: User) -> None:
    for end in ("deleted", "expired", "closed", "ended"):
        client = browse(ana)
        assert who(client) == ana.username
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
        assert who(client) == "", end
        User.objects.filter(pk=ana.pk).update(is_active=True)
        ana.refresh_from_db()


def test_a_new_notice_is_seen_at_once(browse: Browse, ana: User) -> None:
    client = browse(ana)
    assert who(client) == ana.username
    assert not client.get(reverse("review:mine")).context["user"].has_notices
    Notice.objects.create(user=ana, kind=Notice.Kind.PROBLEM, case=open_case(1), text="!", at=timezone.now())
    assert client.get(reverse("review:mine")).context["user"].has_notices


def test_no_more_sessions_are_kept_in_mind_than_so_many(
    browse: Browse, ana: User, bo: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_REMEMBERED", 1)
    sessions._account_ids.clear()
    assert (who(browse(ana)), who(browse(bo))) == (ana.username, bo.username)
    assert list(sessions._account_ids.values()) == [bo.pk]
