"""The loop of a lane: it fills its slots, renews its leases, and ends without losing a row."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from generation.engine import worker_lane
from generation.engine.lane_coordination import exchange
from generation.engine.task_queue import finish, lease, renew, requeue_expired, take
from generation.engine.worker_lane import RunningLane, work_in_lane
from generation.models import Batch, Draft
from generation.models.work import Work
from tests.conftest import Clock
from tests.engine import drafts

pytestmark = pytest.mark.both

Status = Work.Status


def queue(batch: Batch) -> Any:
    return Draft.objects.filter(batch=batch).order_by("pk")


def lane(
    batch: Batch, work: Callable[[Work], Awaitable[None]], *, slots: int = 4, pulse: Callable[[], None] = lambda: None
) -> int:
    """Run a lane over the drafts of a batch and return how many rows it worked on.

    `work` has to finish each row. `pulse` is called with every pulse.
    """

    def take_rows(_lane: RunningLane, count: int) -> worker_lane.Rows:
        return [(row, partial(work, row)) for row in take(queue(batch), count)]

    def exchange_and_pulse(*arguments: Any) -> Any:
        pulse()
        return exchange(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_lane, "MIN_ROWS", slots)
        patch.setattr(worker_lane, "exchange", exchange_and_pulse)
        return work_in_lane(batch, [], take_rows, lambda: False)


async def finish_row(row: Work) -> None:
    assert await sync_to_async(finish)(row, Status.DONE)


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
def test_rows_that_a_take_did_not_see_are_taken_when_the_last_row_ended_meanwhile() -> None:
    """As the judgments of the last answer: they are stored just after the take has looked."""
    batch = drafts(2)
    takes = 0
    looked = threading.Event()

    async def work(row: Work) -> None:
        await asyncio.to_thread(looked.wait, 60)
        assert row.tries == 1

    def take_rows(running: RunningLane, _count: int) -> worker_lane.Rows:
        nonlocal takes
        takes += 1
        if takes == 2:  # sees nothing, and returns when nothing is in flight any more
            looked.set()
            while running._in_flight:
                time.sleep(0.001)
            return []
        return [(row, partial(work, row)) for row in take(queue(batch), 1)]

    assert work_in_lane(batch, [], take_rows, lambda: False) == 2
    assert takes > 2


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

    monkeypatch.setattr(worker_lane, "renew", renew_or_fail)
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
    pulse_leases: list[Any] = []
    assert lane(drafts(0), finish_row, pulse=lambda: pulse_leases.append(lease())) == 0
    assert pulse_leases
