"""A form that arrives after its session or its token has ended is kept for its author."""

import pytest
from django.test import Client
from django.urls import reverse

from review.models import Remark, User
from tests.review.factories import FULL_FORM, claim, open_case

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
    client.cookies.pop("sessionid", None)


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


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"text": TEXT}, {"origin": "https://elsewhere.example"}),
        ({"text": TEXT}, {}),
        ({"text": "x" * 200_001}, ORIGIN),
    ],
)
def test_forms_of_other_sites_and_endless_ones_are_not_kept(
    browser_of_ana: Client, remarks: str, fields: dict[str, str], headers: dict[str, str]
) -> None:
    response = browser_of_ana.post(remarks, fields, headers=headers)
    assert response.status_code == 403
    assert "kept_form" not in browser_of_ana.session


def test_a_visitor_who_was_nobody_here_keeps_nothing(remarks: str) -> None:
    client = Client()
    response = client.post(remarks, {"text": TEXT}, headers=ORIGIN)
    assert "kept" not in response["Location"]
