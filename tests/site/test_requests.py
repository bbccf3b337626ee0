"""What no part of the site can take is refused in one place, for pages and API: 400, 414, 415, never 500."""

from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from mhb_site.web.requests import MAX_URL_LENGTH
from mhb_site.wsgi import application
from review.models import User
from tests.api.conftest import Api
from tests.api.conftest import api as api
from tests.api.conftest import sent_tasks as sent_tasks
from tests.api.test_problems import problem
from tests.engine import drafts, endpoint

QUERIES = (
    "text=a%00b",
    "a%00b=1",
    "endpoint=%00&status=%00&error=%00&benchmark=%00",
    "cursor=%00",
    "page=%00",
    "next=%00",
)
NUL, HALF = "a\\u0000b", "a\\ud800b"


@pytest.fixture
def signed_in(client: Client, adela: User) -> Client:
    client.force_login(adela)
    client.raise_request_exception = False
    return client


@pytest.mark.parametrize("query", QUERIES)
def test_nul_in_an_address_is_a_bad_request_to_pages(signed_in: Client, query: str) -> None:
    for page in ("generation:samples", "generation:attempts", "review:cases", "evaluation:runs", "account_login"):
        answer = signed_in.get(f"{reverse(page)}?{query}")
        assert answer.status_code == 400, page
        assert "cannot be stored" in answer.content.decode()
    assert signed_in.get(reverse("generation:samples") + f"%00?{query}").status_code == 400


@pytest.mark.parametrize("query", QUERIES)
def test_nul_in_an_address_is_a_bad_request_to_the_api(api: Api, adela: User, query: str) -> None:
    for route in ("samples", "cases", "attempts", "batches"):
        body = problem(api(adela).get(f"{reverse(f'api:{route}')}?{query}"), 400)
        assert "cannot be stored" in body["detail"]


def test_nul_in_a_form_is_a_bad_request(signed_in: Client) -> None:
    sent = {"name": "own", "url": "https://models.example/v1", "model": "a\0b"}
    for headers in ({}, {"HX-Request": "true"}):
        answer = signed_in.post(reverse("generation:endpoints"), sent, headers=headers)
        assert answer.status_code == 400
        assert "cannot be stored" in answer.content.decode()
    assert ("<html" in answer.content.decode()) is False, "a fragment is asked for with htmx"
    login = signed_in.post(reverse("account_login"), {"login": "a\0", "password": "b"})
    assert login.status_code == 400


@pytest.mark.parametrize("bad", [NUL, HALF])
def test_what_cannot_be_stored_in_a_body_is_a_bad_request(api: Api, adela: User, bad: str) -> None:
    drafts(1, "own")
    endpoint("http://models.example/v1", "big")
    bodies = {
        "endpoints": f'{{"name": "x", "url": "https://m.example/v1", "model": "{bad}"}}',
        "batches": f'{{"benchmark": "mhb", "source": "own", "roles": {{"generator": "big"}}, "plan": {{"{bad}": 3}}}}',
        "batch-estimate": f'{{"benchmark": "mhb", "source": "own", "roles": {{"{bad}": "big"}}, "settings": {{"{bad}": 1}}}}',
        "runs": f'{{"release": "r", "endpoints": ["big"], "datasets": ["{bad}"], "judge": "{bad}"}}',
        "token": f'{{"username": "{bad}", "password": "{bad}"}}',
    }  # fmt: skip
    for route, body in bodies.items():
        answer = api(adela).generic("POST", reverse(f"api:{route}"), body, content_type="application/json")
        assert "cannot be stored" in problem(answer, 400)["detail"], route


@pytest.mark.parametrize("field", ["changes", "plan_text"])
def test_json_in_a_form_that_cannot_be_stored_is_the_forms_mistake(signed_in: Client, field: str) -> None:
    drafts(1, "own")
    endpoint("http://models.example/v1", "big")
    sent = {"benchmark": "mhb", "source": "own", "generator": "big", field: f'{{"{HALF}": "{NUL}"}}'}
    answer = signed_in.post(reverse("generation:batch-new"), sent)
    assert answer.status_code in (200, 422)


@pytest.mark.parametrize("charset", ["hex", "zlib", "idna", "undefined", "rot13", "utf-16", "utf-7", "unicode_escape"])
@pytest.mark.parametrize("path", ["/api/v1/endpoints/?a=b", "/generation/endpoints/?a=b"])
def test_another_encoding_than_utf_8_is_refused(db: None, charset: str, path: str) -> None:
    """By the site as the web server calls it: Django itself fails on such a request before any middleware sees it."""
    for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain"):
        for method in ("GET", "POST"):
            sent = RequestFactory().generic(method, path, b"{}", content_type=kind).environ
            assert _status({**sent, "CONTENT_TYPE": f"{kind}; charset={charset}"}) == "415 Unsupported Media Type"


def _status(environ: dict[str, Any]) -> str:
    statuses: list[str] = []
    application(environ, lambda status, _headers: statuses.append(status))  # type: ignore[arg-type]
    return statuses[0]


def test_utf_8_by_name_is_taken(api: Api, adela: User) -> None:
    sent = '{"name": "x", "url": "https://m.example/v1", "model": "中文"}'
    typed = "application/json; charset=UTF-8"
    assert api(adela).generic("POST", reverse("api:endpoints"), sent, content_type=typed).status_code == 201


def test_an_address_that_is_too_long(signed_in: Client, api: Api, adela: User) -> None:
    here = reverse("api:samples")
    long = "?text=" + "x" * (MAX_URL_LENGTH - len(here) - 6)
    assert problem(api(adela).get(here + long), 400)["type"] == "urn:mhb:invalid", (
        "as long as it may be, and no sample's"
    )
    assert "too long" in problem(api(adela).get(here + long + "x"), 414)["detail"]
    page = signed_in.get(reverse("generation:samples") + "?text=" + "x" * MAX_URL_LENGTH)
    assert (page.status_code, page["Content-Type"].partition(";")[0]) == (414, "text/html")
    assert "too long" in page.content.decode()
