"""Every error is `application/problem+json` in the shape of RFC 9457."""

import json
import uuid
import zlib
from http import HTTPStatus
from io import BytesIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from rest_framework.exceptions import ParseError

from review.common.api import StrictJSONParser
from review.models import User
from review.people import accounts
from tests.api.conftest import Api
from tests.review.factories import PASSWORD, claim, open_case


def problem(answer: Any, status: int) -> dict[str, Any]:
    """The body of an answer that must be a problem with this status."""
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.content)
    assert body["status"] == status
    assert body["title"]
    if body["type"] == "about:blank":
        assert body["title"] == HTTPStatus(status).phrase
    else:
        assert body["type"].startswith("urn:mhb:")
    return body


def test_400_names_each_wrong_field(api: Api, adela: User) -> None:
    wrong = {"name": "no spaces", "url": "ftp://nowhere", "model": "", "temperature": "warm"}
    body = problem(api(adela).post(reverse("api:endpoints"), wrong), 400)
    assert body["type"] == "urn:mhb:invalid"
    assert {error["field"] for error in body["errors"]} == {"name", "url", "model", "temperature"}
    assert all(error["code"] and error["detail"] for error in body["errors"])


def test_400_names_a_field_deep_inside(api: Api, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    answers = {"rubrics": {"R1": {"value": "perhaps"}}}
    address = reverse("api:assignment-submit", args=[assignment.pk])
    body = problem(api(ana).post(address, {"token": str(assignment.token), "answers": answers}), 400)
    assert [error["field"] for error in body["errors"]] == ["answers.rubrics.R1.value"]


def test_400_names_an_unknown_row_and_a_wrong_query(api: Api, adela: User) -> None:
    batch = {"benchmark": "nothing", "source": "none", "roles": {"generator": "no-one"}}
    body = problem(api(adela).post(reverse("api:batches"), batch), 400)
    assert {error["field"] for error in body["errors"]} == {"benchmark", "source", "roles.generator"}
    body = problem(api(adela).get(reverse("api:cases"), {"state": "lost"}), 400)
    assert [error["field"] for error in body["errors"]] == ["state"]


def test_400_names_fields_that_do_not_exist(api: Api, adela: User) -> None:
    endpoint = {"name": "e", "url": "http://models.test/v1", "model": "m"}
    assert api(adela).post(reverse("api:endpoints"), endpoint).status_code == 201
    misspelt = dict.fromkeys([*(f"field-{number}" for number in range(20)), "x" * 9_000], 1)
    for answer in (
        api(adela).post(reverse("api:endpoints"), {**endpoint, "name": "f", **misspelt}),
        api(adela).patch(reverse("api:endpoint", args=["e"]), misspelt),
    ):
        body = problem(answer, 400)
        assert {error["detail"] for error in body["errors"]} == {"There is no such field."}
        assert len(answer.content) < 10_000


@pytest.mark.parametrize(
    "fields", [{"further_endpoints": ["e"] * 90_000}, {"roles": {f"role-{number}": "e" for number in range(40_000)}}]
)
def test_a_list_that_is_too_long_is_refused_before_its_entries_are_looked_up(
    api: Api, adela: User, fields: dict[str, Any], django_assert_max_num_queries: Any
) -> None:
    client, wanted = api(adela), {"benchmark": "mhb", "source": "s", "roles": {}, **fields}
    with django_assert_max_num_queries(20):
        body = problem(client.post(reverse("api:batch-estimate"), wanted), 400)
    assert "More than 200 entries." in str(body["errors"])


def test_400_for_a_body_that_is_not_json_or_nests_too_deep(api: Api, adela: User) -> None:
    for body in ("{", "[" * 100_000):
        problem(api(adela).generic("POST", reverse("api:endpoints"), body, content_type="application/json"), 400)


def test_400_for_json_that_nests_more_than_a_hundred_deep(api: Api, adela: User) -> None:
    for levels in (99, 100):
        wrong = '{"name": ' + "[" * levels + "]" * levels + "}"
        answer = api(adela).generic("POST", reverse("api:endpoints"), wrong, content_type="application/json")
        assert ("nested too deeply" in problem(answer, 400).get("detail", "")) == (levels == 100)


@pytest.mark.parametrize("charset", ["zlib", "hex", "undefined", "utf-16"])
def test_a_body_is_read_as_utf_8_whatever_charset_it_claims(charset: str) -> None:
    """Python's "charsets" include decompressors: 5 MB of zlib could become 5 GB of JSON.

    The site refuses such a body earlier, with 415.
    """
    context = {"encoding": charset}
    assert StrictJSONParser().parse(BytesIO('{"name": "中"}'.encode()), parser_context=context) == {"name": "中"}
    with pytest.raises(ParseError):
        StrictJSONParser().parse(BytesIO(zlib.compress(b"{}")), parser_context=context)


def test_401_says_how_to_sign_in(api: Api) -> None:
    answer = api(None).get(reverse("api:me"))
    problem(answer, 401)
    assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["mhb_nothing", "ä", "a\0b", "x" * 5000, "two words", ""])
