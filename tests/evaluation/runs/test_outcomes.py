"""Outcomes of responses: told apart for live and reused replies, and stored with the response."""

import json
from typing import Any

import pytest
from aiohttp import web
from django.db import IntegrityError, transaction

from evaluation.models import Judgment, Response, Run
from evaluation.runs import services, work
from evaluation.runs.settings import RunSettings
from evaluation.verdicts.selection import NOT_JUDGED
from generation.llm.reply_reading import read_completion
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Reply
from generation.models.work import Work
from tests.engine import bare_release, endpoint
from tests.generation.llm.helpers import app_of, completion

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
            run_settings = RunSettings(release, [endpoint(url, "tested")], endpoint(url, "judge"), **settings)
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
