"""How responses end: each way is told apart, whether the reply came live or was paid for before, and kept once and for all."""

import json
from typing import Any

import pytest
from aiohttp import web
from django.db import IntegrityError, transaction

from evaluation.models import Judgment, Response, Run
from evaluation.runs import services, work
from evaluation.runs.services import NOT_JUDGED
from evaluation.runs.settings import RunSettings
from generation.llm.reply_reading import read_completion
from generation.llm.simulator.server import run_in_background
from generation.llm.types import Reply
from generation.models.work import Work
from tests.engine import bare_release, endpoint
from tests.generation.llm.helpers import app_of, said

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status
VERDICT = json.dumps({"explanation": "It does.", "criteria_met": True})
REPLIES: dict[str, Any] = {  # outcome -> what comes back
    "answered": said("Rest."),
    "refused": said(None, refusal="I cannot help with that."),
    "empty": said("  "),
    "filtered": said("", finish_reason="content_filter"),
    "cut_off": said("Rest, and", finish_reason="length"),
}


def asked(reply: Any, *, times: int = 1, **settings: Any) -> list[Run]:
    """Runs of one model that replies so, and of a judge that finds every criterion met."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response(said(VERDICT) if body["model"] == "judge" else reply)

    release, runs = bare_release(("dialogue", [["A1"], ["C2"]])), []
    with run_in_background(app_of(answer)) as url:
        for _ in range(times):
            chosen = RunSettings(release, [endpoint(url, "tested")], endpoint(url, "judge"), **settings)
            run = services.launch_run(chosen)
            work.work_on_run(run.pk)
            runs.append(run)
    return runs


@pytest.mark.parametrize("outcome", REPLIES)
def test_how_a_response_ended_is_kept(outcome: str) -> None:
    first, again = asked(REPLIES[outcome], times=2)
    for run in (first, again):
        response = Response.objects.get(run=run)
        assert response.outcome == outcome
        judged = set(Judgment.objects.filter(run=run).values_list("status", flat=True))
        has_text = outcome in ("answered", "refused", "cut_off")
        assert (response.status, judged) == (
            (Status.DONE, {Status.DONE}) if has_text else (Status.FAILED, {Status.FAILED})
        )
        assert bool(response.text) == has_text


def test_a_call_that_fails_is_failed_and_may_be_tried_again() -> None:
    [run] = asked({"error": "odd"})
    response = Response.objects.get(run=run)
    assert (response.status, response.outcome) == (Status.FAILED, "failed")
    services.retry_failed(run.pk)
    response.refresh_from_db()
    assert (response.status, response.outcome) == (Status.QUEUED, "")


def test_what_is_counted_by_its_outcome_is_not_judged() -> None:
    [run] = asked(REPLIES["cut_off"], outcomes=["cut_off=not_met"])
    assert Response.objects.get(run=run).text == "Rest, and"
    assert set(Judgment.objects.filter(run=run).values_list("status", "error")) == {(Status.FAILED, NOT_JUDGED)}
    assert services.retry_failed(run.pk) == 0


@pytest.mark.parametrize(("status", "outcome"), [(Status.DONE, ""), (Status.FAILED, ""), (Status.QUEUED, "answered")])
def test_an_outcome_is_there_exactly_when_it_ended(status: str, outcome: str) -> None:
    [run] = asked(REPLIES["answered"])
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
def test_a_refusal_is_known_by_its_field(message: dict[str, Any], reason: str) -> None:
    completion = said(message.pop("content"), **message)
    reply = read_completion(completion, 200)
    assert isinstance(reply, Reply)
    assert reply.finish_reason == reason
