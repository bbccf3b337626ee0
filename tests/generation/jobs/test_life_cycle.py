"""Budgets that hold, totals that agree with the ledger, what is paid for once, and what a person may do at any time."""

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
from generation.engine.task_queue import give_back_expired, take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.models import Batch, Call, Draft, Endpoint, Lane, Source
from generation.models.jobs import Job
from generation.models.work import Work
from tests.conftest import Clock, Together
from tests.engine import (
    calls,
    conversations_file,
    drafts,
    endpoint,
    generated,
    held,
    imported,
    launched,
    served,
    simulated,
    statuses,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both]
Status = Work.Status


@pytest.fixture
def source(tmp_path: Path, db: None) -> Source:
    """Six conversations."""
    return imported(conversations_file(tmp_path / "own.jsonl", 6))


def worked(batch: Batch) -> Batch:
    services.work_on_batch(batch.pk)
    batch.refresh_from_db()
    return batch


def totals_of_the_ledger(job: Job) -> dict[str, Any]:
    lines = Call.objects.filter(job=job)
    counted = lines.aggregate(
        calls=Count("pk", filter=Q(hit_of=None)),
        hits=Count("pk", filter=Q(hit_of__isnull=False)),
        failed=Count("pk", filter=~Q(error="")),
        tokens_in=Sum("tokens_in"),
        tokens_out=Sum("tokens_out"),
        tokens_cached=Sum("tokens_cached"),
        tokens_reasoning=Sum("tokens_reasoning"),
        cost=Sum("cost"),
    )
    return {name: value or 0 for name, value in counted.items()}


def totals_of(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in totals_of_the_ledger(job)}


# ------------------------------------------------------------------------------------------------------------- totals


def test_totals_agree_with_the_ledger(source: Source) -> None:
    with simulated("500@0.3", "broken-json@0.3") as url:
        batch = generated(source, endpoint(url, price_in="1", price_out="2"))
    assert totals_of(batch) == totals_of_the_ledger(batch)
    assert batch.failed > 0
    assert batch.cost > 0
    assert batch.tokens_in > batch.calls


# ------------------------------------------------------------------------------------------------------------- budgets


def test_a_budget_of_calls_is_hard_and_can_be_raised(source: Source) -> None:
    with simulated() as url:
        batch = worked(launched(source, endpoint(url), budget_calls=4))
        assert served(url)["requests"] == len(calls(batch)) == batch.calls == 4
        assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "BudgetSpent")
        assert statuses(batch) == {Status.DONE: 4, Status.QUEUED: 2}
        assert set(batch.drafts.filter(status=Status.QUEUED).values_list("tries", flat=True)) == {0}
        assert services.work_on_batch(batch.pk) == 0
        assert sweep(BATCHES) == []
        with pytest.raises(errors.BudgetTooSmall):
            jobs_services.resume(batch.pk)
        life_cycle.set_budget(batch.pk, money=None, calls=5)
        assert worked(batch).status == Batch.Status.PAUSED
        assert served(url)["requests"] == 5
        life_cycle.set_budget(batch.pk, money=None, calls=None)
        assert set(sweep(BATCHES)) == {batch.pk}
        assert worked(batch).status == Batch.Status.FINISHED
    assert statuses(batch) == {Status.DONE: 6}
    assert batch.paused_because == ""


def test_a_budget_that_is_just_enough_is_enough(source: Source, models: str) -> None:
    batch = worked(launched(source, endpoint(models), budget_calls=6))
    assert (batch.status, batch.calls) == (Batch.Status.FINISHED, 6)


def test_every_attempt_and_every_repair_counts(source: Source) -> None:
    with simulated("500@0.4", "broken-json@0.3") as url:
        batch = worked(launched(source, endpoint(url), budget_calls=7))
        assert served(url)["requests"] == 7 == batch.calls
    assert batch.status == Batch.Status.PAUSED


