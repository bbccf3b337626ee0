"""Browsers and proxies store no response of a view; static files they may store."""

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from review.models import User
from tests.api.conftest import Api, api
from tests.review.factories import claim, open_case

__all__ = ["api"]
pytestmark = pytest.mark.django_db


def test_pages_and_api_responses_are_not_stored(ana: User, adela: User, api: Api) -> None:
    open_case()
    assignment = claim(ana)
    browser, admin, caller = Client(), Client(), api(ana)
    browser.force_login(ana)
    admin.force_login(adela)
    responses = [
        browser.get(reverse("review:case", args=[assignment.pk])),
        browser.get(reverse("review:case", args=[10**6])),  # an error page
        browser.get(reverse("home")),
        admin.get(reverse("review:history", args=[assignment.case_id])),
        admin.get(reverse("review:people")),
        Client().get(reverse("account_login")),
        caller.get(reverse("api:assignment", args=[assignment.pk])),
        caller.get(reverse("api:case", args=[assignment.case_id])),
        caller.get(reverse("api:me")),
    ]
    assert [response.status_code for response in responses] == [200, 404, 302, 200, 200, 200, 200, 403, 200]
    assert {response["Cache-Control"] for response in responses} == {"no-store"}


@pytest.mark.sqlite_only  # production collects them first
def test_static_files_are_stored() -> None:
    assert finders.find("mhb/img/logo.svg")
    response = Client().get("/static/mhb/img/logo.svg")
    assert response.status_code == 200
    assert response["Cache-Control"] != "no-store"
