"""Worker lanes: long tasks that keep many rows of one job in flight in one event loop.

`RunningLane.work` is a lane from its first moment to its last.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from generation.engine import watchdog
from generation.engine.bound_models import BoundModels, Groups, no_groups
from generation.engine.group_commit import GroupCommit, run_each, with_database_retries
from generation.engine.lane_coordination import LaneEndpoint, exchange
from generation.engine.lane_ledger import LaneLedger
from generation.engine.prefix_groups import PrefixGroups
from generation.engine.task_queue import MIN_ROWS, PULSE, Claim, lease, renew, requeue
from generation.engine.worker_beats import process_name
from generation.images.files import open_image
from generation.jobs import lanes, life_cycle
from generation.llm.admission_control import MAX_OPENINGS
from generation.llm.errors import (
    STOPPING_ERRORS,
    BudgetSpent,
    CutShort,
    EndpointDown,
    KeyMissing,
    LaneOver,
    LLMError,
    NotAllowed,
    PausedTooLong,
    Postponed,
    TooSlow,
    in_words,
)
from generation.llm.gateway import Gateway
from generation.models import Endpoint, EndpointState, Lane
from generation.models.jobs import Job
from generation.models.work import Work

J = TypeVar("J", bound=Job)
T = TypeVar("T")
R = TypeVar("R")
Rows = list[tuple[Work, Callable[[], Awaitable[None]]]]  # rows that were taken, each with the work on it
Take = Callable[["RunningLane", int], Rows]

REQUEUE_ERRORS = (Postponed, *STOPPING_ERRORS)  # a row whose work raises one of these goes back to the queue
RETRY_DOWN_AFTER = timedelta(hours=1)  # after which an endpoint that was given up is tried once more
REST_BESIDE_OTHERS = timedelta(seconds=5)  # of a job whose other lanes still work
LOOK_SECONDS = 1.0  # between two looks of a lane whether a job waits for its thread
MOST_PARKED = 8  # times the slots: rows that wait for a beginning to be warmed, beside those in flight
DRAIN_SECONDS = 60.0  # seconds that a lane whose time is up grants to rows that wait for admission
GATHER = 0.005  # seconds that a lane waits after a row ended, so that several ended rows are replaced together

# Set when this process is being stopped: its lanes finish what is in flight and start nothing new.
SHUTTING_DOWN = threading.Event()


def work_in_lane(job: Job, endpoints: Iterable[Endpoint], take: Take, waits: Callable[[], bool]) -> int:
    """Work on a job in a lane; returns how many rows ran.

    The lane ends when nothing is left to take, its time is up or the job stops. `take(lane, count)`
    takes up to `count` rows under `lane.claim` and returns them with the work on each; `waits()`
    tells whether any row is queued. The lane is the one that this process has reserved
    (`lanes.reserve`), or a new one; returns 0 at once if the job may have no further one here.
    """
    endpoints = list(endpoints)
    if SHUTTING_DOWN.is_set():
        row = None
    else:
        row = with_database_retries(_open_lane, job, endpoints)
    if row is None:
        return 0

    async def work() -> tuple[int, Mapping[str, timedelta | None]]:
        watchdog.watch_tasks(asyncio.get_running_loop())
        lane = RunningLane(job, row, endpoints)
        return await lane.work(take), lane.away()

    try:
        done, away = async_to_sync(work)()
    finally:
        with_database_retries(lanes.give_back, row)
    if away and waits():
        _rest_or_pause(job, away)
    return done


class RunningLane:
    """A lane at work: its endpoints, its rows in flight, and the grouped writes of these rows."""

    def __init__(self, job: Job, lane: Lane, endpoints: Iterable[Endpoint]) -> None:
        self.job = job
        self.claim = Claim()  # for the current take
        self.gateway = Gateway(
            max_reply=settings.MHB_MAX_REPLY_BYTES,
            access=settings.MHB_ENDPOINT_ACCESS,
            on_news=self._note_news,
            open_image=open_image,
        )
        self._lane = lane
        self._endpoints = {}
        for endpoint in endpoints:
            self._endpoints[endpoint.pk] = LaneEndpoint(endpoint, self.gateway.admission(endpoint.settings))
        self._group = GroupCommit()
        self._ledger = LaneLedger(job, lane.pk, self._group)
        self._in_flight: dict[asyncio.Task[None], Work] = {}
        self._parked = 0  # of these, waiting for a beginning to be warmed
        self._done = 0
        self._failure: BaseException | None = None  # of a row's work: a bug of ours
        self._stopped = False
        self._has_more = True  # the last take filled all slots it was offered
        self._woken = asyncio.Event()
        self._news = True  # that should not wait for the next regular pulse
        self._now = asyncio.get_running_loop().time
        self._prefix_groups = PrefixGroups(self._now)
        self._ends_at = self._now() + settings.MHB_LANE_SECONDS
        self._pulse_at = self._renew_at = self._mark_at = self._now()
        self._look_at = self._now() + LOOK_SECONDS

    async def work(self, take: Take) -> int:
        """Keep rows in flight until nothing is left to take; returns how many ran.

        An exception from a row's work is a bug of ours: nothing more is taken, rows in flight
        finish (their calls are being paid for), and the first such exception is raised; the row is
        requeued when its lease expires. A cancelled lane cancels its rows.
        """
        async with self.gateway:
            try:
                while True:
                    if self._news or self._now() >= self._pulse_at:
                        await self._pulse()
                    if self._now() >= self._renew_at:
                        await self._renew_leases()
                    was_idle = not self._in_flight
                    if count := self._wanted():
                        for row, work in await self._take(take, count):
                            self._start(row, work)
                    # A row that ended during the take may have left rows or room for another take.
                    if was_idle and not self._in_flight:
                        break
                    await self._sleep()
            finally:
                for task in self._in_flight:
                    task.cancel()
                await asyncio.gather(*self._in_flight, return_exceptions=True)
            if self._failure is not None:
                raise self._failure
            await self._pulse()  # tell the other lanes what this one found out in its last moments
        return self._done

    # ---------------------------------------------------------------------------- steps of the loop

    async def _pulse(self) -> None:
        """Report the endpoints as this lane sees them and follow the orders that come back."""
        self._news = False
        wants_more = self._has_more and self.is_taking
        reports = {pk: endpoint.report(wants_more=wants_more) for pk, endpoint in self._endpoints.items()}
        orders = await sync_to_async(with_database_retries)(exchange, self.job, self._lane, reports, timezone.now())
        if orders is None:
            self._stop()
        for pk, order in (orders or {}).items():
            self._endpoints[pk].follow(order, reports[pk])
        if orders is not None and self._now() >= self._mark_at:
            self._mark_at = self._now() + life_cycle.MARK_INTERVAL.total_seconds() / 4
            await sync_to_async(with_database_retries)(life_cycle.mark, self.job.pk, timezone.now())
        if SHUTTING_DOWN.is_set() or self._now() > self._ends_at + DRAIN_SECONDS or await self._makes_room():
            self._stop()
        self._pulse_at = self._now() + min(PULSE, lease().total_seconds() / 3)

    async def _makes_room(self) -> bool:
        """Whether the lane ends for a job that waits for one."""
        if self._stopped or self._now() < self._look_at:
            return False
        self._look_at = self._now() + LOOK_SECONDS
        return await sync_to_async(with_database_retries)(lanes.ends_early, self._lane)

    async def _renew_leases(self) -> None:
        """Renew the leases of the rows in flight, three times within their length."""
        delay = third = lease().total_seconds() / 3
        if not await sync_to_async(_renew)(list(self._in_flight.values())):
            delay = min(PULSE, third)
        self._renew_at = self._now() + delay

    def _wanted(self) -> int:
        """How many rows to take now.

        The lane holds twice the calls that the available endpoints accept: while one row is being
        written, the call of another one is in flight; admission control limits the calls. Rows of
        an endpoint that pauses or is down only wait and take no slot. A job without endpoints gets
        as many as are worth taking together.
        """
        if self._failure is not None or not self.is_taking:
            return 0
        endpoints = self._endpoints.values()
        slots = MIN_ROWS
        if endpoints:
            slots = sum(endpoint.most_rows for endpoint in endpoints) or 1
        stuck = sum(max(0, endpoint.rows - endpoint.most_rows) for endpoint in endpoints)
        if self._parked >= MOST_PARKED * slots:
            return 0
        free = slots + stuck - len(self._in_flight) + self._parked
        # Not for a row or two: a take costs the same whether it returns one row or many. Not all
        # at once: rows taken together would also be written together, with no call in flight
        # meanwhile.
        if free >= max(1, slots // 8):
            return min(free, max(MIN_ROWS, slots // 4))
        return 0

    async def _take(self, take: Take, count: int) -> Rows:
        self.claim = Claim()
        rows: Rows = await sync_to_async(with_database_retries)(self._take_safely, take, count)
        self._has_more = len(rows) == count
        if self._has_more:
            self._woken.set()  # there may be room for more
        return rows

    def _take_safely(self, take: Take, count: int) -> Rows:
        """Take rows. If the connection is lost they may be ours, so the next try looks for them."""
        try:
            return take(self, count)
        except (OperationalError, InterfaceError):
            self.claim = replace(self.claim, again=True)
            raise

    def _start(self, row: Work, work: Callable[[], Awaitable[None]]) -> None:
        """Put a row in flight, and count it for the endpoint that it asks."""
        endpoint = None
        if row.asks is not None:
            endpoint = self._endpoints.get(row.asks)

        def end(task: asyncio.Task[None]) -> None:
            del self._in_flight[task]
            if endpoint:
                endpoint.rows -= 1
            self._done += 1
            if task.cancelled():
                failure = None
            else:
                failure = task.exception()
            self._failure = self._failure or failure
            self._woken.set()

        if endpoint:
            endpoint.rows += 1
        task = asyncio.ensure_future(self._work_on(row, work))
        self._in_flight[task] = row
        task.add_done_callback(end)

    async def _work_on(self, row: Work, work: Callable[[], Awaitable[None]]) -> None:
        """Work on a row; requeue it if it is stopped by an error that is not its own."""
        try:
            async with watchdog.limit_waiting(row):
                await work()
        except TooSlow:
            await self.run(partial(watchdog.condemn, type(row), row.pk, row.token, row.tries))
        except REQUEUE_ERRORS as error:
            await self.run(partial(requeue, row, tried=isinstance(error, CutShort)))
            if isinstance(error, BudgetSpent):
                pause = sync_to_async(with_database_retries)
                await pause(life_cycle.pause_unless_over, self.job.pk, error.kind, str(error))
            if not isinstance(
                error, (EndpointDown, PausedTooLong, *STOPPING_ERRORS)
            ):  # those concern one endpoint alone
                self._stop()

    async def _sleep(self) -> None:
        """Sleep until a row ends, there is news, or a pulse or renewal is due."""
        # Not `asyncio.wait`, which would touch each of a thousand tasks whenever one ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(self._pulse_at, self._renew_at) - self._now())):
                await self._woken.wait()
        await asyncio.sleep(GATHER)
        self._woken.clear()

    def _note_news(self) -> None:
        self._news = True
        self._woken.set()

    def _stop(self) -> None:
        """Take no more rows; requeue those that wait for admission or for a prompt to be warm.

        Calls in flight finish.
        """
        if not self._stopped:
            self._stopped = True
            self._prefix_groups.close()
            for endpoint in self._endpoints.values():
                endpoint.admission.close(LaneOver())

    # ----------------------------------------------------------------------------- for the services

    async def run(self, work: Callable[[], T]) -> T:
        """Run a write and return after its commit.

        Concurrent writes share a transaction. `work` must be safe to repeat.
        """
        result: T = await self._group(run_each, work)
        return result

    async def run_grouped(self, work: Callable[[list[T]], list[R]], item: T) -> R:
        """Run a write that handles several rows at once, and return after its commit.

        `work` gets the items of all concurrent calls and returns one result for each. It must be
        safe to repeat.
        """
        result: R = await self._group(work, item)
        return result

    def bind_models(self, endpoints: Mapping[str, Endpoint], row: Work, groups: Groups = no_groups) -> BoundModels:
        """The models of a row. `groups`: what the prompt of a request shares its beginning with."""
        return BoundModels(self.gateway, self._ledger, endpoints, row, groups, self._in_turn)

    @asynccontextmanager
    async def _in_turn(self, row: Work, path: Sequence[str]) -> AsyncIterator[None]:
        """Make a row's call once no other call warms a beginning that it shares.

        `path`: the names of its groups, see `PrefixGroups`. A row that waits takes no slot, so that
        others go on.
        """
        if self._prefix_groups.must_wait(path):
            self._park(row, 1)
            try:
                with watchdog.calling():
                    await self._prefix_groups.wait(path)
            finally:
                self._park(row, -1)
        with self._prefix_groups.warming(path):
            yield

    def _park(self, row: Work, change: int) -> None:
        self._parked += change
        if row.asks in self._endpoints:
            self._endpoints[row.asks].rows -= change
        self._woken.set()

    def is_away(self, endpoint: Endpoint) -> bool:
        """Whether rows that need this endpoint should not be taken now."""
        return self._endpoints[endpoint.pk].admission.is_away

    def room_for(self, endpoint: Endpoint) -> int:
        """How many more rows to take that ask this endpoint: none may use up the others' slots."""
        return self._endpoints[endpoint.pk].room

    @property
    def is_taking(self) -> bool:
        """Whether the lane takes further rows."""
        return not (self._stopped or SHUTTING_DOWN.is_set() or self._now() >= self._ends_at)

    def away(self) -> dict[str, timedelta | None]:
        """The endpoints that ended this lane, with the time for which each is away; None: down."""
        away: dict[str, timedelta | None] = {}
        if not self.is_taking:
            return away
        for lane_endpoint in self._endpoints.values():
            admission, name = lane_endpoint.admission, lane_endpoint.endpoint.name
            if admission.down:
                away[name] = None
            elif admission.is_away:
                away[name] = timedelta(seconds=admission.blocked_for)
        return away


