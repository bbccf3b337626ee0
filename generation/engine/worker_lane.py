"""Worker lanes: long tasks that keep many rows of one job in flight in one event loop."""

import asyncio
import logging
import os
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from generation.engine import ledger, watchdog
from generation.engine.bound_models import BoundModels
from generation.engine.group_commit import GroupCommit, run_each, with_database_retries
from generation.engine.lane_coordination import LaneOrders, LaneReport, exchange
from generation.engine.task_queue import MIN_ROWS, Claim, lease, requeue, run_lane
from generation.errors import JobOver
from generation.images.files import open_image
from generation.jobs import life_cycle, queries
from generation.llm.admission_control import ENDPOINT_ERRORS, MAX_OPENINGS, AdmissionControl
from generation.llm.errors import (
    STOPPING_ERRORS,
    Away,
    BudgetSpent,
    CutShort,
    EndpointDown,
    KeyMissing,
    LaneOver,
    LLMError,
    NotAllowed,
    NotReached,
    Postponed,
    UnexpectedError,
)
from generation.llm.gateway import Gateway
from generation.llm.ledger_interface import Ledger, PaidReply
from generation.llm.request_body import Format
from generation.llm.types import Attempt
from generation.models import Call, Endpoint, EndpointState, Lane
from generation.models.jobs import Job
from generation.models.work import Work

log = logging.getLogger(__name__)
J = TypeVar("J", bound=Job)
T = TypeVar("T")
R = TypeVar("R")
Rows = list[tuple[Work, Callable[[], Awaitable[None]]]]

REQUEUE_ERRORS = (Postponed, *STOPPING_ERRORS)  # a row whose work raises one of these goes back to the queue
# Errors that count against a request.
COUNTED_ERRORS = [kind.__name__ for kind in ENDPOINT_ERRORS if kind is not NotReached]
RETRY_DOWN_AFTER = timedelta(hours=1)  # after which an endpoint that was given up is tried once more
REST_BESIDE_OTHERS = timedelta(seconds=5)  # of a job whose other lanes still work
DRAIN_SECONDS = 60.0  # seconds that a lane whose time is up grants to rows that wait for admission

# Set when this process is being stopped: its lanes finish what is in flight and start nothing new.
SHUTTING_DOWN = threading.Event()