def test_no_call_is_started_once_the_money_is_spent(source: Source) -> None:
    with simulated() as url:
        generator = endpoint(url, price_in="1000", price_out="1000", concurrency=1)
        batch = worked(launched(source, generator, budget_money=Decimal("1")))
        assert served(url)["requests"] == batch.calls
    assert (batch.status, batch.paused_because) == (Batch.Status.PAUSED, "BudgetSpent")
    costs = [call.cost for call in calls(batch)]
    assert sum(costs[:-1]) < 1 <= sum(costs), "only the call in flight went above it"


def test_what_a_dead_lane_had_reserved_comes_free_again(
    source: Source, models: str, settings: Any, clock: Clock
) -> None:
    settings.MHB_LANES = 2
    batch = launched(source, endpoint(models), budget_calls=6)
    dead = held(batch)  # killed a moment ago, in the middle of all it had
    Lane.objects.filter(pk=dead.pk).update(flying=6)
    batch = worked(batch)
    assert (batch.status, batch.calls) == (Batch.Status.RUNNING, 0)
    assert batch.rests_until == dead.until
    assert sweep(BATCHES) == []
    clock.advance(seconds=(dead.until - clock()).total_seconds() + 1)
    assert set(sweep(BATCHES)) == {batch.pk}
    batch = worked(batch)
    assert (batch.status, batch.calls) == (Batch.Status.FINISHED, 6)


def test_the_budget_holds_across_lanes(tmp_path: Path, together: Together, settings: Any) -> None:
    settings.MHB_LANES = 4
    source = imported(conversations_file(tmp_path / "own.jsonl", 40))
    with simulated("500@0.2", latency=0.02) as url:
        batch = launched(source, endpoint(url, concurrency=12), budget_calls=23)
        outcomes = together([lambda: services.work_on_batch(batch.pk)] * 4)
        assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
        assert served(url)["requests"] == 23
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


# ------------------------------------------------------------------------------------------------- pause, resume, again


def test_paused_it_asks_nothing_and_resumed_it_goes_on(source: Source, models: str) -> None:
    batch = launched(source, endpoint(models))
    for _ in range(2):
        assert life_cycle.pause(batch.pk).status == Batch.Status.PAUSED
    assert services.work_on_batch(batch.pk) == 0
    assert sweep(BATCHES) == []
    assert calls(batch) == []
    assert Batch.objects.get().paused_because == "", "a person did"
    for _ in range(2):
        assert jobs_services.resume(batch.pk).status == Batch.Status.RUNNING
    assert worked(batch).status == Batch.Status.FINISHED
    with pytest.raises(errors.JobOver):
        life_cycle.pause(batch.pk)


