"""Judgments that share a beginning follow the first of them; whatever befalls it, none is lost."""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from aiohttp import web
from django.db.models import Sum
from django.test import Client
from django.urls import reverse

from evaluation.models import Judgment, Run
from evaluation.reports import queries as reports_queries
from evaluation.reports.documents import as_markdown
from evaluation.runs import services, work
from evaluation.runs.estimate import estimate_run
from evaluation.runs.settings import RunSettings
from generation.engine.worker_lane import RunningLane
from generation.jobs import services as jobs_services
from generation.llm.simulator.server import run_in_background
from generation.models import Call, Release
from generation.models.work import Work
from review.models import User
from tests.engine import bare_release, endpoint, evaluate_release, launch_run, no_long_waits, simulator
from tests.generation.llm.helpers import app_of, completion
from tests.populations import population

__all__ = ["no_long_waits"]

pytestmark = pytest.mark.django_db
CRITERIA = (["A1"], ["C2"], ["A3"], ["A1"])


@population
def release() -> Release:
    """Three samples of four criteria, and one of a single criterion."""
    return bare_release(*(("dialogue", list(CRITERIA)) for _ in range(3)), ("dialogue", [["A1"]]))


class Judge:
    """An endpoint that sees which judgments are under way; `ended`: beginnings that are warm.

    `meets`: its first call ends once another is under way. `is_dead`: it is gone once the first of
    a beginning has ended, until a test revives it.
    """

    def __init__(
        self,
        *,
        dies: bool = False,
        is_dead: bool = False,
        meets: bool = False,
        cached: int = 0,
        written: int = 0,
        fails: int = 0,
    ) -> None:
        self.dies, self.cached, self.written, self.fails = dies, cached, written, fails
        self.is_dead = is_dead
        self.meets = meets
        self.prompts: Counter[str] = Counter()  # that were answered
        self.begun: Counter[str] = Counter()
        self.ended: set[str] = set()
        self.cold: Counter[str] = Counter()  # calls of a beginning before one of it had ended
        self.most = self.now = 0
        self.keys: dict[str, set[str]] = defaultdict(set)
        self.dice = Random(1)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["model"] != "judge":
            return web.json_response(completion(f"{body['model']}: {body['messages'][-1]['content'][-40:]}"))
        beginning = body["messages"][-1]["content"].split("<<<TRAP")[0]
        self.begun[beginning] += 1
        self.keys[beginning].add(body.get("prompt_cache_key", ""))
        if beginning not in self.ended:
            self.cold[beginning] += 1
        is_cut = self.dies and self.begun[beginning] == 1
        is_cut |= self.is_dead and beginning in self.ended
        if is_cut and request.transport:
            request.transport.close()  # between the warming call and the rest
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(1_000):  # ten seconds
            if self.meets and self.most < 2:
                await asyncio.sleep(0.01)
        await asyncio.sleep(self.dice.uniform(0.01, 0.05))  # so that answers come in another order
        self.now -= 1
        if self.begun[beginning] <= self.fails:
            return web.json_response({"error": {"message": "busy"}}, status=500)
        self.ended.add(beginning)
        if not is_cut:
            self.prompts[body["messages"][-1]["content"]] += 1
        answer = completion(json.dumps({"explanation": "So.", "criteria_met": True}))
        details = {"cached_tokens": self.cached, "cache_write_tokens": self.written}
        answer["usage"]["prompt_tokens_details"] = details
        return web.json_response(answer)


def judged(release: Release, judge: Judge, **fields: Any) -> Run:
    with run_in_background(app_of(judge.answer)) as url:
        endpoint(url, "judge", concurrency=8, **fields)
        return evaluate_release(release, url, "m-1", "m-2", judge="judge")


def test_one_judgment_of_an_answer_ends_before_its_others_begin(release: Release) -> None:
    judge = Judge(meets=True)
    run = judged(release, judge, prompt_cache_key=True)
    assert run.status == Run.Status.FINISHED
    assert sorted(judge.begun.values()) == [1, 1, 4, 4, 4, 4, 4, 4]
    assert set(judge.cold.values()) == {1}
    assert judge.most > 1, "answers of other samples fill the lane"
    assert all(len(keys) == 1 and keys != {""} for keys in judge.keys.values())
    assert len({key for keys in judge.keys.values() for key in keys}) == 4, "a key for each sample"


@pytest.mark.parametrize(
    "odd",
    [{"dies": True}, {"fails": 2}, {"cached": 10_000}, {"cached": 0}],
    ids=["the first call is cut", "the first two fail", "more cached than sent", "none billed as cached"],
)
def test_whatever_befalls_the_first_call_every_judgment_is_made_and_paid_for_once(
    release: Release, odd: dict[str, Any]
) -> None:
    run = judged(release, Judge(**odd))
    assert run.status == Run.Status.FINISHED
    assert set(Judgment.objects.filter(run=run).values_list("status", flat=True)) == {Work.Status.DONE}
    paid = Call.objects.filter(job=run, endpoint__name="judge", error="", hit_of=None)
    assert paid.count() == Judgment.objects.filter(run=run).count() == 26
    assert all(call.tokens_cached <= call.tokens_in for call in paid)