def test_401_for_anything_that_is_not_a_token(api: Api, token: str) -> None:
    client = api(None)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    problem(client.get(reverse("api:me")), 401)


def test_403_for_a_role_without_the_permission(api: Api, ana: User) -> None:
    assert problem(api(ana).get(reverse("api:cases")), 403)["detail"] == "Your role does not allow this."


def test_403_for_a_session_without_the_csrf_token(ana: User) -> None:
    from tests.api.conftest import Client

    client = Client(enforce_csrf_checks=True)
    client.force_login(ana)
    assert "CSRF" in problem(client.post(reverse("api:assignment-next")), 403)["detail"]


def test_404_for_unknown_assignments_rows_and_addresses(api: Api, ana: User, adela: User) -> None:
    not_yours = problem(api(ana).get(reverse("api:assignment", args=[1])), 404)
    assert not_yours["type"] == "urn:mhb:not-assigned"
    problem(api(adela).get(reverse("api:case", args=[10**30])), 404)
    problem(api(adela).get(reverse("api:run", args=[10**30])), 404)
    problem(api(adela).get("/api/v1/nothing/"), 404)


@pytest.mark.parametrize("cursor", ["A", "cD1uby1udW1iZXI=", "cD05OTk5OTk5OTk5OTk5OTk5OTk5OTk5"])
def test_404_for_an_invalid_cursor(api: Api, adela: User, cursor: str) -> None:
    problem(api(adela).get(reverse("api:cases"), {"cursor": cursor}), 404)


def test_405_names_the_allowed_methods(api: Api, adela: User) -> None:
    answer = api(adela).delete(reverse("api:releases"))
    problem(answer, 405)
    assert "GET" in answer["Allow"]


