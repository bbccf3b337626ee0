"""Runs: one response per sample and endpoint, one judgment per rubric, and no guesses."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from evaluation import errors, registry
from evaluation.models import Judgment, Response, Run
from evaluation.numbers.rules import NO_RESPONSE
from evaluation.protocol import Protocol
from evaluation.reports import queries as reports_queries
from evaluation.runs import queries as runs_queries
from evaluation.runs import services, work
from evaluation.runs.kind import RUNS
from evaluation.runs.settings import RunSettings
from generation.engine.sweeping import sweep
from generation.engine.task_queue import MAX_TRIES, requeue, requeue_expired, take
from generation.errors import JobOver
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.llm.reply_reading import MAX_TOKENS
from generation.llm.simulator.server import run_in_background
from generation.models import Call, Endpoint, Release, ReleasedRubric
from generation.models.work import Work
from tests.conftest import PHYSICIANS, Clock, RunConcurrently, accounts_of
from tests.engine import (
    bare_release,
    calls,
    create_lane,
    endpoint,
    evaluate_release,
    launch_run,
    make_release,
    simulator,
)
from tests.generation.llm.helpers import app_of, completion, fake_endpoint
from tests.populations import population
from tests.review.factories import account

pytestmark = pytest.mark.django_db
Status = Work.Status


@population
def release(folder: Path, models: str) -> Release:
    return make_release(folder, models, accounts_of(*PHYSICIANS[:3]), conversations=2, reports=2)


@population
def bare() -> Release:
    """Two samples with two criteria each, for models whose replies the test chooses."""
    return bare_release(("dialogue", [["A1"], ["C2"]]), ("report", [["A1"], ["A3"]]))


def verdict_reply(met: Any = True, explanation: str = "It does.") -> str:
    return json.dumps({"explanation": explanation, "criteria_met": met})


def status_counts(run: Run, model: type[Response] | type[Judgment]) -> Counter[str]:
    rows = run.responses if model is Response else run.judgments
    return Counter(rows.values_list("status", flat=True))


# ------------------------------------------------------------------------------------ complete runs


@pytest.mark.both
def test_a_run_has_one_response_per_sample_and_one_judgment_per_rubric(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-careful", "sim-reckless")
    rubrics = release.rubrics_count
    assert run.status == Run.Status.FINISHED
    assert run.finished_at is not None
    assert status_counts(run, Response) == {Status.DONE: 8}
    assert status_counts(run, Judgment) == {Status.DONE: 2 * rubrics}
    assert set(Judgment.objects.values_list("verdict", flat=True)) <= {"met", "not_met"}
    assert not Judgment.objects.filter(explanation="").exists()
    assert Response.objects.values("endpoint", "sample").distinct().count() == 8
    assert Judgment.objects.values("response__endpoint", "rubric").distinct().count() == 2 * rubrics
    assert len(calls(run)) == 8 + 2 * rubrics
    progress = RUNS.progress(run)
    assert (progress.percent, progress.rubrics_total) == (100, 2 * rubrics)
    for response in Response.objects.select_related("call", "sample"):
        assert response.call is not None
        assert response.call.text == response.text
        assert response.call.subject == f"response:{response.pk}"


def test_the_judge_sees_the_approved_criterion_and_what_its_traps_are(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-average")
    for judgment in Judgment.objects.filter(run=run).select_related("rubric__sample", "response"):
        [call] = calls(f"judgment:{judgment.pk}")
        prompt = call.sent["messages"][-1]["content"]
        assert json.dumps(judgment.rubric.criterion, ensure_ascii=False) in prompt
        assert json.dumps(judgment.response.text, ensure_ascii=False) in prompt
        for trap in judgment.rubric.sample.exported["content"]["traps"]:
            assert (json.dumps(trap["why"], ensure_ascii=False) in prompt) is (trap["code"] in judgment.rubric.traps)
        assert json.loads(call.text)["explanation"] == judgment.explanation


def test_a_model_under_test_is_sent_the_sample_and_nothing_else(release: Release, models: str) -> None:
    run = evaluate_release(release, models, "sim-average")
    for response in Response.objects.filter(run=run).select_related("sample"):
        [call] = calls(f"response:{response.pk}")
        content = response.sample.exported["content"]
        if response.sample.task == "dialogue":
            assert call.sent["messages"] == content["turns"]
        else:
            [turn] = call.sent["messages"]
            assert content["report"] in turn["content"]
            assert turn["content"].rstrip().endswith(content["question"])
        assert "response_format" not in call.sent


@pytest.mark.both
def test_the_database_refuses_duplicates_and_inconsistent_verdicts(bare: Release, models: str) -> None:
    run = launch_run(bare, models, "sim-average")
    response = Response.objects.filter(run=run)[0]
    rubric = ReleasedRubric.objects.filter(sample=response.sample)[0]
    Judgment.objects.create(run=run, response=response, rubric=rubric)
    forbidden_changes = [
        lambda: Response.objects.create(run=run, endpoint=response.endpoint, sample=response.sample),
        lambda: Judgment.objects.create(run=run, response=response, rubric=rubric),
        lambda: Judgment.objects.update(verdict="met"),  # a verdict without the status done
        lambda: Judgment.objects.update(status=Status.DONE),  # done without a verdict
    ]
    for change in forbidden_changes:
        with pytest.raises(IntegrityError), transaction.atomic():
            change()


# ---------------------------------------------------------------------------------------- launching


def test_an_endpoint_that_is_named_twice_is_asked_once(bare: Release, models: str) -> None:
    run = launch_run(bare, models, "sim-average", "sim-careful", "sim-average")
    assert list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)) == ["sim-average", "sim-careful"]
    assert Response.objects.count() == 4


def test_a_run_without_endpoints_is_refused(bare: Release, models: str) -> None:
    with pytest.raises(errors.NoEndpoints):
        launch_run(bare, models)
    assert not Run.objects.exists()


def test_a_model_may_judge_itself(bare: Release) -> None:
    with fake_endpoint(verdict_reply()) as server:
        run = evaluate_release(bare, server.url, "m-1", judge="m-1")
    assert status_counts(run, Response) == {Status.DONE: 2}
    assert status_counts(run, Judgment) == {Status.DONE: 4}


@pytest.mark.parametrize(
    ("of_judge", "of_run", "sent"),
    [(None, None, 0.5), (0.9, None, 0.5), (0.0, None, 0.5), (None, 0.1, 0.1), (0.9, 0.0, 0.0)],
    ids=["published", "published over the judge's", "published over the judge's zero", "the run's", "the run's zero"],
)
def test_the_judge_is_asked_at_the_temperature_of_the_run_or_the_published_one(
    bare: Release, of_judge: float | None, of_run: float | None, sent: float
) -> None:
    with fake_endpoint(verdict_reply()) as server:
        judge = endpoint(server.url, "m-judge", temperature=of_judge)
        run = evaluate_release(bare, server.url, "m-1", judge="m-judge", judge_temperature=of_run)
    Endpoint.objects.filter(pk=judge.pk).update(temperature=1.5)  # a later change does not count
    assert RUNS.get(run.pk).judge_temperature == sent
    by_judge = [body for body in server.bodies if body["model"] == "m-judge"]
    assert len(by_judge) == 4
    assert {body["temperature"] for body in by_judge} == {sent}
    assert not [body for body in server.bodies if body["model"] == "m-1" and "temperature" in body]


# ---------------------------------------------------------------------------------- missing replies


def test_an_empty_reply_is_no_response_and_leaves_its_rubrics_unjudged(bare: Release) -> None:
    with fake_endpoint("  \n") as server:
        run = evaluate_release(bare, server.url, "m-1", judge="m-judge")
    assert run.status == Run.Status.FINISHED
    assert set(Response.objects.values_list("status", "error", "text")) == {(Status.FAILED, "BrokenReply", "")}
    assert set(Judgment.objects.values_list("status", "error", "verdict")) == {(Status.FAILED, NO_RESPONSE, "")}
    assert Judgment.objects.count() == 4
    assert {body["model"] for body in server.bodies} == {"m-1"}, "the judge is not asked about an empty response"
    report = reports_queries.report(run)
    [overall] = [row.measured for row in report.numbers.overall if row.dataset == "combined"]
    assert (overall.value, overall.denominator, overall.excluded) == (None, 0, 4)
    assert report.numbers.failed == {"m-1": 2}


# The example of the judge's instructions, as a small real model gave it back.
REPEATED = json.dumps({"explanation": "Which words of the  response decide.", "criteria_met": True})


@pytest.mark.parametrize(
    "broken", ["Yes, it does.", verdict_reply("true"), verdict_reply(None), '{"criteria_met": true', "{}", REPEATED]
)
def test_an_unusable_judgment_is_repaired_once_and_then_stays_unjudged(bare: Release, broken: str) -> None:
    with fake_endpoint("I would ask a pharmacist.") as target, fake_endpoint(broken) as judge:
        endpoint(judge.url, "m-judge")
        run = evaluate_release(bare, target.url, "m-1", judge="m-judge")
    assert run.status == Run.Status.FINISHED
    assert status_counts(run, Response) == {Status.DONE: 2}
    for judgment in Judgment.objects.filter(run=run):
        assert (judgment.status, judgment.error, judgment.verdict) == (Status.FAILED, "BrokenReply", "")
        assert judgment.detail
        tries = calls(f"judgment:{judgment.pk}")
        assert [call.text for call in tries] == [broken] * 2
        assert tries[1].sent["messages"][-1]["content"].startswith("Your last reply cannot be used.")
    [overall] = [row.measured for row in reports_queries.report(run).numbers.overall if row.dataset == "combined"]
    assert (overall.value, overall.denominator, overall.excluded) == (None, 0, 4)


def test_an_unusable_judgment_can_be_repaired(bare: Release) -> None:
    with (
        fake_endpoint("I would ask a pharmacist.") as target,
        fake_endpoint("none", verdict_reply(met=False), verdict_reply()) as judge,
    ):
        endpoint(judge.url, "m-judge", concurrency=1)
        run = evaluate_release(bare, target.url, "m-1", judge="m-judge")
    assert status_counts(run, Judgment) == {Status.DONE: 4}
    calls_per_judgment = [len(calls(f"judgment:{pk}")) for pk in Judgment.objects.values_list("pk", flat=True)]
    assert sorted(calls_per_judgment) == [1, 1, 1, 2]
    [overall] = [row.measured for row in reports_queries.report(run).numbers.overall if row.dataset == "combined"]
    assert (overall.numerator, overall.denominator, overall.excluded) == (1, 4, 0)


@pytest.mark.both
def test_a_judgment_whose_repair_was_refused_is_asked_for_anew_when_retried(bare: Release) -> None:
    asked: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.json())
        if asked[-1]["messages"][-1]["content"].startswith("Your last reply cannot be used."):
            return web.json_response({"error": {"message": "Two turns are too many."}}, status=400)
        if len(asked) == 1:
            return web.json_response(completion("none"))
        return web.json_response(completion(verdict_reply()))

    with fake_endpoint("I would ask a pharmacist.") as target, run_in_background(app_of(answer)) as judge:
        endpoint(judge, "m-judge", concurrency=1, output_format="text")
        run = evaluate_release(bare, target.url, "m-1", judge="m-judge")
        assert status_counts(run, Judgment) == {Status.DONE: 3, Status.FAILED: 1}
        jobs_services.retry_failed(run.pk)
        work.work_on_run(run.pk)
    assert status_counts(run, Judgment) == {Status.DONE: 4}
    assert (asked[-1], len(asked)) == (asked[0], 6)


@pytest.mark.both
def test_a_run_finishes_despite_faults_of_every_kind(release: Release, models: str) -> None:
    with simulator("500@0.15", "429@0.15", "cut@0.1", "broken-json@0.1") as url:
        run = evaluate_release(release, url, "sim-average", "sim-careful")
    assert run.status == Run.Status.FINISHED
    judged, unjudged = status_counts(run, Judgment)[Status.DONE], status_counts(run, Judgment)[Status.FAILED]
    assert judged + unjudged == 2 * release.rubrics_count
    assert {"ServerError", "RateLimited", "ConnectionCut"} <= {call.error for call in calls(run)}
    rows = [row.measured for row in reports_queries.report(run).numbers.overall if row.dataset == "combined"]
    assert (sum(row.denominator for row in rows), sum(row.excluded for row in rows)) == (judged, unjudged)


@pytest.mark.both
def test_a_run_costs_what_its_calls_cost(bare: Release, models: str) -> None:
    endpoint(models, "sim-average", price_in="2", price_out="6")
    endpoint(models, "sim-judge", price_in="10", price_out="30")
    run = evaluate_release(bare, models, "sim-average")
    expected = sum(
        Decimal(call.tokens_in * price[0] + call.tokens_out * price[1])
        for call in calls(run)
        for price in [(10, 30) if call.endpoint.name == "sim-judge" else (2, 6)]
    )
    assert RUNS.progress(run).responses.cost == expected / 1_000_000 > 0


# ------------------------------------------------------------------------------------ retry, cancel


@pytest.mark.both
def test_implausible_or_missing_token_counts_are_estimated_and_the_money_budget_binds(bare: Release) -> None:
    prices = {"price_in": Decimal("600"), "price_out": Decimal("999999")}
    sane = {"prompt_tokens": 1, "completion_tokens": MAX_TOKENS}
    wild = {"prompt_tokens": 5, "completion_tokens": 2**31 - 1}
    answers = [{**completion(verdict_reply()), "usage": usage} for usage in (sane, wild)]
    with fake_endpoint(*answers) as target, fake_endpoint(verdict_reply()) as judge:
        tested = endpoint(target.url, "m", concurrency=1, **prices)
        run = services.launch_run(RunSettings(release=bare, endpoints=[tested], judge=endpoint(judge.url, "judge")))
        work.work_on_run(run.pk)
        assert len(target.bodies) == 2
    first, second = Call.objects.filter(job=run, endpoint=tested).order_by("pk")
    assert (first.tokens_out, first.estimated) == (MAX_TOKENS, False)
    assert (second.tokens_in, second.tokens_out, second.estimated) == (5, -(-len(verdict_reply()) // 2), True)
    run.refresh_from_db()
    assert run.estimated == 1
    assert status_counts(run, Response) == {Status.DONE: 2}
    with fake_endpoint({**completion("Rest."), "usage": None}) as target, fake_endpoint(verdict_reply()) as judge:
        tested = endpoint(target.url, "unmetered", concurrency=1, **prices)
        run = services.launch_run(
            RunSettings(
                release=bare, endpoints=[tested], judge=endpoint(judge.url, "judge"), budget_money=Decimal("0.5")
            )
        )
        work.work_on_run(run.pk)
        assert len(target.bodies) == 1, "the estimated cost of the first call is beyond the budget"
    run.refresh_from_db()
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "BudgetSpent")


@pytest.mark.both
def test_a_run_does_not_ask_a_question_that_another_run_has_in_flight(bare: Release) -> None:
    with fake_endpoint(verdict_reply()) as target, fake_endpoint(verdict_reply()) as judge:
        models: dict[str, Any] = {"endpoints": [endpoint(target.url, "m")], "judge": endpoint(judge.url, "judge")}
        first, second = (services.launch_run(RunSettings(release=bare, **models)) for _ in range(2))
        [row] = take(Response.objects.filter(run=first).order_by("pk"), 1)
        work.work_on_run(second.pk)
        assert status_counts(second, Response) == {Status.DONE: 1, Status.QUEUED: 1}
        assert second.pk not in RUNS.due(), "the question that it needs is in flight in another run"
        assert sweep(RUNS) == [first.pk]
        requeue(row)
        work.work_on_run(first.pk)
        work.work_on_run(second.pk)
        assert (len(target.bodies), len(judge.bodies)) == (2, 4), "each question is asked once"
        assert status_counts(second, Judgment) == status_counts(first, Judgment) == {Status.DONE: 4}
        lease = {"token": uuid4(), "lease_until": timezone.now() + timedelta(minutes=5)}
        first.judgments.update(status=Status.RUNNING, verdict="", **lease)
        jobs_services.settle(first.pk)
        third, fresh = (
            services.launch_run(RunSettings(release=bare, **models)),
            services.launch_run(RunSettings(release=bare, **models, fresh=True)),
        )
        for run in (third, fresh):
            work.work_on_run(run.pk)
            assert run.pk not in RUNS.due()
        assert status_counts(third, Judgment) == {Status.QUEUED: 4}
        assert status_counts(fresh, Judgment) == {Status.DONE: 4}, "a fresh run asks again and waits for no other run"
        assert (len(target.bodies), len(judge.bodies)) == (4, 8)


@pytest.mark.django_db(transaction=True)
def test_concurrent_runs_ask_each_question_once(run_concurrently: RunConcurrently) -> None:
    release = bare_release(*[("dialogue", [["A1"]])] * 24)
    request_counts: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.Response:
        request_counts[(await request.json())["model"]] += 1
        await asyncio.sleep(0.1)
        return web.json_response(completion(verdict_reply()))

    with run_in_background(app_of(answer)) as url:
        models: dict[str, Any] = {
            "endpoints": [endpoint(url, "m", concurrency=2)],
            "judge": endpoint(url, "judge", concurrency=2),
        }
        runs = [services.launch_run(RunSettings(release=release, **models)) for _ in range(2)]
        outcomes = run_concurrently([partial(work.work_on_run, run.pk) for run in runs])
        assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
        while due := sweep(RUNS):
            work.work_on_run(due[0])
    assert request_counts == {"m": 24, "judge": 24}
    for run in runs:
        assert status_counts(run, Judgment) == {Status.DONE: 24}


@pytest.mark.both
def test_a_retry_asks_failed_questions_again_and_keeps_the_other_answers(release: Release, models: str) -> None:
    endpoint(models, "sim-average+500", name="sim-average")
    run = evaluate_release(release, models, "sim-careful", "sim-average")
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "EndpointDown")
    assert "sim-average: The endpoint failed" in run.paused_detail
    assert status_counts(run, Response)[Status.DONE] == 4, "the responses of the other model are complete"
    waiting = status_counts(run, Response)[Status.QUEUED]
    assert waiting + status_counts(run, Response)[Status.FAILED] == 4
    texts = dict(Response.objects.filter(run=run, status=Status.DONE).values_list("pk", "text"))
    Endpoint.objects.filter(name="sim-average").update(model="sim-average")
    assert jobs_services.retry_failed(run.pk) == 4 - waiting
    assert RUNS.get(run.pk).status == Run.Status.PAUSED
    assert sweep(RUNS) == []
    jobs_services.resume(run.pk)
    assert RUNS.get(run.pk).status == Run.Status.RUNNING
    assert sweep(RUNS) == [run.pk]
    work.work_on_run(run.pk)
    assert status_counts(run, Response) == {Status.DONE: 8}
    assert status_counts(run, Judgment) == {Status.DONE: 2 * release.rubrics_count}
    assert dict(Response.objects.filter(pk__in=texts).values_list("pk", "text")) == texts
    assert RUNS.get(run.pk).status == Run.Status.FINISHED
    assert jobs_services.retry_failed(run.pk) == 0
    assert RUNS.get(run.pk).status == Run.Status.FINISHED


@pytest.mark.both
def test_a_retry_after_the_judge_was_down_asks_for_no_response_again(bare: Release, models: str) -> None:
    judge = endpoint(models, "sim-judge+500", name="sim-judge")
    run = evaluate_release(bare, models, "sim-average")
    assert (run.status, run.paused_because) == (Run.Status.PAUSED, "EndpointDown")
    assert status_counts(run, Judgment)[Status.DONE] == 0
    assert set(Judgment.objects.values_list("error", flat=True)) <= {"ServerError", ""}
    failed = status_counts(run, Judgment)[Status.FAILED]
    response_calls = Call.objects.filter(subject__startswith="response:").count()
    Endpoint.objects.filter(pk=judge.pk).update(model="sim-judge")
    assert jobs_services.retry_failed(run.pk) == failed
    jobs_services.resume(run.pk)
    assert not Judgment.objects.exclude(error="").exists()
    work.work_on_run(run.pk)
    assert Call.objects.filter(subject__startswith="response:").count() == response_calls, (
        "no response is paid for twice"
    )


@pytest.mark.both
def test_a_response_that_fails_during_a_retry_keeps_its_judgments(bare: Release) -> None:
    """A lane fails a response after the retry has begun.

    If the retry saw it half-way, it would queue the response while its judgments remain.
    """
    with fake_endpoint(verdict_reply()) as target:
        model = endpoint(target.url, "m")
        run = services.launch_run(RunSettings(release=bare, endpoints=[model], judge=model))
        rows = Response.objects.filter(run=run).order_by("pk")
        rows.update(status=Status.RUNNING, token=uuid4(), lease_until=timezone.now() + timedelta(minutes=5))
        early, late = rows[:2]

        def fail(row: Response) -> None:
            work._store_responses(
                registry.protocol("mhb"),
                [(row, Status.FAILED, {"outcome": "failed", "error": "ServerError", "detail": "x"})],
            )

        def fail_during_delete(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            result = execute(sql, params, many, context)
            if sql.startswith("DELETE") and "judgment" in sql:
                fail(late)
            return result

        with transaction.atomic():
            fail(early)
        with connection.execute_wrapper(fail_during_delete):
            assert jobs_services.retry_failed(run.pk) == 1
        late.refresh_from_db()
        assert late.status == Status.FAILED
        judgments = Judgment.objects.filter(response=late)
        assert set(judgments.values_list("status", "error")) == {(Status.FAILED, NO_RESPONSE)}
        assert not Judgment.objects.filter(response=early).exists()
        work.work_on_run(run.pk)
        assert jobs_services.retry_failed(run.pk) == 1
        work.work_on_run(run.pk)
    assert status_counts(run, Response) == {Status.DONE: rows.count()}
    assert status_counts(run, Judgment) == {Status.DONE: run.rubrics_total}


def test_a_cancelled_run_asks_nothing_more(bare: Release, models: str) -> None:
    run = launch_run(bare, models, "sim-average")
    jobs_services.cancel(run.pk)
    assert work.work_on_run(run.pk) == 0
    assert sweep(RUNS) == []
    assert not Call.objects.exists()
    assert RUNS.get(run.pk).status == Run.Status.CANCELLED
    jobs_services.cancel(run.pk)
    with pytest.raises(JobOver):
        jobs_services.retry_failed(run.pk)
    for control in (life_cycle.pause, jobs_services.resume):
        with pytest.raises(JobOver):
            control(run.pk)
    assert not reports_queries.report(run).finished


@pytest.mark.both
def test_a_run_cancelled_in_the_middle_keeps_its_results(
    release: Release, models: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch_run(release, models, "sim-average", "sim-careful")
    Endpoint.objects.update(concurrency=1)
    store, stored = work._store_responses, 0

    def store_and_cancel(protocol: Protocol, results: list[Any], **options: Any) -> list[bool]:
        nonlocal stored
        if stored < 3 <= (stored := stored + len(results)):
            jobs_services.cancel(run.pk)
        return store(protocol, results, **options)

    monkeypatch.setattr(work, "_store_responses", store_and_cancel)
    work.work_on_run(run.pk)
    assert RUNS.get(run.pk).status == Run.Status.CANCELLED
    assert status_counts(run, Response)[Status.QUEUED] >= 1
    assert status_counts(run, Response)[Status.DONE] >= 3
    assert status_counts(run, Response)[Status.RUNNING] == status_counts(run, Judgment)[Status.RUNNING] == 0
    assert RUNS.progress(run).percent < 100


def test_a_finished_run_cannot_be_cancelled(bare: Release, models: str) -> None:
    run = evaluate_release(bare, models, "sim-average")
    with pytest.raises(JobOver):
        jobs_services.cancel(run.pk)


# ------------------------------------------------------------------------------------------ workers


@pytest.mark.both
def test_the_sweeper_finds_runs_without_a_live_lane(bare: Release, models: str, clock: Clock) -> None:
    idle, busy, stale = (launch_run(bare, models, "sim-average") for _ in range(3))
    create_lane(stale)
    clock.advance(minutes=2)
    create_lane(busy)
    assert sorted(sweep(RUNS)) == [idle.pk, stale.pk]
    work.work_on_run(idle.pk)
    assert sweep(RUNS) == [stale.pk]


@pytest.mark.both
def test_rows_of_a_dead_worker_are_done_by_the_next(bare: Release, models: str, clock: Clock) -> None:
    run = launch_run(bare, models, "sim-average")
    take(Response.objects.filter(run=run).order_by("pk"), 1)
    work.work_on_run(run.pk)
    assert RUNS.get(run.pk).status == Run.Status.RUNNING, "one row is still leased"
    assert sweep(RUNS) == [], "the worker that holds it may still be running"
    clock.advance(minutes=2)
    assert sweep(RUNS) == [run.pk]
    work.work_on_run(run.pk)
    assert RUNS.get(run.pk).status == Run.Status.FINISHED
    assert sorted(Response.objects.values_list("tries", flat=True)) == [1, 2]
    assert Judgment.objects.filter(run=run).count() == 4


@pytest.mark.both
def test_a_worker_that_lost_its_lease_stores_no_second_answer(
    bare: Release, models: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of the first worker expires after the model has answered.

    By the time it stores the answer, a second worker has stored its own.
    """
    store, delayed_pk = work._store_responses, 0

    def store_late(protocol: Protocol, results: list[Any], **options: Any) -> list[bool]:
        nonlocal delayed_pk
        if not delayed_pk:
            row, status, fields = results[0]
            delayed_pk = row.pk
            clock.advance(minutes=2)
            requeue_expired(Response)
            [retaken] = take(Response.objects.filter(pk=row.pk).order_by("pk"), 1)
            assert store(protocol, [(retaken, status, {**fields, "text": "The second one's."})]) == [True]
        return store(protocol, results)

    monkeypatch.setattr(work, "_store_responses", store_late)
    run = evaluate_release(bare, models, "sim-average")
    assert Response.objects.get(pk=delayed_pk).text == "The second one's."
    assert status_counts(run, Response)[Status.DONE] + status_counts(run, Response)[Status.QUEUED] == 2
    assert Judgment.objects.values("response", "rubric").distinct().count() == Judgment.objects.count()