class RunningLane:
    """A lane at work: its gateway, its ledger, and the grouped writes of its rows."""

    def __init__(self, job: Job, lane: Lane, endpoints: Iterable[Endpoint]) -> None:
        self.job = job
        self.endpoints = {endpoint.pk: endpoint for endpoint in endpoints}
        self.has_more = True  # the last take filled all slots it was offered
        self.stop_reason: Postponed | None = None
        self.claim = Claim()  # for the current take
        self._lane = lane
        self._group = GroupCommit()
        self._down: set[int] = set()
        self._answered: dict[int, int] = {}
        self._opened: dict[int, int] = {}
        self._endpoints_met: set[int] = set()
        self._held: Counter[int] = Counter()  # rows in flight by the endpoint that they ask
        self._attempts_in_write: set[uuid.UUID] = set()  # ids
        self._formats: dict[tuple[int, str], asyncio.Future[Format]] = {}
        loop = asyncio.get_running_loop()
        self._ends_at = loop.time() + settings.MHB_LANE_SECONDS
        self._mark_at = loop.time()
        self._clock = loop.time
        self._news = asyncio.Event()
        self.gateway = Gateway(
            max_reply=settings.MHB_MAX_REPLY_BYTES,
            access=settings.MHB_ENDPOINT_ACCESS,
            on_news=self._news.set,
            open_image=open_image,
        )

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

    def ledger_for(self, endpoint: Endpoint, row: Work, lines: list[int] | None = None) -> Ledger:
        """The ledger for a row's calls to an endpoint; appends the keys of its lines to `lines`."""
        subject = f"{row._meta.model_name}:{row.pk}"
        repeated = row.tries > 1

        async def write(attempt: Attempt) -> None:
            line = ledger.LedgerLine(attempt, endpoint, subject, repeated)
            try:
                call: Call = await self._group(self._write, line)
            except (OperationalError, InterfaceError, LLMError):
                raise
            except Exception as failure:  # its content cannot be stored, but the call was made and paid for
                log.exception("a ledger line could not be written")
                error = UnexpectedError(f"Its line in the ledger could not be written ({type(failure).__name__}).")
                await self._group(self._write, replace(line, attempt=ledger.without_content(attempt, error)))
                raise error from None
            if lines is not None:
                lines.append(call.pk)

        async def find(identity: str) -> Sequence[PaidReply]:
            replies: list[PaidReply] = await self._group(self._find, (identity, subject))
            return replies

        async def failures(identity: str) -> int:
            # Only a row that was cut short or lost can have any, so the others need not ask.
            return await sync_to_async(with_database_retries)(_failures, self.job, subject, identity) if repeated else 0

        async def last_format(prompt: str) -> Format:
            if (endpoint.pk, prompt) not in self._formats:  # once per lane
                lookup = asyncio.ensure_future(
                    sync_to_async(with_database_retries)(ledger.last_format, endpoint, prompt)
                )
                self._formats[endpoint.pk, prompt] = lookup
            return await asyncio.shield(self._formats[endpoint.pk, prompt])

        return Ledger(write, self._check, find, failures, last_format)

    def bind_models(self, endpoints: Mapping[str, Endpoint], row: Work) -> "BoundModels":
        return BoundModels(self, endpoints, row)

    def is_away(self, endpoint: Endpoint) -> bool:
        """Whether rows that need this endpoint should not be taken now."""
        return self.admission(endpoint).is_away

    @property
    def is_taking(self) -> bool:
        """Whether the lane takes further rows."""
        return self.stop_reason is None and not SHUTTING_DOWN.is_set() and self._clock() < self._ends_at

    def stop(self, error: Postponed) -> None:
        """Take no more rows; requeue those that wait for admission, let calls in flight finish."""
        if self.stop_reason is None:
            self.stop_reason = error
            for endpoint in self.endpoints.values():
                self.admission(endpoint).close(error)

    def admission(self, endpoint: Endpoint) -> AdmissionControl:
        return self.gateway.admission(endpoint.settings)

    def slots(self) -> int:
        """How many rows to hold at once: twice the calls that the available endpoints accept.

        While one row is being written, the call of another one is in flight; admission control
        limits the calls. A job without endpoints gets as many as are worth taking together.
        """
        if not self.endpoints:
            return MIN_ROWS
        return sum(map(self._most_rows, self.endpoints.values())) or 1

    def stuck(self) -> int:
        """How many rows in flight are more than their endpoint may have: it pauses or is down."""
        return sum(max(0, self._held[pk] - self._most_rows(endpoint)) for pk, endpoint in self.endpoints.items())

    def room_for(self, endpoint: Endpoint) -> int:
        """How many more rows to take that ask this endpoint: none may use up the others' slots."""
        return max(0, self._most_rows(endpoint) - self._held[endpoint.pk])

    def _most_rows(self, endpoint: Endpoint) -> int:
        if self.is_away(endpoint):
            return 0
        admission = self.admission(endpoint)
        return 1 if admission.openings else 2 * max(1, admission.ceiling)  # 1: the probe that ends a pause

    def hold(self, row: Work) -> None:
        """Count a row that was taken against the endpoint that it asks."""
        if row.asks is not None:
            self._held[row.asks] += 1

    async def run_row(self, row: Work, work: Callable[[], Awaitable[None]]) -> None:
        """Work on a row; requeue it if it is stopped by an error that is not its own."""
        try:
            async with watchdog.limit_waiting(row):
                await work()
        except TimeoutError:
            await self.run(partial(watchdog.condemn, type(row), row.pk, row.token, row.tries))
        except REQUEUE_ERRORS as error:
            await self.run(partial(requeue, row, tried=isinstance(error, CutShort)))
            if isinstance(error, BudgetSpent):
                await sync_to_async(_pause)(self.job, error.kind, str(error))
            if not isinstance(error, (EndpointDown, Away, *STOPPING_ERRORS)):  # those concern one endpoint alone
                self.stop(LaneOver())
        finally:
            if row.asks is not None:
                self._held[row.asks] -= 1

    # ----------------------------------------------------------------------------------- the ledger

    async def _check(self) -> None:
        error: LLMError | None = await self._group(self._reserve, None)
        if error is not None:
            raise error

    def _reserve(self, requests: list[None]) -> list[LLMError | None]:
        granted = ledger.reserve(self.job, len(requests), lane=self._lane.pk, now=timezone.now())
        if granted is None:
            return [LaneOver() for _ in requests]
        return [None if place < granted else BudgetSpent() for place in range(len(requests))]

    def _write(self, lines: list[ledger.LedgerLine]) -> list[Call]:
        ids = {line.attempt.id for line in lines}
        again = not ids.isdisjoint(self._attempts_in_write)
        if not again:  # the earlier ones are committed, or will not be retried
            self._attempts_in_write = ids
        return ledger.write(self.job, lines, lane=self._lane.pk, again=again)

    def _find(self, keys: list[tuple[str, str]]) -> list[list[PaidReply]]:
        replies = ledger.paid_replies(self.job, keys)
        return [replies[key] for key in keys]

    # ---------------------------------------------------------------------------------------- pulse

    async def pulse(self) -> None:
        """Report the endpoints as this lane sees them and follow the orders that come back.

        Called every `PULSE`, and at once when there is news.
        """
        self._news.clear()
        reports = {pk: self._report(endpoint) for pk, endpoint in self.endpoints.items()}
        orders = await sync_to_async(with_database_retries)(exchange, self.job, self._lane, reports, timezone.now())
        if orders is None:
            self.stop(LaneOver())
            return
        for pk, order in orders.items():
            self._follow(self.admission(self.endpoints[pk]), pk, order, reports[pk])
        if self._clock() >= self._mark_at:
            self._mark_at = self._clock() + life_cycle.MARK_INTERVAL.total_seconds() / 4
            await sync_to_async(with_database_retries)(life_cycle.mark, self.job.pk, timezone.now())
        if SHUTTING_DOWN.is_set() or self._clock() > self._ends_at + DRAIN_SECONDS:
            self.stop(LaneOver())

    async def wait_for_news(self) -> None:
        """Return as soon as there is news that should not wait for the next regular pulse."""
        await self._news.wait()

    def _report(self, endpoint: Endpoint) -> LaneReport:
        admission, pk = self.admission(endpoint), endpoint.pk
        answered, self._answered[pk] = admission.answered - self._answered.get(pk, 0), admission.answered
        opened, self._opened[pk] = admission.opened - self._opened.get(pk, 0), admission.opened
        wanted = admission.in_flight + admission.waiting
        return LaneReport(
            wish=max(wanted, endpoint.concurrency)
            if self.has_more and self.is_taking and not admission.is_away
            else wanted,
            flying=admission.in_flight,
            blocked_for=admission.blocked_for,
            because=admission.because,
            detail=admission.detail,
            openings=admission.openings,
            opened=opened > 0,
            proved=answered > 0 and not admission.openings,
            down=admission.down and pk not in self._down,
            bears=admission.bears if admission.ceiling and pk in self._endpoints_met else None,
        )

    def _follow(self, admission: AdmissionControl, pk: int, order: LaneOrders, report: LaneReport) -> None:
        if pk not in self._endpoints_met:  # start from what other lanes found out
            self._endpoints_met.add(pk)
            admission.bears = order.bears
        rates = [None if rate is None else rate / order.lanes for rate in (order.endpoint.rpm, order.endpoint.tpm)]
        admission.set_share(order.hold, rpm=rates[0], tpm=rates[1])
        # Otherwise something happened meanwhile, and the order is outdated.
        unchanged = admission.openings == report.openings
        if order.down:
            admission.mark_down(order.because, order.detail)
            self._down.add(pk)
        elif pk in self._down:  # a person resumed it, or it is due for a probe
            admission.reset()
            self._down.discard(pk)
        if order.blocked_for:
            admission.block(order.blocked_for, order.because)
        if unchanged:
            admission.openings = order.openings


