"""Worker lanes: a long task that keeps many rows of one job in flight in one event loop."""

import asyncio
import logging
import os
import socket
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from generation.engine import ledger as books
from generation.engine.bound_models import BoundModels
from generation.engine.group_commit import Group, run_each, with_database_retries
from generation.engine.lane_coordination import LaneOrders, LaneReport, exchange
from generation.engine.task_queue import FEW, Claim, lease, put_back, run_lane
from generation.errors import JobOver
from generation.images.files import open_image
from generation.jobs import life_cycle, queries
from generation.llm.admission_control import BREAKS, ITS_FAULT, AdmissionControl
from generation.llm.errors import (
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

NOT_ITS_FAULT = (Postponed, KeyMissing, NotAllowed)  # a row that meets one of these goes back to the queue
COUNTED = [kind.__name__ for kind in ITS_FAULT if kind is not NotReached]  # against the request
HEAL = timedelta(hours=1)  # after which an endpoint that was given up is asked once more
DRAIN = 60.0  # seconds that a lane whose time is up gives to rows that wait for their turn

ENDING = (
    threading.Event()
)  # this process is being stopped: its lanes bring to an end what is in flight, and begin nothing


class RunningLane:
    """A lane while it works: the gateway with its gates, the ledger, and the rows' way to the database."""

    def __init__(self, job: Job, lane: Lane, endpoints: Iterable[Endpoint]) -> None:
        self.job = job
        self.endpoints = {endpoint.pk: endpoint for endpoint in endpoints}
        self.hungry = True  # there was more to take than there were slots
        self.over: Postponed | None = None
        self.claim = Claim()  # for the rows that are taken now
        self._lane = lane
        self._group = Group()
        self._known_down: set[int] = set()
        self._answered: dict[int, int] = {}
        self._opened: dict[int, int] = {}
        self._begun: set[int] = set()
        self._begun_to_write: set[uuid.UUID] = set()  # attempts
        self._forms: dict[tuple[int, str], asyncio.Future[Format]] = {}
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

    # ------------------------------------------------------------------------------------------------ for the services

    async def do(self, work: Callable[[], T]) -> T:
        """Write something; it is committed when this returns. Several at once share a transaction: it must bear repetition."""
        result: T = await self._group(run_each, work)
        return result

    async def do_together(self, work: Callable[[list[T]], list[R]], item: T) -> R:
        """The same for `work_in_lane` that does what several rows want at once: a list of items, and what came of each."""
        result: R = await self._group(work, item)
        return result

    def ledger(self, endpoint: Endpoint, row: Work, lines: list[int] | None = None) -> Ledger:
        """The ledger for one row's calls of an endpoint; the numbers of its lines are added to `lines`."""
        subject = f"{row._meta.model_name}:{row.pk}"
        repeated = row.tries > 1

        async def write(attempt: Attempt) -> None:
            line = books.LedgerLine(attempt, endpoint, subject, repeated)
            try:
                call: Call = await self._group(self._write, line)
            except (OperationalError, InterfaceError, LLMError):
                raise
            except Exception as failure:  # something in it cannot be stored: it was made and paid for all the same
                log.exception("a ledger line could not be written")
                error = UnexpectedError(f"Its line in the ledger could not be written ({type(failure).__name__}).")
                await self._group(self._write, replace(line, attempt=books.bare(attempt, error)))
                raise error from None
            if lines is not None:
                lines.append(call.pk)

        async def find(identity: str) -> Sequence[PaidReply]:
            found: list[PaidReply] = await self._group(self._find, (identity, subject))
            return found

        async def failures(identity: str) -> int:
            # Only a row that was cut short, or lost: the others have none, and need not ask.
            return await sync_to_async(with_database_retries)(_failures, self.job, subject, identity) if repeated else 0

        async def form(prompt: str) -> Format:
            if (endpoint.pk, prompt) not in self._forms:  # once a lane
                looked = asyncio.ensure_future(sync_to_async(with_database_retries)(books.form, endpoint, prompt))
                self._forms[endpoint.pk, prompt] = looked
            return await asyncio.shield(self._forms[endpoint.pk, prompt])

        return Ledger(write, self._check, find, failures, form)

    def models(self, endpoints: Mapping[str, Endpoint], row: Work) -> "BoundModels":
        return BoundModels(self, endpoints, row)

    def away(self, endpoint: Endpoint) -> bool:
        """Whether it would be in vain to take rows that ask this endpoint."""
        return self.gate(endpoint).away

    @property
    def takes(self) -> bool:
        """Whether rows are taken at all."""
        return self.over is None and not ENDING.is_set() and self._clock() < self._ends_at

    def stop(self, error: Postponed) -> None:
        """Take no further row; who waits for a turn goes back to the queue, what is in flight comes to its end."""
        if self.over is None:
            self.over = error
            for endpoint in self.endpoints.values():
                self.gate(endpoint).close(error)

    def gate(self, endpoint: Endpoint) -> AdmissionControl:
        return self.gateway.gate(endpoint.settings)

    def slots(self) -> int:
        """How many rows to hold at once: twice as many as the endpoints that can be asked may be asked at once.

        While one row is written, another's question is on its way; how many calls are in flight is the gates' to say. Where
        nobody is asked at all, as many as are worth taking together.
        """
        if not self.endpoints:
            return FEW
        return 2 * sum(max(1, self.gate(each).ceiling) for each in self.endpoints.values() if not self.away(each)) or 1

    async def row(self, row: Work, work: Callable[[], Awaitable[None]]) -> None:
        """Work on a row. Where something stands in the way that is not its fault, it goes back to the queue."""
        try:
            await work()
        except NOT_ITS_FAULT as error:
            await self.do(partial(put_back, row, tried=isinstance(error, CutShort)))
            if isinstance(error, (BudgetSpent, KeyMissing, NotAllowed)):
                await sync_to_async(_pause)(self.job, error)
            if not isinstance(error, (EndpointDown, Away)):
                self.stop(LaneOver())

    # ---------------------------------------------------------------------------------------------------- the ledger

    async def _check(self) -> None:
        error: LLMError | None = await self._group(self._reserve, None)
        if error is not None:
            raise error

    def _reserve(self, wanted: list[None]) -> list[LLMError | None]:
        granted = books.reserve(self.job, len(wanted), lane=self._lane.pk, now=timezone.now())
        if granted is None:
            return [LaneOver() for _ in wanted]
        return [None if place < granted else BudgetSpent() for place in range(len(wanted))]

    def _write(self, lines: list[books.LedgerLine]) -> list[Call]:
        ids = {line.attempt.id for line in lines}
        again = not ids.isdisjoint(self._begun_to_write)
        if not again:  # so those of before are committed, or will not be tried again
            self._begun_to_write = ids
        return books.write(self.job, lines, lane=self._lane.pk, again=again)

    def _find(self, wanted: list[tuple[str, str]]) -> list[list[PaidReply]]:
        found = books.find(self.job, wanted)
        return [found[pair] for pair in wanted]

    # --------------------------------------------------------------------------------------------------------- pulse

    async def pulse(self) -> None:
        """Say what this lane sees and wishes for, hear what it may have. Every moment, and at once when there is news."""
        self._news.clear()
        seen = {pk: self._see(endpoint) for pk, endpoint in self.endpoints.items()}
        said = await sync_to_async(with_database_retries)(exchange, self.job, self._lane, seen, timezone.now())
        if said is None:
            self.stop(LaneOver())
            return
        for pk, each in said.items():
            self._hear(self.gate(self.endpoints[pk]), pk, each, seen[pk])
        if self._clock() >= self._mark_at:
            self._mark_at = self._clock() + life_cycle.MARK.total_seconds() / 4
            await sync_to_async(with_database_retries)(life_cycle.mark, self.job.pk, timezone.now())
        if ENDING.is_set() or self._clock() > self._ends_at + DRAIN:
            self.stop(LaneOver())

    async def news(self) -> None:
        """Wait until a pulse should not."""
        await self._news.wait()

    def _see(self, endpoint: Endpoint) -> LaneReport:
        gate, pk = self.gate(endpoint), endpoint.pk
        answered, self._answered[pk] = gate.answered - self._answered.get(pk, 0), gate.answered
        opened, self._opened[pk] = gate.opened - self._opened.get(pk, 0), gate.opened
        wanted = gate.flying + gate.waiting
        return LaneReport(
            wish=max(wanted, endpoint.concurrency) if self.hungry and self.takes and not gate.away else wanted,
            flying=gate.flying,
            blocked_for=gate.blocked_for,
            because=gate.because,
            detail=gate.detail,
            openings=gate.openings,
            opened=opened > 0,
            proved=answered > 0 and not gate.openings,
            down=gate.down and pk not in self._known_down,
            bears=gate.bears if gate.ceiling and pk in self._begun else None,
        )

    def _hear(self, gate: AdmissionControl, pk: int, said: LaneOrders, seen: LaneReport) -> None:
        if pk not in self._begun:  # what others found out need not be found out again
            self._begun.add(pk)
            gate.bears = said.bears
        rates = [None if rate is None else rate / said.lanes for rate in (said.endpoint.rpm, said.endpoint.tpm)]
        gate.share(said.hold, rpm=rates[0], tpm=rates[1])
        unchanged = gate.openings == seen.openings  # nothing has happened meanwhile
        if said.down:
            gate.give_up(said.because, said.detail)
            self._known_down.add(pk)
        elif pk in self._known_down:  # somebody has resumed it, or it is to be probed
            gate.open_again()
            self._known_down.discard(pk)
        if said.blocked_for:
            gate.block(said.blocked_for, said.because)
        if unchanged:
            gate.openings = said.openings


def work_in_lane(
    job: Job, endpoints: Iterable[Endpoint], take: Callable[[RunningLane, int], Rows], waits: Callable[[], bool]
) -> int:
    """Work on a job in a lane until nothing is left to take, its time is up or the job stops; returns how many rows ran.

    `take(lane, count)` takes up to `count` rows under `lane.claim` and says how to work on each; `waits` whether any is
    queued. There is nothing to do here while as many lanes as allowed are on the job: workers are woken more often than needed.
    """
    endpoints = list(endpoints)
    lane = None if ENDING.is_set() else with_database_retries(_open, job, endpoints)
    if lane is None:
        return 0
    try:
        done, away = async_to_sync(_run)(job, lane, endpoints, take)
    finally:
        with_database_retries(_close, lane)
    if away and waits():
        _leave(job, away)
    return int(done)


async def _run(
    job: Job, lane: Lane, endpoints: list[Endpoint], take: Callable[[RunningLane, int], Rows]
) -> tuple[int, dict[str, timedelta | None]]:
    """How many rows ran; and the endpoints that kept it from more, with how long they are away (None: down)."""
    at_work = RunningLane(job, lane, endpoints)
    async with at_work.gateway:

        def take_rows(count: int) -> Rows:
            if not at_work.takes:
                return []
            at_work.claim = Claim()
            rows = with_database_retries(_take, take, at_work, count)
            at_work.hungry = len(rows) == count
            return [(row, partial(at_work.row, row, run)) for row, run in rows]

        done = await run_lane(take_rows, slots=at_work.slots, alive=at_work.pulse, news=at_work.news)
        await at_work.pulse()  # the last word: what it proved or met in its last moments, others want to know
        gates = {endpoint.name: at_work.gate(endpoint) for endpoint in endpoints}
        away = {
            name: None if gate.down else timedelta(seconds=gate.blocked_for)
            for name, gate in gates.items()
            if gate.away
        }
        return done, away if at_work.takes else {}


def _failures(job: Job, subject: str, identity: str) -> int:
    """How many attempts of a row at a request have failed."""
    return Call.objects.filter(job=job.pk, subject=subject, identity=identity, error__in=COUNTED).count()


def _take(take: Callable[[RunningLane, int], Rows], at_work: RunningLane, count: int) -> Rows:
    """Take rows. Where the database goes away meanwhile, they may be ours without our knowing: the next try finds them."""
    try:
        return take(at_work, count)
    except (OperationalError, InterfaceError):
        at_work.claim = replace(at_work.claim, again=True)
        raise


@transaction.atomic
def _open(job: Job, endpoints: list[Endpoint]) -> Lane | None:
    now = timezone.now()
    fresh = life_cycle.locked(job.pk)
    if fresh.status != Job.Status.RUNNING or fresh.rests:
        return None
    Lane.objects.filter(job=job.pk, until__lte=now).delete()
    if not queries.lanes_wanted(job):
        return None
    EndpointState.objects.bulk_create((EndpointState(endpoint=each) for each in endpoints), ignore_conflicts=True)
    probe_again(endpoints, down_before=now - HEAL if fresh.calls else now)  # a new job does not inherit an old verdict
    life_cycle.mark(job.pk, now)
    worker = f"{socket.gethostname()}:{os.getpid()}"[:200]
    return Lane.objects.create(job_id=job.pk, worker=worker, until=now + lease(), started_at=now)


def _close(lane: Lane) -> None:
    Lane.objects.filter(pk=lane.pk).delete()


def _pause(job: Job, error: LLMError) -> None:
    try:
        with_database_retries(partial(life_cycle.pause, job.pk, because=error.kind, detail=str(error)))
    except JobOver:  # cancelled meanwhile
        return


def _leave(job: Job, away: Mapping[str, timedelta | None]) -> None:
    """All that is left waits for endpoints that are away: let the job rest, or pause it until somebody looks."""
    waits = [wait for wait in away.values() if wait is not None]
    if waits:
        life_cycle.rest(job.pk, timezone.now() + min(waits))
    else:
        states = EndpointState.objects.filter(endpoint__name__in=away, down_since__isnull=False)
        said = [
            f"{state.endpoint.name} ({state.because}: {state.detail})" for state in states.select_related("endpoint")
        ]
        _pause(job, EndpointDown("; ".join(said or away)))


def probe_again(endpoints: Iterable[Endpoint], *, down_before: datetime) -> None:
    """Ask once more an endpoint that was given up before then: if that fails too, it is down again."""
    EndpointState.objects.filter(endpoint__in=list(endpoints), down_since__lte=down_before).update(
        blocked_until=None, because="", detail="", openings=BREAKS, down_since=None
    )
