"""A form that arrives after its session or its token has ended is kept for its author."""

import html
import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import resolve, reverse
from django.urls.converters import get_converters

from mhb_site.web import kept_forms
from review.models import Draft, Remark, Review, User
from review.rules.case_spec import answers_from_json
from tests.review.factories import FULL_FORM, case_in_secondary, claim, open_case
from tests.site.routes import routes

pytestmark = pytest.mark.django_db
TEXT = "The dose in turn 2 is ten times too high, see the label.\nI would not approve it."
ORIGIN = {"origin": "http://testserver"}


@pytest.fixture
def browser_of_ana(ana: User) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ana)
    client.get(reverse("review:workbench"), headers=ORIGIN)
    return client


def sign_in(client: Client, user: User) -> None:
    """As the sign-in page does: the session of a visitor becomes that of an account."""
    before = dict(client.session)
    client.force_login(user)
    session = client.session
    session.update(before)
    session.save()


def end_session(client: Client) -> None:
    client.session.flush()
    client.cookies.pop(settings.SESSION_COOKIE_NAME, None)


@pytest.fixture
def remarks(ana: User) -> str:
    open_case(form=FULL_FORM)
    return reverse("review:remark", args=[claim(ana).case_id])


@pytest.mark.parametrize("headers", [ORIGIN, ORIGIN | {"HX-Request": "true"}])
def test_a_text_posted_after_the_session_ended_is_there_after_signing_in(
    browser_of_ana: Client, ana: User, remarks: str, headers: dict[str, str]
) -> None:
    end_session(browser_of_ana)
    browser_of_ana.handler.enforce_csrf_checks = False  # its cookie is older than the session
    response = browser_of_ana.post(remarks, {"text": TEXT, "password": "secret"}, headers=headers)
    assert response.headers["Location"] == f"{reverse('account_login')}?next=%2Fkept%2F"
    sign_in(browser_of_ana, ana)
    page = browser_of_ana.get(reverse("kept-form")).content.decode()
    assert TEXT in page
    assert f'action="{remarks}"' in page
    assert "secret" not in page
    browser_of_ana.post(remarks, {"text": TEXT}, headers=ORIGIN)  # what the page sends
    assert Remark.objects.get().text == TEXT
    assert "kept_form" not in browser_of_ana.session


def test_a_correction_posted_after_the_session_ended_is_kept(browser_of_ana: Client, ana: User) -> None:
    case_in_secondary(ana)
    address = reverse("review:correct", args=[Review.objects.get().pk])
    end_session(browser_of_ana)
    browser_of_ana.handler.enforce_csrf_checks = False
    browser_of_ana.post(address, {"correction": TEXT}, headers=ORIGIN)
    sign_in(browser_of_ana, ana)
    page = browser_of_ana.get(reverse("kept-form")).content.decode()
    assert TEXT in page
    assert f'action="{address}"' in page


def test_a_former_member_keeps_no_forms_without_end(
    browser_of_ana: Client, ana: User, remarks: str, settings: Any
) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"sign_in_begun": "2/m/ip"}
    User.objects.filter(pk=ana.pk).update(is_active=False)
    browser_of_ana.handler.enforce_csrf_checks = False
    before = Session.objects.count()
    for _ in range(4):
        browser_of_ana.cookies.pop(settings.SESSION_COOKIE_NAME, None)
        browser_of_ana.post(remarks, {"text": TEXT}, headers=ORIGIN)
    assert Session.objects.count() <= before + 2


def test_the_link_to_the_page_of_a_form_stays_on_this_site(browser_of_ana: Client, remarks: str) -> None:
    elsewhere = ORIGIN | {"HX-Current-URL": "http://testserver//elsewhere.example/review/"}
    response = browser_of_ana.post(remarks, {"text": TEXT, "csrfmiddlewaretoken": "x" * 64}, headers=elsewhere)
    assert 'href="/elsewhere.example/review/"' in response.content.decode()


def test_a_text_posted_with_an_old_token_is_shown_again(browser_of_ana: Client, remarks: str) -> None:
    response = browser_of_ana.post(remarks, {"text": TEXT, "csrfmiddlewaretoken": "x" * 64}, headers=ORIGIN)
    assert response.status_code == 403
    assert TEXT in response.content.decode()
    response = browser_of_ana.post(remarks, {"text": TEXT}, headers=ORIGIN | {"HX-Request": "true"})
    assert reverse("kept-form") in response.content.decode()
    assert not Remark.objects.exists()


def test_nobody_else_sees_it(browser_of_ana: Client, bo: User, remarks: str) -> None:
    end_session(browser_of_ana)
    browser_of_ana.handler.enforce_csrf_checks = False
    browser_of_ana.post(remarks, {"text": TEXT}, headers=ORIGIN)
    sign_in(browser_of_ana, bo)
    assert browser_of_ana.get(reverse("kept-form"))["Location"] == "/"
    assert "kept_form" not in browser_of_ana.session


def token_of(client: Client) -> str:
    """The token in a form of a page that this browser shows."""
    page = client.get(reverse("review:workbench"), headers=ORIGIN).content.decode()
    return page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]