def work_in_lane(
    job: Job, endpoints: Iterable[Endpoint], take: Callable[[RunningLane, int], Rows], waits: Callable[[], bool]
) -> int:
    """Work on a job in a lane; returns how many rows ran.

    The lane ends when nothing is left to take, its time is up or the job stops. `take(lane, count)`
    takes up to `count` rows under `lane.claim` and returns them with the work on each; `waits()`
    tells whether any row is queued. Returns 0 at once if the job has as many lanes as allowed:
    workers are woken more often than needed.
    """
    endpoints = list(endpoints)
    lane = None if SHUTTING_DOWN.is_set() else with_database_retries(_open_lane, job, endpoints)
    if lane is None:
        return 0
    try:
        done, away = async_to_sync(_run_lane)(job, lane, endpoints, take)
    finally:
        with_database_retries(_close_lane, lane)
    if away and waits():
        _rest_or_pause(job, away)
    return int(done)


async def _run_lane(
    job: Job, lane: Lane, endpoints: list[Endpoint], take: Callable[[RunningLane, int], Rows]
) -> tuple[int, dict[str, timedelta | None]]:
    """Run a lane to its end; returns how many rows ran, and the endpoints that ended it.

    Each of these comes with the time for which it is away (None: down).
    """
    watchdog.watch_tasks(asyncio.get_running_loop())
    running = RunningLane(job, lane, endpoints)
    async with running.gateway:

        def take_rows(count: int) -> Rows:
            if not running.is_taking:
                return []
            running.claim = Claim()
            rows = with_database_retries(_take_safely, take, running, count)
            running.has_more = len(rows) == count
            for row, _work in rows:
                running.hold(row)
            return [(row, partial(running.run_row, row, run)) for row, run in rows]

        done = await run_lane(
            take_rows,
            slots=running.slots,
            stuck=running.stuck,
            pulse=running.pulse,
            wait_for_news=running.wait_for_news,
        )
        await running.pulse()  # tell the other lanes what this one found out in its last moments
        admissions = {endpoint.name: running.admission(endpoint) for endpoint in endpoints}
        away = {
            name: None if admission.down else timedelta(seconds=admission.blocked_for)
            for name, admission in admissions.items()
            if admission.is_away
        }
        return done, away if running.is_taking else {}


