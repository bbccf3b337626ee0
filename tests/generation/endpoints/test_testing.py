"""The test of an endpoint: one question by page, API and shell; and settings that are frozen at launch."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from generation.batches import services as batches_services
from generation.llm.request_body import Format, build_body, identity
from generation.llm.types import Message, ModelSettings, Request
from generation.models import Call, Endpoint, EndpointDay
from review.models import User
from tests.engine import Manage, conversations_file, endpoint, imported, launched, simulated
from tests.engine import manage as manage

ASKED = Request((Message("user", "?"),), max_tokens=50)


@pytest.mark.plain
def test_settings_of_an_endpoint_reach_the_body_and_the_identity() -> None:
    plain = ModelSettings("a", "https://a.example/v1", "m")
    more = ModelSettings(
        "a",
        "https://a.example/v1",
        "m",
        top_p=0.5,
        completion_tokens=True,
        reasoning_effort="low",
        extra_body={"seed": 7},
    )
    assert build_body(plain, ASKED, Format.TEXT) == {
        "model": "m", "messages": [{"role": "user", "content": "?"}], "max_tokens": 50
    }  # fmt: skip
    body = build_body(more, ASKED, Format.TEXT)
    assert (body["top_p"], body["max_completion_tokens"], body["reasoning_effort"], body["seed"]) == (0.5, 50, "low", 7)
    assert "max_tokens" not in body
    assert identity(plain, ASKED) != identity(more, ASKED)
    renamed = ModelSettings("a", "https://a.example/v1", "m", completion_tokens=True)
    assert identity(plain, ASKED) == identity(renamed, ASKED)  # the same question, sent in another way


@pytest.mark.django_db
def test_page_api_and_command_ask_one_question(client: Client, adela: User, manage: Manage) -> None:
    client.force_login(adela)
    with simulated() as url:
        of = endpoint(url)
        page = client.post(reverse("generation:endpoint-test", args=[of.name]), follow=True).content.decode()
        answer = client.post(reverse("api:endpoint-test", args=[of.name]))
        said = manage.json("test_endpoint", of.name)
    assert "answered" in page
    assert "JSON schema" in page
    assert answer.status_code == 200
    found = answer.json()
    assert (found["answered"], found["structured"], found["error"]) == (True, "json_schema", "")
    assert found["tokens_in"] > 0
    assert (said["answered"], said["failed"], said["model"]) == (True, 0, of.model)
    assert sum(EndpointDay.objects.values_list("calls", flat=True)) == 3
    assert not Call.objects.exists()  # no job asked


@pytest.mark.django_db
def test_an_endpoint_that_is_not_there_says_so(client: Client, adela: User) -> None:
    client.force_login(adela)
    of = endpoint("http://127.0.0.1:9/v1")
    answer = client.post(reverse("api:endpoint-test", args=[of.name]))
    assert answer.status_code == 200
    assert (answer.json()["answered"], answer.json()["error"]) == (False, "NotReached")
    page = client.post(reverse("generation:endpoint-test", args=[of.name]), follow=True).content.decode()
    assert "did not answer: NotReached" in page


@pytest.mark.django_db
def test_a_missing_key_is_named_and_never_its_value(
    client: Client, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(adela)
    monkeypatch.delenv("MHB_KEY_TEST", raising=False)
    of = endpoint("http://127.0.0.1:9/v1")
    Endpoint.objects.filter(pk=of.pk).update(key_env="MHB_KEY_TEST")
    assert client.post(reverse("api:endpoint-test", args=[of.name])).json()["error"] == "KeyMissing"
    monkeypatch.setenv("MHB_KEY_TEST", "sk-" + "x" * 30)
    of.refresh_from_db()
    said = client.post(reverse("api:endpoint-test", args=[of.name])).json()
    assert "sk-x" not in str(said)
    assert "sk-x" not in str(Endpoint.objects.get(pk=of.pk).last_test)


@pytest.mark.django_db
def test_only_those_who_connect_may_test(client: Client) -> None:
    of = endpoint("http://127.0.0.1:9/v1")
    assert client.post(reverse("generation:endpoint-test", args=[of.name])).status_code in (302, 403)
    assert client.post(reverse("api:endpoint-test", args=[of.name])).status_code in (401, 403)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "extra", [{"model": "other"}, {"api_key": "x"}, {"headers": {"Authorization": "x"}}, {"stream": True}, {"a": "\0"}]
)
def test_extra_fields_hold_neither_keys_nor_what_is_set_elsewhere(
    client: Client, adela: User, extra: dict[str, Any]
) -> None:
    client.force_login(adela)
    of = endpoint("http://127.0.0.1:9/v1")
    there = reverse("api:endpoint", args=[of.name])
    answer = client.patch(there, {"extra_body": extra}, content_type="application/json")
    assert answer.status_code == 400
    good = client.patch(there, {"extra_body": {"seed": 1}}, content_type="application/json")
    assert good.json()["extra_body"] == {"seed": 1}


@pytest.mark.django_db
def test_a_batch_keeps_the_settings_of_its_launch(tmp_path: Path) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 1))
    with simulated() as url:
        of = endpoint(url)
        Endpoint.objects.filter(pk=of.pk).update(reasoning_effort="low", extra_body={"seed": 1}, top_p=0.9)
        of.refresh_from_db()

        batch = launched(source, of)
        Endpoint.objects.filter(pk=of.pk).update(reasoning_effort="high", extra_body={"seed": 2}, top_p=0.1)
        batches_services.work_on_batch(batch.pk)
    sent = Call.objects.filter(job=batch.pk).values_list("sent", flat=True)
    assert {(each["reasoning_effort"], each["seed"], each["top_p"]) for each in sent} == {("low", 1, 0.9)}
    assert batch.endpoint_settings[str(of.pk)]["model"] == of.model