@pytest.mark.usefixtures("no_long_waits")
def test_an_endpoint_that_dies_between_the_first_call_and_the_others_is_asked_for_these_alone(release: Release) -> None:
    judge = Judge(is_dead=True)
    with run_in_background(app_of(judge.answer)) as url:
        endpoint(url, "judge", concurrency=8)
        run = evaluate_release(release, url, "m-1", "m-2", judge="judge")
        assert (run.status, run.paused_because) == (Run.Status.PAUSED, "EndpointDown")
        judge.is_dead = False
        jobs_services.resume(run.pk)
        work.work_on_run(run.pk)
        services.retry_failed(run.pk)  # what was cut off too often by itself
        work.work_on_run(run.pk)
    run.refresh_from_db()
    assert run.status == Run.Status.FINISHED
    assert set(Judgment.objects.filter(run=run).values_list("status", flat=True)) == {Work.Status.DONE}
    assert judge.prompts == Counter(dict.fromkeys(judge.prompts, 1)), "nothing that was answered is asked again"
    assert (
        len(judge.prompts) == Call.objects.filter(job=run, endpoint__name="judge", error="", hit_of=None).count() == 26
    )


def verdicts(run: Run) -> list[tuple[Any, ...]]:
    rows = Judgment.objects.filter(run=run).order_by("response__endpoint__name", "rubric")
    return list(rows.values_list("response__endpoint__name", "rubric", "verdict", "explanation"))


def test_with_a_simulated_judge_no_verdict_differs(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def at_once(_lane: RunningLane, _row: Work, _path: Sequence[str]) -> AsyncIterator[None]:
        yield

    with simulator() as url:
        in_turn = launch_run(release, url, "sim-target-a", "sim-target-b")
        work.work_on_run(in_turn.pk)
        with monkeypatch.context() as patch:
            patch.setattr(RunningLane, "_in_turn", at_once)
            targets = [row.endpoint for row in in_turn.tested.order_by("pk")]
            side_by_side = services.launch_run(
                RunSettings(release=release, endpoints=targets, judge=in_turn.judge, fresh=True)
            )
            work.work_on_run(side_by_side.pk)
    assert verdicts(in_turn) == verdicts(side_by_side)


def test_a_run_says_what_share_of_its_input_was_read_from_a_cache(
    release: Release, client: Client, adela: User
) -> None:
    client.force_login(adela)
    warm, cold = judged(release, Judge(cached=5)), Run()
    lines = Call.objects.filter(job=warm, hit_of=None)
    cached, tokens_in = (sum(lines.values_list(name, flat=True)) for name in ("tokens_cached", "tokens_in"))
    assert (warm.share_cached, cold.share_cached) == (cached / tokens_in, 0.0)
    assert cached == 5 * lines.filter(endpoint__name="judge").count()
    assert f"{cached / tokens_in:.0%} of the input tokens were read from a cache" in as_markdown(
        reports_queries.report(warm)
    )
    page = client.get(reverse("evaluation:run", args=[warm.pk])).content.decode()
    assert "Read from a cache" in page
    assert "A warm cache can turn a verdict" in page


def test_each_verdict_tells_what_its_judge_read_from_a_cache(release: Release, client: Client, adela: User) -> None:
    client.force_login(adela)
    run = judged(release, Judge(cached=5))
    rows = client.get(reverse("api:run-judgments", args=[run.pk])).json()["results"]
    call = Call.objects.filter(job=run, subject__startswith="judgment:").first() or pytest.fail("no call")
    assert {(row["tokens_in"], row["tokens_cached"]) for row in rows} == {(call.tokens_in, 5)}
    page = client.get(reverse("evaluation:judgments", args=[run.pk])).content.decode()
    assert f"The judge read {call.tokens_in} input tokens, 5 of them from a cache." in page


def test_what_is_written_into_a_cache_has_its_price_in_ledger_budget_and_estimate(release: Release) -> None:
    prices = {"price_in": "10", "price_out": "0", "price_cached": "1", "price_written": "12.5"}
    run = judged(release, Judge(cached=2, written=4), **prices)
    line = Call.objects.filter(job=run, endpoint__name="judge").first() or pytest.fail("no call")
    assert (line.tokens_cached, line.tokens_written) == (2, 4)
    assert line.cost * 1_000_000 == 2 * 1 + 4 * Decimal("12.5") + (line.tokens_in - 6) * 10
    paid = Call.objects.filter(job=run, endpoint__name="judge").aggregate(cost=Sum("cost"))["cost"]
    assert run.cost == paid, "the models under test cost nothing"
    settings = RunSettings(
        release=release, endpoints=[row.endpoint for row in run.tested.all()], judge=run.judge, fresh=True
    )
    judge_lines = [each for each in estimate_run(settings).lines if each.role == "judge"]
    assert float(sum(each.cost for each in judge_lines)) == pytest.approx(float(paid), rel=0.1)