def _renew(rows: list[Work]) -> bool:
    """Renew the leases of these rows; False if the database is unavailable.

    The lane then tries again, until the pulse gives up.
    """
    try:
        for kind in {type(row) for row in rows}:
            renew(kind, {row.token for row in rows if type(row) is kind})
    except (InterfaceError, OperationalError):
        connection.close_if_unusable_or_obsolete()
        return False
    return True


@transaction.atomic
def _open_lane(job: Job, endpoints: list[Endpoint]) -> Lane | None:
    now = timezone.now()
    fresh = life_cycle.lock_job(job.pk)
    if fresh.is_resting or not life_cycle.is_running(job.pk):
        return None
    reserved = Lane.objects.filter(job=job.pk, worker=process_name(), started_at=None, until__gt=now).first()
    lane = reserved or lanes.create(fresh, process_name())
    if lane is None:
        return None
    EndpointState.objects.bulk_create(
        (EndpointState(endpoint=endpoint) for endpoint in endpoints), ignore_conflicts=True
    )
    # A new job tries endpoints that are down, an old one those that have long been; a failure marks
    # them down again.
    down_before = now
    if fresh.calls:
        down_before = now - RETRY_DOWN_AFTER
    EndpointState.objects.filter(endpoint__in=endpoints, down_since__lte=down_before).update(
        blocked_until=None, error="", detail="", openings=MAX_OPENINGS, down_since=None
    )
    life_cycle.mark(job.pk, now)
    lane.started_at, lane.until = now, now + lease()
    lane.save(update_fields=["started_at", "until"])
    return lane


def _rest_or_pause(job: Job, away: Mapping[str, timedelta | None]) -> None:
    """Let a job rest until its endpoints are available; pause it if all of them are down.

    While another lane works on the job with the endpoints that answer, it rests: that lane decides.
    """
    waits = [wait for wait in away.values() if wait is not None]
    now = timezone.now()
    if not waits and Lane.objects.filter(job=job.pk, until__gt=now).exists():
        waits = [REST_BESIDE_OTHERS]
    if waits:
        life_cycle.rest(job.pk, now + min(waits))
        return
    states = EndpointState.objects.filter(endpoint__name__in=away, down_since__isnull=False)
    states = states.select_related("endpoint").order_by("endpoint__name")
    details = [f"{state.endpoint.name}: {in_words(state.error, state.detail)}" for state in states]
    causes = {state.error for state in states}
    cause: type[LLMError] = EndpointDown
    if causes == {KeyMissing.__name__}:
        cause = KeyMissing
    elif causes == {NotAllowed.__name__}:
        cause = NotAllowed
    detail = str(EndpointDown("; ".join(details or away)))
    with_database_retries(life_cycle.pause_unless_over, job.pk, cause.__name__, detail)
