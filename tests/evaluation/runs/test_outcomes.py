"""Outcomes of responses: told apart for live and reused replies, and stored with the response."""

import json
from typing import Any

import pytest
from aiohttp import web
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from evaluation.models import Judgment, Response, Run
from evaluation.numbers.rules import NOT_JUDGED
from evaluation.reports import documents
from evaluation.reports import queries as reports_queries
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from generation.jobs import services as jobs_services
from generation.llm.reply_reading import read_completion
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Reply
from generation.models import Call, Endpoint
from generation.models.work import Work
from review.models import User
from tests.engine import bare_release, endpoint
from tests.generation.llm.helpers import app_of, completion, fake_endpoint

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
VERDICT = json.dumps({"explanation": "It does.", "criteria_met": True})
REPLIES: dict[str, Any] = {  # outcome -> reply of the endpoint
    "answered": completion("Rest."),
    "refused": completion(None, refusal="I cannot help with that."),
    "empty": completion("  "),
    "filtered": completion("", finish_reason="content_filter"),
    "cut_off": completion("Rest, and", finish_reason="length"),
}


def finished_runs(reply: Any, *, times: int = 1, **settings: Any) -> list[Run]:
    """Finished runs of a model with this reply, and of a judge that finds every criterion met."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response(completion(VERDICT) if body["model"] == "judge" else reply)

    release, runs = bare_release(("dialogue", [["A1"], ["C2"]])), []
    with run_in_background(app_of(answer)) as url:
        for _ in range(times):
            run_settings = RunSettings(
                release=release, endpoints=[endpoint(url, "tested")], judge=endpoint(url, "judge"), **settings
            )
            run = services.launch_run(run_settings)
            work.work_on_run(run.pk)
            runs.append(run)
    return runs


@pytest.mark.parametrize("outcome", REPLIES)
def test_the_outcome_of_a_response_is_stored(outcome: str) -> None:
    first, again = finished_runs(REPLIES[outcome], times=2)
    for run in (first, again):
        response = Response.objects.get(run=run)
        assert response.outcome == outcome
        judgment_statuses = set(Judgment.objects.filter(run=run).values_list("status", flat=True))
        has_text = outcome in ("answered", "refused", "cut_off")
        assert (response.status, judgment_statuses) == (
            (Status.DONE, {Status.DONE}) if has_text else (Status.FAILED, {Status.FAILED})
        )
        assert bool(response.text) == has_text


@pytest.mark.parametrize(
    ("said", "outcome", "error"),
    [
        ("MAX_TOKENS", "cut_off", ""),
        ("model_length", "cut_off", ""),
        ("SAFETY", "filtered", "ContentFiltered"),
        ("error", "failed", "ServerError"),
        ("insufficient_system_resource", "failed", "ServerError"),
        ("tool_calls", "failed", "BrokenReply"),
        ("halted", "unknown", "UnknownEnding"),
    ],
)
def test_an_ending_in_a_providers_words_is_no_answer(said: str, outcome: str, error: str) -> None:
    [run] = finished_runs(completion("Half an answ", finish_reason=said))
    response = Response.objects.get(run=run)
    assert (response.outcome, response.error) == (outcome, error)
    assert error == "" or said in response.detail or outcome == "failed"
    verdicts = Judgment.objects.filter(run=run).exclude(verdict="").count()
    assert verdicts == (2 if outcome == "cut_off" else 0)
    assert {ending.kind for ending in reports_queries.report(run).numbers.endings} == {outcome}
    assert Call.objects.filter(job=run, text="Half an answ").exclude(tokens_out=3).count() == 0, "it is paid for"


def test_an_unknown_ending_is_named_until_somebody_decides_and_is_then_read_again_without_a_call(
    client: Client, adela: User
) -> None:
    client.force_login(adela)
    [run] = finished_runs(completion("<ponder>Rest.", finish_reason="halted"))
    assert reports_queries.report(run).oddities == (reports_queries.Oddity("tested", "halted", 1),)
    assert "- tested: 1 responses ended in an unknown way (halted)" in documents.as_markdown(
        reports_queries.report(run)
    )
    assert "(halted)" in client.get(f"/evaluation/runs/{run.pk}/").content.decode()
    page = f"/generation/endpoints/{run.tested.get().endpoint.name}/"
    assert "<code>halted</code>" in client.get(page).content.decode()
    listed = client.get(reverse("api:endpoint", args=["tested"]) + "endings/").json()
    assert listed == [{"ending": "halted", "calls": 1}]
    refused = client.post(f"{page}endings/", {"ending": "stop", "meaning": "filtered"}, follow=True)
    assert "known already: stop" in refused.content.decode()
    call_command("decide_ending", "tested", "halted", "complete")
    assert "<code>halted</code>" not in client.get(page).content.decode()
    calls = Call.objects.filter(job=run, hit_of__isnull=True, endpoint__name="tested").count()
    jobs_services.retry_failed(run.pk)
    with fake_endpoint(VERDICT) as judge:
        Endpoint.objects.filter(name="judge").update(url=judge.url)
        work.work_on_run(run.pk)
    response = Response.objects.get(run=run)
    assert (response.status, response.outcome, response.text) == (Status.DONE, "answered", "<ponder>Rest.")
    assert Call.objects.filter(job=run, hit_of__isnull=True, endpoint__name="tested").count() == calls
    assert reports_queries.report(run).oddities == (reports_queries.Oddity("tested", "", 1),), (
        "it begins like reasoning"
    )


def test_a_failed_call_makes_the_outcome_failed_and_can_be_retried() -> None:
    [run] = finished_runs({"error": "odd"})
    response = Response.objects.get(run=run)
    assert (response.status, response.outcome) == (Status.FAILED, "failed")
    services.retry_failed(run.pk)
    response.refresh_from_db()
    assert (response.status, response.outcome) == (Status.QUEUED, "")


def test_a_response_that_the_plan_counts_by_its_outcome_is_not_judged() -> None:
    [run] = finished_runs(REPLIES["cut_off"], outcomes=["cut_off=not_met"])
    assert Response.objects.get(run=run).text == "Rest, and"
    assert set(Judgment.objects.filter(run=run).values_list("status", "error")) == {(Status.FAILED, NOT_JUDGED)}
    assert services.retry_failed(run.pk) == 0


@pytest.mark.parametrize(("status", "outcome"), [(Status.DONE, ""), (Status.FAILED, ""), (Status.QUEUED, "answered")])
def test_a_response_has_an_outcome_exactly_when_it_has_ended(status: str, outcome: str) -> None:
    [run] = finished_runs(REPLIES["answered"])
    with pytest.raises(IntegrityError), transaction.atomic():
        Response.objects.filter(run=run).update(status=status, outcome=outcome)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "refusal"),
        ({"content": "Yes.", "refusal": None}, "stop"),
        ({"content": None, "refusal": "No."}, "refusal"),
    ],
)
def test_a_refusal_is_recognised_by_its_field(message: dict[str, Any], reason: str) -> None:
    body = completion(message.pop("content"), **message)
    reply = read_completion(body, 200)
    assert isinstance(reply, Reply)
    assert reply.finish_reason == reason
