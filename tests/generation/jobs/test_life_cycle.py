"""Life cycle of a job: totals, budgets, pause and resume, and replies that are paid for once."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Count, Q, Sum

from generation import errors
from generation.batches import services
from generation.batches.kind import BATCHES
from generation.engine.sweeping import sweep
from generation.engine.task_queue import requeue_expired, take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.models import Batch, Call, Draft, Endpoint, Lane, Source
from generation.models.jobs import Job
from generation.models.work import Work
from tests.conftest import Clock, RunConcurrently
from tests.engine import (
    calls,
    conversations_file,
    create_lane,
    drafts,
    endpoint,
    import_file,
    launch_batch,
    run_batch,
    simulator,
    simulator_stats,
    status_counts,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status


def work_until_idle(batch: Batch) -> Batch:
    """Work on the batch until nothing is left to do, and reload it."""
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch


def totals_of_the_ledger(job: Job) -> dict[str, Any]:
    lines = Call.objects.filter(job=job)
    totals = lines.aggregate(
        calls=Count("pk", filter=Q(hit_of=None)),
        hits=Count("pk", filter=Q(hit_of__isnull=False)),
        failed=Count("pk", filter=~Q(error="")),
        tokens_in=Sum("tokens_in"),
        tokens_out=Sum("tokens_out"),
        tokens_cached=Sum("tokens_cached"),
        tokens_reasoning=Sum("tokens_reasoning"),
        cost=Sum("cost"),
    )
    return {name: value or 0 for name, value in totals.items()}


def totals_of(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in totals_of_the_ledger(job)}


# ------------------------------------------------------------------------------------------- totals


def test_totals_agree_with_the_ledger(source: Source) -> None:
    with simulator("500@0.3", "broken-json@0.3") as url:
        batch = run_batch(source, endpoint(url, price_in="1", price_out="2"))
    assert totals_of(batch) == totals_of_the_ledger(batch)
    assert batch.failed > 0
    assert batch.cost > 0
    assert batch.tokens_in > batch.calls


# ------------------------------------------------------------------------------------------ budgets


def test_a_call_budget_is_never_exceeded_and_can_be_raised(source: Source) -> None:
    with simulator() as url:
        batch = work_until_idle(launch_batch(source, endpoint(url), budget_calls=4))
        assert simulator_stats(url)["requests"] == len(calls(batch)) == batch.calls == 4
        assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "BudgetSpent")
        assert status_counts(batch) == {Status.DONE: 4, Status.QUEUED: 2}
        assert set(batch.drafts.filter(status=Status.QUEUED).values_list("tries", flat=True)) == {0}
        assert services.work_on_batch(batch.pk) == 0
        assert sweep(BATCHES) == []
        with pytest.raises(errors.BudgetTooSmall):
            jobs_services.resume(batch.pk)
        life_cycle.change_limits(batch.pk, budget_money=None, budget_calls=5)
        assert work_until_idle(batch).status == Batch.Status.PAUSED
        assert simulator_stats(url)["requests"] == 5
        life_cycle.change_limits(batch.pk, budget_money=None, budget_calls=None)
        assert set(sweep(BATCHES)) == {batch.pk}
        assert work_until_idle(batch).status == Batch.Status.FINISHED
    assert status_counts(batch) == {Status.DONE: 6}
    assert batch.paused_because == ""


def test_a_budget_of_exactly_the_needed_calls_suffices(source: Source, models: str) -> None:
    batch = work_until_idle(launch_batch(source, endpoint(models), budget_calls=6))
    assert (batch.status, batch.calls) == (Batch.Status.FINISHED, 6)


def test_every_attempt_and_every_repair_counts_against_the_budget(source: Source) -> None:
    with simulator("500@0.4", "broken-json@0.3") as url:
        batch = work_until_idle(launch_batch(source, endpoint(url), budget_calls=7))
        assert simulator_stats(url)["requests"] == 7 == batch.calls
    assert batch.status == Batch.Status.PAUSED


def test_no_call_is_started_once_the_money_is_spent(source: Source) -> None:
    with simulator() as url:
        generator = endpoint(url, price_in="1000", price_out="1000", concurrency=1)
        batch = work_until_idle(launch_batch(source, generator, budget_money=Decimal("1")))
        assert simulator_stats(url)["requests"] == batch.calls
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "BudgetSpent")
    costs = [call.cost for call in calls(batch)]
    assert sum(costs[:-1]) < 1 <= sum(costs), "only the call in flight exceeded the budget"


def test_the_budget_that_a_dead_lane_reserved_is_released(
    source: Source, models: str, settings: Any, clock: Clock
) -> None:
    settings.MHB_LANES = 2
    batch = launch_batch(source, endpoint(models), budget_calls=6)
    dead = create_lane(batch)  # its worker was killed with all calls in flight
    Lane.objects.filter(pk=dead.pk).update(in_flight=6)
    batch = work_until_idle(batch)
    assert (batch.status, batch.calls) == (Batch.Status.RUNNING, 0)
    assert batch.rests_until == dead.until
    assert sweep(BATCHES) == []
    clock.advance(seconds=(dead.until - clock()).total_seconds() + 1)
    assert set(sweep(BATCHES)) == {batch.pk}
    batch = work_until_idle(batch)
    assert (batch.status, batch.calls) == (Batch.Status.FINISHED, 6)


def test_the_pace_of_a_job_is_changed_while_it_runs(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    changed = life_cycle.change_limits(batch.pk, priority="high", most_lanes=2)
    assert (changed.priority, changed.most_lanes) == ("high", 2)
    work_until_idle(batch)
    life_cycle.change_limits(batch.pk, priority="high", most_lanes=2)  # nothing to change
    with pytest.raises(errors.JobOver):
        life_cycle.change_limits(batch.pk, priority="low", most_lanes=2)


def test_the_budget_holds_across_lanes(tmp_path: Path, run_concurrently: RunConcurrently, settings: Any) -> None:
    settings.MHB_LANES = 4
    source = import_file(conversations_file(tmp_path / "own.jsonl", 40))
    with simulator("500@0.2", latency=0.02) as url:
        batch = launch_batch(source, endpoint(url, concurrency=12), budget_calls=23)
        outcomes = run_concurrently([lambda: services.work_on_batch(batch.pk)] * 4)
        assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
        assert simulator_stats(url)["requests"] == 23
    batch.refresh_from_db()
    assert (batch.status, batch.calls) == (Batch.Status.PAUSED, 23)
    assert totals_of(batch) == totals_of_the_ledger(batch)
    assert not Draft.objects.filter(status=Status.RUNNING).exists()
    assert not Lane.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"budget_money": Decimal(-1)},
        {"budget_calls": -1},
        {"status": "stopped"},
        {"status": "running", "paused_because": "BudgetSpent"},
        {"failed": 1},
    ],
    ids=str,
)
def test_the_database_refuses_impossible_jobs(wrong: dict[str, Any]) -> None:
    batch = drafts(1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Batch.objects.filter(pk=batch.pk).update(**wrong)


# ----------------------------------------------------------------------------- pause, resume, again


def test_a_paused_batch_asks_nothing_and_continues_when_resumed(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    for _ in range(2):
        assert life_cycle.pause(batch.pk).status == Batch.Status.PAUSED
    assert services.work_on_batch(batch.pk) == 0
    assert sweep(BATCHES) == []
    assert calls(batch) == []
    assert Batch.objects.get().paused_because == "", "a person paused it"
    for _ in range(2):
        assert jobs_services.resume(batch.pk).status == Batch.Status.RUNNING
    assert work_until_idle(batch).status == Batch.Status.FINISHED
    with pytest.raises(errors.JobOver):
        life_cycle.pause(batch.pk)


def test_results_in_flight_are_kept_when_a_batch_is_paused(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_count, store = 0, services._store_outputs

    def pause_and_store(*arguments: Any) -> None:
        nonlocal stored_count
        stored_count += 1
        if stored_count == 1:
            life_cycle.pause(Batch.objects.get().pk)
        store(*arguments)

    monkeypatch.setattr(services, "_store_outputs", pause_and_store)
    with simulator(latency=0.05) as url:
        batch = work_until_idle(launch_batch(source, endpoint(url, concurrency=2)))
        # Two drafts were being stored; two others had taken their slots at the endpoint meanwhile.
        assert simulator_stats(url)["requests"] == len(calls(batch)) == stored_count <= 4
    assert status_counts(batch) == {Status.DONE: stored_count, Status.QUEUED: 6 - stored_count}
    assert batch.status == Batch.Status.PAUSED


def test_a_pause_outlasts_a_retry(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    Draft.objects.filter(pk=batch.drafts.order_by("pk")[0].pk).update(status=Status.FAILED)
    life_cycle.pause(batch.pk)
    assert jobs_services.retry_failed(batch.pk) == 1
    assert jobs_services.retry_failed(batch.pk) == 0
    assert Batch.objects.get().status == Batch.Status.PAUSED


def test_a_paused_batch_without_open_drafts_finishes(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    life_cycle.pause(batch.pk)
    Draft.objects.update(status=Status.DONE)
    jobs_services.settle(batch.pk)
    assert Batch.objects.get().status == Batch.Status.FINISHED


@pytest.mark.parametrize("budget", [{"budget_money": Decimal(-1)}, {"budget_calls": -1}])
def test_a_negative_budget_is_refused(source: Source, models: str, budget: dict[str, Any]) -> None:
    batch = launch_batch(source, endpoint(models))
    with pytest.raises(errors.BudgetTooSmall):
        life_cycle.change_limits(batch.pk, **budget)


def test_a_new_budget_does_not_resume_a_batch_that_a_person_paused(source: Source, models: str) -> None:
    batch = launch_batch(source, endpoint(models))
    life_cycle.pause(batch.pk)
    assert life_cycle.change_limits(batch.pk, budget_money=None, budget_calls=100).status == Batch.Status.PAUSED


# ------------------------------------------------------------------------------------ paid for once


def test_a_paid_reply_is_reused_and_recorded_as_a_hit(source: Source, models: str) -> None:
    generator = endpoint(models, price_in="1", price_out="2")
    first = run_batch(source, generator)
    Draft.objects.filter(batch=first).update(status=Status.FAILED)
    Batch.objects.filter(pk=first.pk).update(status=Batch.Status.CANCELLED)  # which frees its records
    second = run_batch(source, generator)
    assert (second.calls, second.hits, second.cost) == (0, 6, Decimal(0))
    assert status_counts(second) == {Status.DONE: 6}
    paid = {call.pk: call for call in calls(first)}
    for hit in calls(second):
        call = paid[hit.hit_of_id or 0]
        assert (hit.attempt, hit.cost, hit.tokens_in, hit.error) == (0, Decimal(0), 0, "")
        assert (hit.text, hit.identity, hit.sent) == (call.text, call.identity, call.sent)
    assert totals_of(second) == totals_of_the_ledger(second)


def test_a_fresh_batch_reuses_no_replies(source: Source, models: str) -> None:
    generator = endpoint(models)
    first = run_batch(source, generator)
    Draft.objects.filter(batch=first).update(status=Status.FAILED)
    Batch.objects.filter(pk=first.pk).update(status=Batch.Status.CANCELLED)
    second = work_until_idle(launch_batch(source, generator, fresh=True))
    assert (second.calls, second.hits) == (6, 0)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_paid_reply_is_reused_after_its_worker_died(
    source: Source, models: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    """The worker dies between writing the ledger line and storing the result."""
    batch = launch_batch(source, endpoint(models), fresh=fresh)

    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(services, "_store_outputs", fail)
        with pytest.raises(ZeroDivisionError):
            services.work_on_batch(batch.pk)
    paid_count = len(calls(batch))
    assert paid_count >= 1
    clock.advance(minutes=2)
    requeue_expired(Draft)
    batch = work_until_idle(batch)
    assert status_counts(batch) == {Status.DONE: 6}
    assert (batch.calls, batch.hits) == (6, paid_count), "no call is paid for twice"


def test_calls_that_may_repeat_those_of_a_lost_worker_are_marked(source: Source, models: str, clock: Clock) -> None:
    batch = launch_batch(source, endpoint(models))
    lost = {row.pk for row in take(batch.drafts.order_by("pk"), 2)}  # in flight, not in the ledger
    clock.advance(minutes=2)
    requeue_expired(Draft)
    work_until_idle(batch)
    marked = set(Call.objects.filter(repeated=True).values_list("subject", flat=True))
    assert marked == {f"draft:{pk}" for pk in lost}
    assert Call.objects.filter(repeated=False).count() == 4


def test_a_broken_reply_is_not_reused(source: Source, models: str) -> None:
    generator = endpoint(models, "sim-generator+broken-json@0.5", name="generator")
    batch = run_batch(source, generator)
    failed = status_counts(batch)[Status.FAILED]
    assert failed
    assert jobs_services.retry_failed(batch.pk) == failed
    before = batch.calls
    batch = work_until_idle(batch)
    assert batch.calls > before, "it was asked again"
    assert Endpoint.objects.count() == 1
