"""Requests that nothing on the site can handle are refused in one place: 400, 414, 415, not 500."""

import re
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import reverse

from mhb_site.server.bodies import UPLOADS, may_upload
from mhb_site.web.requests import MAX_URL_LENGTH
from mhb_site.wsgi import application
from review.models import User
from review.rules.permissions import UserRole
from tests.api import test_permissions as api_permissions
from tests.api.conftest import Api
from tests.api.conftest import api as api
from tests.api.test_problems import problem
from tests.engine import drafts, endpoint
from tests.review.factories import account
from tests.site.routes import routes

pytestmark = pytest.mark.usefixtures("sent_tasks")
QUERIES = (
    "text=a%00b",
    "a%00b=1",
    "endpoint=%00&status=%00&error=%00&benchmark=%00",
    "cursor=%00",
    "page=%00",
    "next=%00",
)
NUL, HALF_SURROGATE = "a\\u0000b", "a\\ud800b"


@pytest.fixture
def signed_in(client: Client, adela: User) -> Client:
    client.force_login(adela)
    client.raise_request_exception = False
    return client


@pytest.mark.parametrize("query", QUERIES)
def test_nul_in_an_address_is_a_bad_request_to_pages(signed_in: Client, query: str) -> None:
    for page in ("generation:samples", "generation:attempts", "review:cases", "evaluation:runs", "account_login"):
        response = signed_in.get(f"{reverse(page)}?{query}")
        assert response.status_code == 400, page
        assert "cannot be stored" in response.content.decode()
    assert signed_in.get(reverse("generation:samples") + f"%00?{query}").status_code == 400


def test_a_number_that_no_row_can_have_is_not_found(signed_in: Client) -> None:
    """At every address of a page or of the API that holds a number, to read and to change."""
    every = [*routes(), *(f"api/v1/{found.pattern}" for found in api_permissions.routes().values())]
    numbered = [route for route in every if "<int:" in route]
    assert len(numbered) > 200
    statuses = set()
    for route in numbered:
        path = re.sub(r"<(\w+:)?\w+>", lambda part: str(2**63) if part[1] == "int:" else "a", route)
        for method in ("GET", "POST"):
            statuses.add(signed_in.generic(method, f"/{path}", "{}", content_type="application/json").status_code)
    assert statuses == {404}


@pytest.mark.parametrize("query", QUERIES)
def test_nul_in_an_address_is_a_bad_request_to_the_api(api: Api, adela: User, query: str) -> None:
    for route in ("samples", "cases", "attempts", "batches"):
        body = problem(api(adela).get(f"{reverse(f'api:{route}')}?{query}"), 400)
        assert "cannot be stored" in body["detail"]


def test_nul_in_a_form_is_a_bad_request(signed_in: Client) -> None:
    data = {"name": "own", "url": "https://models.example/v1", "model": "a\0b"}
    for headers in ({}, {"HX-Request": "true"}):
        response = signed_in.post(reverse("generation:endpoints"), data, headers=headers)
        assert response.status_code == 400
        assert "cannot be stored" in response.content.decode()
    assert ("<html" in response.content.decode()) is False, "htmx asks for a fragment"
    login = signed_in.post(reverse("account_login"), {"login": "a\0", "password": "b"})
    assert login.status_code == 400


@pytest.mark.parametrize("bad", [NUL, HALF_SURROGATE])
def test_text_in_a_body_that_cannot_be_stored_is_a_bad_request(api: Api, adela: User, bad: str) -> None:
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
        response = api(adela).generic("POST", reverse(f"api:{route}"), body, content_type="application/json")
        assert "cannot be stored" in problem(response, 400)["detail"], route


@pytest.mark.parametrize("field", ["changes", "plan_text"])
def test_json_in_a_form_that_cannot_be_stored_is_an_error_of_the_form(signed_in: Client, field: str) -> None:
    drafts(1, "own")
    endpoint("http://models.example/v1", "big")
    data = {"benchmark": "mhb", "source": "own", "generator": "big", field: f'{{"{HALF_SURROGATE}": "{NUL}"}}'}
    response = signed_in.post(reverse("generation:batch-new"), data)
    assert response.status_code in (200, 422)


@pytest.mark.parametrize("charset", ["hex", "zlib", "idna", "undefined", "rot13", "utf-16", "utf-7", "unicode_escape"])
@pytest.mark.parametrize("path", ["/api/v1/endpoints/?a=b", "/generation/endpoints/?a=b"])
def test_an_encoding_other_than_utf_8_is_refused(db: None, charset: str, path: str) -> None:
    """The WSGI application refuses it: Django would fail on it before any middleware sees it."""
    for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain"):
        for method in ("GET", "POST"):
            environ = RequestFactory().generic(method, path, b"{}", content_type=kind).environ
            assert _status({**environ, "CONTENT_TYPE": f"{kind}; charset={charset}"}) == "415 Unsupported Media Type"


def _status(environ: dict[str, Any]) -> str:
    statuses: list[str] = []
    application(environ, lambda status, _headers: statuses.append(status))  # type: ignore[arg-type]
    return statuses[0]


def test_utf_8_given_by_name_is_accepted(api: Api, adela: User) -> None:
    body = '{"name": "x", "url": "https://m.example/v1", "model": "中文"}'
    content_type = "application/json; charset=UTF-8"
    assert api(adela).generic("POST", reverse("api:endpoints"), body, content_type=content_type).status_code == 201


def test_an_address_that_is_too_long_is_refused(signed_in: Client, api: Api, adela: User) -> None:
    path = reverse("api:samples")
    query = "?text=" + "x" * (MAX_URL_LENGTH - len(path) - 6)
    assert problem(api(adela).get(path + query), 400)["type"] == "urn:mhb:invalid", (
        "an address of the greatest length is read"
    )
    assert "too long" in problem(api(adela).get(path + query + "x"), 414)["detail"]
    page = signed_in.get(reverse("generation:samples") + "?text=" + "x" * MAX_URL_LENGTH)
    assert (page.status_code, page["Content-Type"].partition(";")[0]) == (414, "text/html")
    assert "too long" in page.content.decode()


def test_a_long_body_of_nobody_in_particular_is_not_read(client: Client, adela: User) -> None:
    """Parsing megabytes of `%f` takes seconds; to sign in, a kilobyte is enough."""
    client.raise_request_exception = False
    fields = {"language": "en", "text": "x" * 70_000}
    assert client.post(reverse("set_language"), fields).status_code == 413
    problem(client.post(reverse("api:token"), fields, content_type="application/json"), 413)
    client.force_login(adela)
    assert client.post(reverse("set_language"), fields).status_code == 302


@pytest.mark.django_db
@pytest.mark.parametrize("path", UPLOADS)
def test_who_may_upload_is_who_may_post(client: Client, path: str) -> None:
    """The servers ask `may_upload` before a body arrives; the view decides again."""
    for role in UserRole:
        person = account(f"uploader-{role}", role)
        client.force_login(person)
        client.raise_request_exception = False
        is_open = client.post(path).status_code not in (401, 403)
        assert is_open == may_upload(person, path), role
        asked = client.get("/api/v1/me/upload-right/", headers={"X-Upload-To": path})
        assert asked.status_code == (204 if is_open else 403), role
