"""Work rows: one holder at a time, no writes without a lease, and expired rows return."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.utils import timezone

from generation.engine.task_queue import Claim, finish, lease, renew, requeue_expired, run_lane, take
from generation.models import Batch, Draft
from generation.models.work import Work
from tests.conftest import Clock, RunConcurrently
from tests.engine import drafts

pytestmark = pytest.mark.both

Status = Work.Status
Run = Callable[[], Awaitable[None]]


def queue(batch: Batch) -> Any:
    return Draft.objects.filter(batch=batch).order_by("pk")


def lane(
    batch: Batch, work: Callable[[Work], Awaitable[None]], *, slots: int = 4, pulse: Callable[[], None] = lambda: None
) -> int:
    """Run a lane over the drafts of a batch and return how many rows it worked on.

    `work` has to finish each row.
    """

    def take_rows(count: int) -> list[tuple[Work, Run]]:
        return [(row, partial(work, row)) for row in take(queue(batch), count)]

    count: int = async_to_sync(run_lane)(take_rows, slots=lambda: slots, pulse=sync_to_async(pulse))
    return count


async def finish_row(row: Work) -> None:
    assert await sync_to_async(finish)(row, Status.DONE)


@pytest.mark.django_db
def test_take_returns_no_more_rows_than_asked_for_in_queue_order() -> None:
    batch = drafts(20)  # few enough for PostgreSQL to plan a nested loop
    first = take(queue(batch), 3)
    assert [row.pk for row in first] == list(queue(batch).values_list("pk", flat=True)[:3])
    assert {row.status for row in first} == {Status.RUNNING}
    assert {row.tries for row in first} == {1}
    assert queue(batch).filter(status=Status.QUEUED).count() == 17
    assert len(take(queue(batch), 17)) == 17
    assert take(queue(batch), 5) == []


@pytest.mark.django_db
def test_a_repeated_claim_returns_the_rows_that_it_took_before() -> None:
    batch = drafts(5)
    claim = Claim()
    first = take(queue(batch), 3, claim)
    again = take(queue(batch), 3, Claim(claim.token, again=True))
    assert [row.pk for row in again] == [row.pk for row in first]
    assert {row.tries for row in again} == {1}
    assert len(take(queue(batch), 4, Claim(claim.token, again=True))) == 4, "and a free row besides"
    assert len(take(queue(batch), 9, Claim(again=True))) == 1, "but no row of another claim"


@pytest.mark.django_db
def test_rows_of_other_batches_are_not_taken() -> None:
    one, other = drafts(2, "one"), drafts(2, "other")
    assert {row.batch_id for row in take(queue(one), 10)} == {one.pk}
    assert queue(other).filter(status=Status.QUEUED).count() == 2


def test_eight_takers_never_get_the_same_row(run_concurrently: RunConcurrently) -> None:
    batch = drafts(60)

    def taker() -> list[int]:
        taken: list[int] = []
        while rows := take(queue(batch), 3):
            assert len(rows) <= 3
            taken += [row.pk for row in rows]
        return taken

    outcomes = run_concurrently([taker] * 8)
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)], outcomes
    taken = [pk for outcome in outcomes for pk in outcome]
    assert len(taken) == len(set(taken)) == 60
    assert set(queue(batch).values_list("tries", flat=True)) == {1}


@pytest.mark.django_db
def test_a_worker_that_lost_its_lease_writes_nothing(clock: Clock) -> None:
    batch = drafts(1)
    [late] = take(queue(batch), 1)
    clock.advance(seconds=lease().total_seconds() + 1)
    assert requeue_expired(Draft) == 1
    [holder] = take(queue(batch), 1)
    assert holder.tries == 2
    assert not finish(late, Status.FAILED, error="Late", data={"late": True})
    row = Draft.objects.get()
    assert (row.status, row.token, row.error, row.data) == (Status.RUNNING, holder.token, "", {})
    assert finish(holder, Status.DONE, data={"kept": True})
    assert not finish(holder, Status.FAILED), "a finished row stays finished"
    row.refresh_from_db()
    assert (row.status, row.data, row.token, row.lease_until) == (Status.DONE, {"kept": True}, None, None)


@pytest.mark.django_db
def test_only_rows_with_an_expired_lease_return_to_the_queue(clock: Clock) -> None:
    batch = drafts(3)
    take(queue(batch), 1)
    clock.advance(seconds=lease().total_seconds() - 1)
    take(queue(batch), 1)
    clock.advance(seconds=2)
    assert requeue_expired(Draft) == 1
    assert list(queue(batch).values_list("status", flat=True)) == [Status.QUEUED, Status.RUNNING, Status.QUEUED]


@pytest.mark.django_db
def test_only_the_holder_of_a_row_renews_its_lease(clock: Clock) -> None:
    batch = drafts(2)
    [late] = take(queue(batch), 1)
    clock.advance(seconds=lease().total_seconds() + 1)
    requeue_expired(Draft)
    [holder] = take(queue(batch), 1)
    held_until = Draft.objects.get(pk=holder.pk).lease_until
    clock.advance(seconds=5)
    renew(Draft, {late.token})
    assert Draft.objects.get(pk=holder.pk).lease_until == held_until
    renew(Draft, {holder.token})
    assert Draft.objects.get(pk=holder.pk).lease_until == clock.now + lease()
    assert Draft.objects.filter(status=Status.QUEUED, lease_until=None).count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": Status.RUNNING},
        {"status": Status.QUEUED, "token": uuid.uuid4()},
        {"status": Status.DONE, "lease_until": timezone.now()},
        {"status": "lost"},
    ],
    ids=["running without lease", "queued with token", "done with lease", "unknown"],
)
@pytest.mark.django_db
def test_the_database_refuses_impossible_rows(wrong: dict[str, Any]) -> None:
    batch = drafts(1)
    with pytest.raises(IntegrityError), transaction.atomic():
        queue(batch).update(**wrong)


@pytest.mark.django_db
def test_a_lane_fills_its_slots_and_ends_when_the_queue_is_empty() -> None:
    batch = drafts(11)
    in_flight = peak = 0
    full = asyncio.Event()

    async def work(row: Work) -> None:
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        if in_flight == 4:
            full.set()
        await full.wait()  # no row ends before all slots are taken
        await finish_row(row)
        in_flight -= 1

    assert lane(batch, work, slots=4) == 11
    assert peak == 4
    assert queue(batch).filter(status=Status.DONE).count() == 11


@pytest.mark.django_db
def test_a_row_that_returns_to_the_queue_is_taken_again() -> None:
    batch = drafts(2)

    async def work(row: Work) -> None:
        again = row.tries == 1
        assert await sync_to_async(finish)(row, Status.QUEUED if again else Status.DONE)

    assert lane(batch, work) == 4
    assert set(queue(batch).values_list("status", "tries")) == {(Status.DONE, 2)}


@pytest.mark.django_db
def test_an_unexpected_exception_stops_the_lane_after_the_rows_in_flight(clock: Clock) -> None:
    batch = drafts(6)
    first = queue(batch).first().pk
    failure_raised = asyncio.Event()

    async def work(row: Work) -> None:
        if row.pk == first:
            failure_raised.set()
            raise ZeroDivisionError
        await failure_raised.wait()
        await asyncio.sleep(0)  # lets the lane notice the exception
        await finish_row(row)

    with pytest.raises(ZeroDivisionError):
        lane(batch, work, slots=3)
    assert queue(batch).filter(status=Status.RUNNING).get().pk == first, "its outcome is unknown"
    assert queue(batch).filter(status=Status.DONE).count() == 2, "paid results are kept"
    assert queue(batch).filter(status=Status.QUEUED).count() == 3
    clock.advance(seconds=lease().total_seconds() + 1)
    assert requeue_expired(Draft) == 1
    assert lane(batch, finish_row) == 4


@pytest.mark.django_db
def test_a_lane_that_loses_the_database_cancels_its_calls(clock: Clock) -> None:
    batch = drafts(6)
    cancelled: list[int] = []

    async def work(row: Work) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(row.pk)
            raise

    pulses = iter([True])

    def pulse() -> None:
        if not next(pulses, False):
            raise OperationalError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.MHB_LEASE_SECONDS", 0.3)
        with pytest.raises(OperationalError):
            lane(batch, work, slots=3, pulse=pulse)
    assert len(cancelled) == 3
    assert queue(batch).filter(status=Status.RUNNING).count() == 3
    clock.advance(seconds=lease().total_seconds() + 1)
    assert requeue_expired(Draft) == 3
    assert lane(batch, finish_row) == 6


@pytest.mark.django_db(transaction=True)  # a connection that failed is closed
@pytest.mark.parametrize("failures", [0, 2])
def test_leases_are_renewed_while_a_model_is_slow(
    settings: Any, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Even if the database is away for a moment."""
    outages = iter([InterfaceError("connection already closed")] * failures)

    def renew_or_fail(*arguments: Any) -> None:
        if error := next(outages, None):
            raise error
        renew(*arguments)

    monkeypatch.setattr("generation.engine.task_queue.renew", renew_or_fail)
    settings.MHB_LEASE_SECONDS = 0.3
    batch = drafts(1)
    leases: list[Any] = []
    slow: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    pulse_count = 0

    def pulse() -> None:
        nonlocal pulse_count
        pulse_count += 1
        if slow and pulse_count >= 6:  # more than a lease later
            loop, answered = slow[0]
            loop.call_soon_threadsafe(answered.set)

    async def work(row: Work) -> None:
        leases.append(row.lease_until)
        answered = asyncio.Event()
        slow.append((asyncio.get_running_loop(), answered))
        await answered.wait()
        leases.append(await Draft.objects.values_list("lease_until", flat=True).aget())
        await finish_row(row)

    assert lane(batch, work, pulse=pulse) == 1
    first, last = leases
    assert timezone.now() > first, "the model took longer than a lease"
    assert last > first


@pytest.mark.django_db
def test_a_lane_sends_a_pulse_before_it_takes_rows() -> None:
    pulse_leases: list[timedelta] = []
    assert lane(drafts(0), finish_row, pulse=lambda: pulse_leases.append(lease())) == 0
    assert pulse_leases