def test_paused_in_the_middle_what_is_in_flight_is_kept(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, keep = 0, services._store_outputs

    def pausing(*arguments: Any) -> None:
        nonlocal kept
        kept += 1
        if kept == 1:
            life_cycle.pause(Batch.objects.get().pk)
        keep(*arguments)

    monkeypatch.setattr(services, "_store_outputs", pausing)
    with simulated(latency=0.05) as url:
        batch = worked(launched(source, endpoint(url, concurrency=2)))
        # Two that were being written, and two that had taken their places at the endpoint meanwhile.
        assert served(url)["requests"] == len(calls(batch)) == kept <= 4
    assert statuses(batch) == {Status.DONE: kept, Status.QUEUED: 6 - kept}
    assert batch.status == Batch.Status.PAUSED


def test_a_pause_outlasts_a_retry(source: Source, models: str) -> None:
    batch = launched(source, endpoint(models))
    Draft.objects.filter(pk=batch.drafts.order_by("pk")[0].pk).update(status=Status.FAILED)
    life_cycle.pause(batch.pk)
    assert jobs_services.retry_failed(batch.pk) == 1
    assert jobs_services.retry_failed(batch.pk) == 0
    assert Batch.objects.get().status == Batch.Status.PAUSED


def test_a_paused_batch_of_which_nothing_is_open_is_finished(source: Source, models: str) -> None:
    batch = launched(source, endpoint(models))
    life_cycle.pause(batch.pk)
    Draft.objects.update(status=Status.DONE)
    jobs_services.settle(batch.pk)
    assert Batch.objects.get().status == Batch.Status.FINISHED


@pytest.mark.parametrize("budget", [{"money": Decimal(-1), "calls": None}, {"money": None, "calls": -1}])
def test_a_budget_is_not_negative(source: Source, models: str, budget: dict[str, Any]) -> None:
    batch = launched(source, endpoint(models))
    with pytest.raises(errors.BudgetTooSmall):
        life_cycle.set_budget(batch.pk, **budget)


def test_a_new_budget_does_not_undo_a_pause_of_a_person(source: Source, models: str) -> None:
    batch = launched(source, endpoint(models))
    life_cycle.pause(batch.pk)
    assert life_cycle.set_budget(batch.pk, money=None, calls=100).status == Batch.Status.PAUSED


# --------------------------------------------------------------------------------------------------- paid for once


def test_what_was_paid_for_is_not_paid_again_and_a_hit_says_so(source: Source, models: str) -> None:
    generator = endpoint(models, price_in="1", price_out="2")
    first = generated(source, generator)
    Draft.objects.filter(batch=first).update(status=Status.FAILED)
    Batch.objects.filter(pk=first.pk).update(status=Batch.Status.CANCELLED)  # so that its records are free again
    second = generated(source, generator)
    assert (second.calls, second.hits, second.cost) == (0, 6, Decimal(0))
    assert statuses(second) == {Status.DONE: 6}
    paid = {call.pk: call for call in calls(first)}
    for hit in calls(second):
        of = paid[hit.hit_of_id or 0]
        assert (hit.attempt, hit.cost, hit.tokens_in, hit.error) == (0, Decimal(0), 0, "")
        assert (hit.text, hit.identity, hit.sent) == (of.text, of.identity, of.sent)
    assert totals_of(second) == totals_of_the_ledger(second)


def test_a_fresh_batch_asks_anew(source: Source, models: str) -> None:
    generator = endpoint(models)
    first = generated(source, generator)
    Draft.objects.filter(batch=first).update(status=Status.FAILED)
    Batch.objects.filter(pk=first.pk).update(status=Batch.Status.CANCELLED)
    second = worked(launched(source, generator, fresh=True))
    assert (second.calls, second.hits) == (6, 0)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_reply_that_was_paid_for_when_its_worker_died_is_used(
    source: Source, models: str, clock: Clock, monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    """Between the line in the ledger and the result."""
    batch = launched(source, endpoint(models), fresh=fresh)

    def dies(*arguments: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(services, "_store_outputs", dies)
        with pytest.raises(ZeroDivisionError):
            services.work_on_batch(batch.pk)
    asked = len(calls(batch))
    assert asked >= 1
    clock.advance(minutes=2)
    give_back_expired(Draft)
    batch = worked(batch)
    assert statuses(batch) == {Status.DONE: 6}
    assert (batch.calls, batch.hits) == (6, asked), "none of them is paid for twice"


def test_what_is_asked_again_after_a_worker_was_lost_is_marked(source: Source, models: str, clock: Clock) -> None:
    batch = launched(source, endpoint(models))
    lost = {row.pk for row in take(batch.drafts.order_by("pk"), 2)}  # in flight, not in the ledger
    clock.advance(minutes=2)
    give_back_expired(Draft)
    worked(batch)
    marked = set(Call.objects.filter(repeated=True).values_list("subject", flat=True))
    assert marked == {f"draft:{pk}" for pk in lost}
    assert Call.objects.filter(repeated=False).count() == 4


def test_a_broken_reply_is_no_hit(source: Source, models: str) -> None:
    generator = endpoint(models, "sim-generator+broken-json@0.5", name="generator")
    batch = generated(source, generator)
    failed = statuses(batch)[Status.FAILED]
    assert failed
    assert jobs_services.retry_failed(batch.pk) == failed
    before = batch.calls
    batch = worked(batch)
    assert batch.calls > before, "it was asked again"
    assert Endpoint.objects.count() == 1