def test_a_form_that_was_typed_before_somebody_else_signed_in_is_not_theirs(
    browser_of_ana: Client, ana: User, bo: User, remarks: str
) -> None:
    """At a shared computer, in a tab that Ana left open; whether Bo is signed in or out again."""
    fields = {"text": TEXT, "csrfmiddlewaretoken": token_of(browser_of_ana)}
    end_session(browser_of_ana)
    browser_of_ana.cookies[settings.CSRF_COOKIE_NAME] = "b" * 32  # signing in changes the secret
    browser_of_ana.force_login(bo)
    browser_of_ana.get(reverse("review:workbench"), headers=ORIGIN)
    response = browser_of_ana.post(remarks, fields, headers=ORIGIN)
    assert response.status_code == 403
    assert TEXT not in response.content.decode()
    assert "had expired" in response.content.decode()
    unknown = fields | {"csrfmiddlewaretoken": "x" * 64}
    assert TEXT not in browser_of_ana.post(remarks, unknown, headers=ORIGIN).content.decode()
    end_session(browser_of_ana)
    browser_of_ana.handler.enforce_csrf_checks = False
    browser_of_ana.post(remarks, fields, headers=ORIGIN)
    sign_in(browser_of_ana, bo)
    assert browser_of_ana.get(reverse("kept-form"))["Location"] == "/"
    sign_in(browser_of_ana, ana)
    assert "kept_form" not in browser_of_ana.session


def test_the_page_shows_where_a_form_goes_and_each_of_its_fields(browser_of_ana: Client, remarks: str) -> None:
    fields = {"text": TEXT, "quote": "ten times", "do": "<b>", "csrfmiddlewaretoken": token_of(browser_of_ana)}
    browser_of_ana.cookies[settings.CSRF_COOKIE_NAME] = "b" * 32
    page = browser_of_ana.post(remarks, fields, headers=ORIGIN).content.decode()
    assert f">{remarks}</dd>" in page
    for name, value in (("quote", "ten times"), ("do", "&lt;b&gt;")):
        assert f'<input type="hidden" name="{name}" value="{value}">{value}</dd>' in page


FOREIGN: tuple[dict[str, str], ...] = (
    {"origin": "https://elsewhere.example"},
    {"origin": "null"},
    {"origin": "http://testserver:8080"},
    {"origin": "https://testserver"},
    {"origin": "http://testserver.elsewhere.example"},
    {"origin": ""},
    {"referer": "http://elsewhere.example/?http://testserver/"},
    {"referer": "http://testserver@elsewhere.example/"},
    {},
)


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_form_of_another_site_is_not_kept_and_told_from_an_expired_one(
    browser_of_ana: Client, remarks: str, headers: dict[str, str]
) -> None:
    token = token_of(browser_of_ana)
    browser_of_ana.cookies[settings.CSRF_COOKIE_NAME] = "b" * 32
    for fields in ({"text": TEXT}, {"text": TEXT, "csrfmiddlewaretoken": token}):
        response = browser_of_ana.post(remarks, fields, headers=headers)
        assert response.status_code == 403
        assert "did not come from a page of this site" in response.content.decode()
        assert "kept_form" not in browser_of_ana.session


def test_endless_forms_are_not_kept(browser_of_ana: Client, remarks: str) -> None:
    response = browser_of_ana.post(remarks, {"text": "x" * 200_001}, headers=ORIGIN)
    assert response.status_code == 403
    assert "This page had expired" in response.content.decode()
    assert "kept_form" not in browser_of_ana.session


def test_only_forms_that_hold_work_are_kept(adela: User) -> None:
    """A kept form is sent by one click: none that gives rights, and no settings."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(adela)
    client.get(reverse("review:people"), headers=ORIGIN)
    kept, converters = set(), get_converters()
    plain = {"int": "1", "slug": "a", "str": "a", "path": "a"}

    def value(part: re.Match[str]) -> str:
        return plain.get(part[1] or "str") or converters[part[1]].to_url(1)

    for route in routes():
        if "^" in route or route.startswith("admin/"):
            continue
        path = re.sub(r"<(?:(\w+):)?\w+>", value, f"/{route}")
        client.post(path, {"text": TEXT, "role": "admin"}, headers=ORIGIN)
        session = client.session
        if session.pop(kept_forms.KEPT, None):
            session.save()
            kept.add(resolve(path).view_name)
    assert kept == kept_forms.WORK


def test_a_visitor_who_was_nobody_here_keeps_nothing(remarks: str) -> None:
    client = Client()
    response = client.post(remarks, {"text": TEXT}, headers=ORIGIN)
    assert "kept" not in response["Location"]


def test_what_a_page_sends_by_itself_replaces_no_kept_form(browser_of_ana: Client, ana: User) -> None:
    """Leaving an expired page sends its time on the case, with the cookie of the old session."""
    open_case(form=FULL_FORM)
    held = claim(ana)
    fields = {"token": str(held.token), "revision": "0", "question.natural": "no", "question.natural.note": TEXT}
    old = browser_of_ana.cookies[settings.SESSION_COOKIE_NAME].value
    browser_of_ana.session.flush()
    browser_of_ana.handler.enforce_csrf_checks = False
    browser_of_ana.post(reverse("review:submit", args=[held.pk]), fields | {"verdict": "approve"}, headers=ORIGIN)
    kept = browser_of_ana.cookies[settings.SESSION_COOKIE_NAME].value
    for name, headers in (("activity", ORIGIN), ("heartbeat", ORIGIN), ("draft", ORIGIN | {"HX-Request": "true"})):
        browser_of_ana.cookies[settings.SESSION_COOKIE_NAME] = old
        response = browser_of_ana.post(reverse(f"review:{name}", args=[held.pk]), fields, headers=headers)
        assert response.status_code == 302
        assert settings.SESSION_COOKIE_NAME not in response.cookies, name
    browser_of_ana.cookies[settings.SESSION_COOKIE_NAME] = kept
    sign_in(browser_of_ana, ana)
    page = browser_of_ana.get(reverse("kept-form"), headers=ORIGIN, follow=True)
    assert page.redirect_chain[0][0].startswith(reverse("review:case", args=[held.pk]))
    assert TEXT in html.unescape(page.content.decode())
    assert "signed out before your answers arrived" in page.content.decode()
    assert answers_from_json(Draft.objects.get().answers).verdict == "approve"
