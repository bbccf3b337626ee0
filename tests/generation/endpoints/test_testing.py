"""The test of an endpoint by page, API and shell; and settings that are frozen at launch."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from django.test import Client
from django.urls import reverse

from generation.batches import services as batches_services
from generation.llm.request_body import Format, build_body, identity
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Message, ModelSettings, Request
from generation.models import Call, Endpoint, EndpointDay
from review.models import User
from tests.engine import Manage, calls, conversations_file, endpoint, import_file, launch_batch, simulator
from tests.engine import manage as manage
from tests.generation.llm.helpers import app_of, completion, error_body

REQUEST = Request((Message("user", "?"),), max_tokens=50)


@pytest.mark.plain
def test_settings_of_an_endpoint_reach_the_body_and_the_identity() -> None:
    plain = ModelSettings("a", "https://a.example/v1", "m")
    tuned = ModelSettings(
        "a",
        "https://a.example/v1",
        "m",
        top_p=0.5,
        completion_tokens=True,
        reasoning_effort="low",
        extra_body={"seed": 7},
    )
    assert build_body(plain, REQUEST, Format.TEXT) == {
        "model": "m", "messages": [{"role": "user", "content": "?"}], "max_tokens": 50
    }  # fmt: skip
    body = build_body(tuned, REQUEST, Format.TEXT)
    assert (body["top_p"], body["max_completion_tokens"], body["reasoning_effort"], body["seed"]) == (0.5, 50, "low", 7)
    assert "max_tokens" not in body
    assert identity(plain, REQUEST) != identity(tuned, REQUEST)
    renamed = ModelSettings("a", "https://a.example/v1", "m", completion_tokens=True)
    assert identity(plain, REQUEST) == identity(renamed, REQUEST)  # the same question, sent in another field


@pytest.mark.django_db
def test_page_api_and_command_ask_one_question(client: Client, adela: User, manage: Manage) -> None:
    client.force_login(adela)
    with simulator() as url:
        target = endpoint(url)
        page = client.post(reverse("generation:endpoint-test", args=[target.name]), follow=True).content.decode()
        answer = client.post(reverse("api:endpoint-test", args=[target.name]))
        printed = manage.json("test_endpoint", target.name)
    assert "answered" in page
    assert "JSON schema" in page
    assert answer.status_code == 200
    result = answer.json()
    assert (result["answered"], result["structured"], result["error"]) == (True, "json_schema", "")
    assert result["tokens_in"] > 0
    assert (printed["answered"], printed["failed"], printed["model"]) == (True, 0, target.model)
    assert sum(EndpointDay.objects.values_list("calls", flat=True)) == 3
    assert not Call.objects.exists()  # tests belong to no job


@pytest.mark.django_db
def test_an_unreachable_endpoint_is_reported(client: Client, adela: User) -> None:
    client.force_login(adela)
    target = endpoint("http://127.0.0.1:9/v1")
    answer = client.post(reverse("api:endpoint-test", args=[target.name]))
    assert answer.status_code == 200
    assert (answer.json()["answered"], answer.json()["error"]) == (False, "NobodyListens")
    page = client.post(reverse("generation:endpoint-test", args=[target.name]), follow=True).content.decode()
    assert "did not answer. Nothing listens at the endpoint" in page


@pytest.mark.django_db
def test_a_missing_key_is_named_and_its_value_never_shown(
    client: Client, adela: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(adela)
    monkeypatch.delenv("MHB_KEY_TEST", raising=False)
    target = endpoint("http://127.0.0.1:9/v1")
    Endpoint.objects.filter(pk=target.pk).update(key_env="MHB_KEY_TEST")
    assert client.post(reverse("api:endpoint-test", args=[target.name])).json()["error"] == "KeyMissing"
    monkeypatch.setenv("MHB_KEY_TEST", "sk-" + "x" * 30)
    target.refresh_from_db()
    printed = client.post(reverse("api:endpoint-test", args=[target.name])).json()
    assert "sk-x" not in str(printed)
    assert "sk-x" not in str(Endpoint.objects.get(pk=target.pk).last_test)


@pytest.mark.django_db
def test_only_users_who_connect_endpoints_may_test_them(client: Client) -> None:
    target = endpoint("http://127.0.0.1:9/v1")
    assert client.post(reverse("generation:endpoint-test", args=[target.name])).status_code in (302, 403)
    assert client.post(reverse("api:endpoint-test", args=[target.name])).status_code in (401, 403)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "extra", [{"model": "other"}, {"api_key": "x"}, {"headers": {"Authorization": "x"}}, {"stream": True}, {"a": "\0"}]
)
def test_extra_fields_hold_neither_keys_nor_other_settings(client: Client, adela: User, extra: dict[str, Any]) -> None:
    client.force_login(adela)
    target = endpoint("http://127.0.0.1:9/v1")
    url = reverse("api:endpoint", args=[target.name])
    answer = client.patch(url, {"extra_body": extra}, content_type="application/json")
    assert answer.status_code == 400
    good = client.patch(url, {"extra_body": {"seed": 1}}, content_type="application/json")
    assert good.json()["extra_body"] == {"seed": 1}


@pytest.mark.django_db
def test_a_batch_keeps_the_settings_of_its_launch(tmp_path: Path) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    with simulator() as url:
        target = endpoint(url)
        Endpoint.objects.filter(pk=target.pk).update(reasoning_effort="low", extra_body={"seed": 1}, top_p=0.9)
        target.refresh_from_db()

        batch = launch_batch(source, target)
        Endpoint.objects.filter(pk=target.pk).update(reasoning_effort="high", extra_body={"seed": 2}, top_p=0.1)
        batches_services.work_on_batch(batch.pk)
    sent = [call.sent for call in calls(batch)]
    assert {(body["reasoning_effort"], body["seed"], body["top_p"]) for body in sent} == {("low", 1, 0.9)}
    assert batch.endpoint_settings[str(target.pk)]["model"] == target.model


@pytest.mark.django_db
def test_a_test_sends_what_jobs_send_and_says_what_is_refused(client: Client, adela: User, manage: Manage) -> None:
    async def picky(request: web.Request) -> web.Response:
        body = await request.json()
        if "temperature" in body:
            return web.json_response(error_body("temperature is deprecated for this model"), status=400)
        if isinstance(body["messages"][0]["content"], list):
            return web.json_response(error_body("image_url is not supported"), status=400)
        return web.json_response(completion('{"answer": "heart"}'))

    client.force_login(adela)
    with run_in_background(app_of(picky)) as url:
        target = endpoint(url, "picky")
        result = client.post(reverse("api:endpoint-test", args=["picky"]) + "?images=true").json()
        code, out, _err = manage("test_endpoint", "picky", "--json")
        page = client.get(reverse("generation:endpoint", args=[target.name])).content.decode()
    assert (result["answered"], result["structured"]) == (True, "json_schema")
    assert [finding["code"] for finding in result["findings"]] == ["temperature", "images"]
    assert code == 1
    assert "It refuses the temperature" in out
    assert "It refuses the temperature" in page