def test_409_for_a_second_submit(api: Api, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    answers = {
        "questions": {"natural": {"value": "yes"}, "aligned": {"value": "yes"}},
        "rubrics": {"R1": {"value": "adequate"}, "R2": {"value": "adequate"}},
        "verdict": "approve",
    }
    address, body = (
        reverse("api:assignment-submit", args=[assignment.pk]),
        {"token": str(assignment.token), "answers": answers},
    )
    client = api(ana)
    assert client.post(address, body).status_code == 201
    assert problem(client.post(address, body), 409)["type"] == "urn:mhb:already-submitted"


def test_409_for_a_lost_lease_keeps_the_answers(api: Api, ana: User, bo: User, clock: Any) -> None:
    from review.models import Draft

    open_case()
    assignment = claim(ana)
    clock.advance(minutes=16)
    claim(bo)
    body = {"token": str(assignment.token), "answers": {"reason": "typed for nothing"}}
    answer = api(ana).post(reverse("api:assignment-submit", args=[assignment.pk]), body)
    assert problem(answer, 409)["type"] == "urn:mhb:lease-lost"
    assert Draft.objects.get(physician=ana).answers["reason"] == "typed for nothing"


def test_413_for_a_body_over_the_limit(api: Api, adela: User, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    problem(api(adela).post(reverse("api:endpoints"), {"name": "longer-than-that"}), 413)


def test_415_for_a_form_in_place_of_json(api: Api, adela: User) -> None:
    address = reverse("api:endpoints")
    problem(api(adela).generic("POST", address, "name=x", content_type="application/x-www-form-urlencoded"), 415)


def test_422_lists_what_is_missing(api: Api, ana: User) -> None:
    open_case()
    assignment = claim(ana)
    address = reverse("api:assignment-submit", args=[assignment.pk])
    body = problem(api(ana).post(address, {"token": str(assignment.token), "answers": {}}), 422)
    assert body["type"] == "urn:mhb:incomplete"
    assert {"field": "question.natural", "code": "unanswered"} in body["problems"]
    assert {"field": "verdict", "code": "verdict-missing"} in body["problems"]


def test_422_for_a_file_of_another_kind_stores_nothing(api: Api, adela: User, uploads: Any) -> None:
    upload = {"file": SimpleUploadedFile("x.jsonl", b"%PDF-1.7"), "format": "healthbench", "name": "own"}
    body = problem(api(adela).post(reverse("api:imports"), upload, format="multipart"), 422)
    assert body["type"] == "urn:mhb:wrong-file"
    assert list(uploads.iterdir()) == []


def test_429_after_too_many_wrong_passwords(api: Api, ana: User, settings: Any) -> None:
    guess = {"username": "ana", "password": "not-hers"}
    client = api(None)
    for _ in range(settings.AXES_FAILURE_LIMIT - 1):
        problem(client.post(reverse("api:token"), guess), 401)
    for _ in range(2):
        answer = client.post(reverse("api:token"), guess)
        problem(answer, 429)
        assert int(answer["Retry-After"]) == 15 * 60
    answer = client.post(reverse("api:token"), {"username": "ana", "password": "a-password-for-tests"})
    problem(answer, 429)


def test_the_sign_in_page_locks_as_well(client: Any, ana: User, settings: Any) -> None:
    guess = {"login": "ana", "password": "not-hers"}
    for _ in range(settings.AXES_FAILURE_LIMIT):
        answer = client.post(reverse("account_login"), guess)
    assert answer.status_code == 429
    assert answer["Content-Type"].startswith("text/html")
    assert b"Too many attempts" in answer.content


def test_500_does_not_reveal_the_exception(api: Api, adela: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr("review.cases.queries.cases", fail)
    client = api(adela)
    client.raise_request_exception = False
    answer = client.get(reverse("api:cases"))
    problem(answer, 500)
    assert b"secret" not in answer.content


def test_the_accept_header_is_ignored(api: Api, adela: User) -> None:
    answer = api(adela).get(reverse("api:case", args=[1]), HTTP_ACCEPT="text/csv")
    problem(answer, 404)
    token = {"token": str(uuid.uuid4())}
    problem(api(adela).post(reverse("api:assignment-release", args=[1]), token, HTTP_ACCEPT="text/html"), 403)


@pytest.mark.both
def test_the_second_of_two_that_do_the_same_at_once_is_told_so(
    api: Api, adela: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Both have passed the checks when the first stores its row."""
    add_person = accounts.add_person

    def add_after_another(user: User, password: str | None, *, actor: User) -> User:
        User.objects.create(username=user.username)
        return add_person(user, password, actor=actor)

    monkeypatch.setattr(accounts, "add_person", add_after_another)
    client = api(adela)
    body = problem(client.post("/api/v1/people/", {"username": "nia", "role": "physician"}), 409)
    assert body["type"] == "urn:mhb:just-taken"
    [line] = [record.getMessage() for record in caplog.records if "was there already" in record.getMessage()]
    assert "user" in line, "which of the checks is missing"
    assert "nia" not in line
    browser = Client()
    browser.force_login(adela)
    typed = {"username": "sam", "role": "physician", "password": PASSWORD}
    page = browser.post(reverse("review:person-new"), typed)
    assert page.status_code == 409
    assert "Somebody has just used this name" in page.content.decode()
