"""Nothing that a view answers is stored by browsers or proxies; static files are."""

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from review.models import User
from tests.api.conftest import Api, api
from tests.review.factories import opened, take

__all__ = ["api"]
pytestmark = pytest.mark.django_db


def test_pages_and_answers_of_the_api_are_not_stored(ana: User, adela: User, api: Api) -> None:
    opened()
    mine = take(ana)
    browser, admin, caller = Client(), Client(), api(ana)
    browser.force_login(ana)
    admin.force_login(adela)
    answers = [
        browser.get(reverse("review:case", args=[mine.pk])),
        browser.get(reverse("review:case", args=[10**6])),  # an error's page
        browser.get(reverse("home")),
        admin.get(reverse("review:history", args=[mine.case_id])),
        admin.get(reverse("review:people")),
        Client().get(reverse("account_login")),
        caller.get(reverse("api:assignment", args=[mine.pk])),
        caller.get(reverse("api:case", args=[mine.case_id])),
        caller.get(reverse("api:me")),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 302, 200, 200, 200, 200, 403, 200]
    assert {answer["Cache-Control"] for answer in answers} == {"no-store"}


@pytest.mark.sqlite_only  # in production they are collected first
def test_static_files_are_stored() -> None:
    assert finders.find("mhb/img/logo.svg")
    answer = Client().get("/static/mhb/img/logo.svg")
    assert answer.status_code == 200
    assert answer["Cache-Control"] != "no-store"