def _failures(job: Job, subject: str, identity: str) -> int:
    """How many attempts of a row at a request have failed with an error that counts."""
    return Call.objects.filter(job=job.pk, subject=subject, identity=identity, error__in=COUNTED_ERRORS).count()


def _take_safely(take: Callable[[RunningLane, int], Rows], running: RunningLane, count: int) -> Rows:
    """Take rows. If the connection is lost they may be ours, so the next try looks for them."""
    try:
        return take(running, count)
    except (OperationalError, InterfaceError):
        running.claim = replace(running.claim, again=True)
        raise


@transaction.atomic
def _open_lane(job: Job, endpoints: list[Endpoint]) -> Lane | None:
    now = timezone.now()
    fresh = life_cycle.lock_job(job.pk)
    if fresh.status != Job.Status.RUNNING or fresh.is_resting:
        return None
    Lane.objects.filter(job=job.pk, until__lte=now).delete()
    if not queries.lanes_wanted(job):
        return None
    EndpointState.objects.bulk_create(
        (EndpointState(endpoint=endpoint) for endpoint in endpoints), ignore_conflicts=True
    )
    # A new job tries endpoints that are down.
    probe_again(endpoints, down_before=now - RETRY_DOWN_AFTER if fresh.calls else now)
    life_cycle.mark(job.pk, now)
    worker = f"{socket.gethostname()}:{os.getpid()}"[:200]
    return Lane.objects.create(job_id=job.pk, worker=worker, until=now + lease(), started_at=now)


def _close_lane(lane: Lane) -> None:
    Lane.objects.filter(pk=lane.pk).delete()


def _pause(job: Job, because: str, detail: str) -> None:
    try:
        with_database_retries(partial(life_cycle.pause, job.pk, because=because, detail=detail))
    except JobOver:  # cancelled meanwhile
        return


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
    causes = {state.because for state in states}
    details = [f"{state.endpoint.name} ({state.because}: {state.detail})" for state in states]
    because = next((kind.__name__ for kind in (KeyMissing, NotAllowed) if causes == {kind.__name__}), "")
    _pause(job, because or EndpointDown.__name__, str(EndpointDown("; ".join(details or away))))


def probe_again(endpoints: Iterable[Endpoint], *, down_before: datetime) -> None:
    """Probe endpoints once that were given up before then; a failure marks them down again."""
    EndpointState.objects.filter(endpoint__in=list(endpoints), down_since__lte=down_before).update(
        blocked_until=None, because="", detail="", openings=MAX_OPENINGS, down_since=None
    )
