"""The playground: a prompt as it would be sent, and sent once; by page, API and command."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from django.test import Client
from django.urls import reverse

from evaluation import errors
from evaluation.playground import services
from evaluation.playground.services import PlaygroundSettings
from evaluation.runs import services as runs_services
from evaluation.runs import work
from evaluation.runs.settings import RunSettings
from generation.endpoints import queries as endpoints_queries
from generation.llm.simulator.server import run_in_background
from generation.models import Call, EndpointDay, Release, SourceRecord
from review.models import User
from tests.engine import Manage, bare_release, conversations_file, endpoint, import_file
from tests.engine import manage as manage
from tests.generation.llm.helpers import app_of, completion
from tests.populations import population

pytestmark = pytest.mark.django_db
MET = '{"explanation": "It does.", "criteria_met": true}'


@population
def release() -> Release:
    return bare_release(("dialogue", [["A1"]]))


async def agree(_request: web.Request) -> web.Response:
    return web.json_response(completion(MET, reasoning_content="Let me see."))


def test_a_judge_is_tried_once_and_its_reply_is_in_no_result(release: Release, client: Client, adela: User) -> None:
    client.force_login(adela)
    page = reverse("evaluation:playground")
    with run_in_background(app_of(agree)) as url:
        judge = endpoint(url, "judge", price_in=100_000)
        fields = {"what": f"judge:{release.name}@{release.version}", "answer": "Drink water.", "endpoint": "judge"}
        shown = client.get(page, fields).content.decode()
        assert "Drink water." in shown
        assert not Call.objects.exists(), "showing costs nothing"
        sent = client.post(page, fields).content.decode()
        assert "Let me see." in sent
        assert "It does." in sent
        (call,) = Call.objects.all()
        assert (call.job_id, call.subject, float(call.cost)) == (None, f"playground:{adela.pk}", 0.7)
        assert EndpointDay.objects.get().calls == 1
        assert not endpoints_queries.has_answered(judge), "nothing refers to it yet, so its address may be corrected"
        run = runs_services.launch_run(RunSettings(release, [endpoint(url, "m")], judge))
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert (run.calls, run.hits) == (2, 0), "a reply of the playground is not reused"


def test_the_api_shows_and_sends_a_question_to_a_model_under_test(
    release: Release, client: Client, adela: User
) -> None:
    client.force_login(adela)
    what = f"model:{release.name}@{release.version}:dialogue"
    (choice,) = [value for value, _label in services.choices() if value.startswith("model:")]
    with run_in_background(app_of(agree)) as url:
        endpoint(url, "m", temperature=0.5)
        body = {"what": choice, "endpoint": "m"}
        shown = client.post(reverse("api:playground"), body, content_type="application/json").json()
        assert shown["outcome"] is None
        assert (shown["sent"]["model"], shown["sent"]["temperature"], shown["role"]) == ("m", 0.5, "target")
        answer = client.post(reverse("api:playground"), {**body, "send": True}, content_type="application/json").json()
    assert (answer["outcome"]["text"], answer["outcome"]["error"]) == (MET, "")
    assert answer["outcome"]["tokens_in"] == 7
    refused = client.post(reverse("api:playground"), {**body, "what": what + "x"}, content_type="application/json")
    assert refused.status_code == 422


def test_a_step_is_shown_and_sent_by_the_command_with_what_the_parser_made_of_it(
    tmp_path: Path, manage: Manage
) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 1))
    record = SourceRecord.objects.get(source=source)
    with run_in_background(app_of(agree)) as url:
        endpoint(url, "gen")
        arguments = ("playground", "step:mhb:inject", "--on", record.pk, "--endpoint", "gen")
        shown = manage.json(*arguments)
        body = json.loads(shown["body"])
        assert shown["role"] == "generator"
        assert body["response_format"]["type"] == "json_schema"
        assert not Call.objects.exists()
        code, out, _err = manage(*arguments, "--send", "--json")
    result = json.loads(out)
    assert (code, result["failed"], result["parsed"]) == (1, 1, {}), "the reply has not the form of this step"
    assert result["error"]
    assert Call.objects.get().subject == "playground:0"
    assert "step:mhb:inject" in manage.json("playground")["choices"]


@pytest.mark.parametrize("what", ["step:mhb:nothing", "step:mhb:inject", "nonsense", "judge:", "model:own"])
def test_what_cannot_be_tried_is_said(what: str) -> None:
    with pytest.raises(Exception, match=r"cannot be tried|no release|No record") as caught:
        services.prepare(PlaygroundSettings(what))
    assert getattr(caught.value, "status", None) in (404, 422)
    assert errors.NothingToTry.status == 422