@pytest.mark.both
@pytest.mark.parametrize(("broken", "failed"), [("sample_value", Response), ("judgment_input", Judgment)])
def test_rows_that_keep_stopping_the_lane_are_given_up(
    bare: Release, models: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, broken: str, failed: type[Work]
) -> None:
    run = launch_run(bare, models, "sim-average")

    def fail(row: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(runs_queries, broken, fail)
    for _ in range(2 * MAX_TRIES):  # more often than MAX_TRIES: not all rows are in flight at the first failure
        with suppress(ZeroDivisionError):
            work.work_on_run(run.pk)
        clock.advance(minutes=2)
        sweep(RUNS)
    assert RUNS.get(run.pk).status == Run.Status.FINISHED
    assert set(failed._default_manager.values_list("status", "error")) == {(Status.FAILED, "GivenUp")}
    assert status_counts(run, Judgment) == {Status.FAILED: 4}


def test_concurrent_lanes_do_each_row_once(tmp_path: Path, run_concurrently: RunConcurrently, models: str) -> None:
    release = make_release(tmp_path, models, [account("ana"), account("bo")], conversations=4)
    run = launch_run(release, models, "sim-average", "sim-careful")
    Endpoint.objects.update(concurrency=2)
    outcomes = run_concurrently([lambda: work.work_on_run(run.pk)] * 3)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    assert sum(outcomes) == 8 + 2 * release.rubrics_count == len(calls(run))
    assert set(Response.objects.values_list("status", "tries")) == {(Status.DONE, 1)}
    assert set(Judgment.objects.values_list("status", "tries")) == {(Status.DONE, 1)}
    assert RUNS.get(run.pk).status == Run.Status.FINISHED
