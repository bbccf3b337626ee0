"""Lanes: a long task that keeps many rows of one job in flight in one event loop.

The database is where lanes meet. Each writes twice a second what it wishes for and reads what it may have, so that
lanes on any number of machines share an endpoint's limits, leave it alone together when it asks for that, and stop
together when their job does. What several rows want written at the same moment goes in one transaction.
"""

import asyncio
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from pydantic import BaseModel

from generation import jobs
from generation import ledger as books
from generation.errors import JobOver
from generation.jobs import Job
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
from generation.llm.gates import BREAKS, ITS_FAULT, Gate, fair_shares
from generation.llm.gateway import Format, Gateway, Ledger, Paid
from generation.llm.types import Attempt, Reply, Request
from generation.models import Call, Endpoint, EndpointState, Lane
from generation.work import PULSE, Claim, Work, lease, put_back, run_lane

log = logging.getLogger(__name__)
J = TypeVar("J", bound=Job)
T = TypeVar("T")
R = TypeVar("R")
Shape = TypeVar("Shape", bound=BaseModel)
Rows = list[tuple[Work, Callable[[], Awaitable[None]]]]

NOT_ITS_FAULT = (Postponed, KeyMissing, NotAllowed)  # a row that meets one of these goes back to the queue
COUNTED = [kind.__name__ for kind in ITS_FAULT if kind is not NotReached]  # against the request
HEAL = timedelta(hours=1)  # after which an endpoint that was given up is asked once more
DRAIN = 60.0  # seconds that a lane whose time is up gives to rows that wait for their turn
RETRY_DATABASE = 0.5  # seconds
GATHER = 0.005  # seconds that a transaction waits for company: each costs the same, however much goes in it


ENDING = (
    threading.Event()
)  # this process is being stopped: its lanes bring to an end what is in flight, and begin nothing


def patiently(work: Callable[..., T], *arguments: Any) -> T:
    """Do something with the database; while that is away, again and again for half a lease. It must bear repetition.

    Longer would be in vain: the rows in hand belong to somebody else by then.
    """
    end = time.monotonic() + lease().total_seconds() / 2
    while True:
        try:
            return work(*arguments)
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block or time.monotonic() > end:
                raise
            log.warning("database away, trying again: %s", error)
            connection.close_if_unusable_or_obsolete()
            time.sleep(RETRY_DATABASE)


class Group:
    """Group commit: while one transaction is under way the next one gathers, and for `GATHER` more.

    `await group(work, item)` returns what `work([item, ...])` returned for this item, once it is committed. Where one
    fails, each is done alone, and only the one at fault is told so.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[list[Any]], list[Any]], Any, asyncio.Future[Any]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def __call__(self, work: Callable[[list[Any]], list[Any]], item: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((work, item, future))
        if self._committing is None:
            self._committing = asyncio.ensure_future(self._commit())
        return await future

    async def _commit(self) -> None:
        while self._waiting:
            await asyncio.sleep(GATHER)
            batch, self._waiting = self._waiting, []
            outcomes = await sync_to_async(_committed)([(work, item) for work, item, _future in batch])
            for (_work, _item, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():  # whoever wanted it was cancelled
                    continue
                if isinstance(outcome, _Failed):
                    future.set_exception(outcome.error)
                else:
                    future.set_result(outcome)
        self._committing = None


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


def _committed(wanted: Sequence[tuple[Callable[[list[Any]], list[Any]], Any]]) -> list[Any]:
    """What came of each, in order; a _Failed where it did not come to pass."""
    try:
        return patiently(_in_one, wanted)
    except Exception as error:  # whose fault it was is found out one by one
        if len(wanted) == 1 or isinstance(error, (OperationalError, InterfaceError)):
            return [_Failed(error) for _ in wanted]
    return [outcome for one in wanted for outcome in _committed([one])]


@transaction.atomic
def _in_one(wanted: Sequence[tuple[Callable[[list[Any]], list[Any]], Any]]) -> list[Any]:
    outcomes: list[Any] = [None] * len(wanted)
    # The ledger first: so all transactions lock jobs and days before whatever the services lock, and none waits in a circle.
    for work in sorted(dict.fromkeys(work for work, _item in wanted), key=lambda work: work is _each):
        places = [place for place, (each, _item) in enumerate(wanted) if each == work]
        for place, outcome in zip(places, work([wanted[place][1] for place in places]), strict=True):
            outcomes[place] = outcome
    return outcomes


def _each(works: list[Callable[[], Any]]) -> list[Any]:
    return [work() for work in works]


# ------------------------------------------------------------------------------------------------------------ at work


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a lane has to say of an endpoint."""

    wish: int
    flying: int
    blocked_for: float
    because: str
    detail: str
    openings: int
    opened: bool  # it has failed here since it was last spoken of; else the openings are hearsay
    proved: bool  # it has answered since it was last spoken of
    down: bool  # and nobody knows yet
    bears: float | None  # None: it may not ask it, or has not yet, and has found out nothing


@dataclass(frozen=True, slots=True)
class _Said:
    """What a lane is told of an endpoint."""

    endpoint: Endpoint
    hold: int
    lanes: int
    blocked_for: float
    because: str
    detail: str
    openings: int
    down: bool
    bears: float


class AtWork:
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
            max_reply=settings.MHB_MAX_REPLY_BYTES, access=settings.MHB_ENDPOINT_ACCESS, on_news=self._news.set
        )

    # ------------------------------------------------------------------------------------------------ for the services

    async def do(self, work: Callable[[], T]) -> T:
        """Write something; it is committed when this returns. Several at once share a transaction: it must bear repetition."""
        result: T = await self._group(_each, work)
        return result

    async def do_together(self, work: Callable[[list[T]], list[R]], item: T) -> R:
        """The same for `work` that does what several rows want at once: a list of items, and what came of each."""
        result: R = await self._group(work, item)
        return result

    def ledger(self, endpoint: Endpoint, row: Work, lines: list[int] | None = None) -> Ledger:
        """The ledger for one row's calls of an endpoint; the numbers of its lines are added to `lines`."""
        subject = f"{row._meta.model_name}:{row.pk}"
        repeated = row.tries > 1

        async def write(attempt: Attempt) -> None:
            line = books.Line(attempt, endpoint, subject, repeated)
            try:
                call: Call = await self._group(self._write, line)
            except (OperationalError, InterfaceError, LLMError):
                raise
            except Exception as failure:  # something in it cannot be stored: it was made and paid for all the same
                log.exception("a line of the ledger cannot be written")
                error = UnexpectedError(f"Its line in the ledger could not be written ({type(failure).__name__}).")
                await self._group(self._write, replace(line, attempt=books.bare(attempt, error)))
                raise error from None
            if lines is not None:
                lines.append(call.pk)

        async def find(identity: str) -> Sequence[Paid]:
            found: list[Paid] = await self._group(self._find, (identity, subject))
            return found

        async def failures(identity: str) -> int:
            # Only a row that was cut short, or lost: the others have none, and need not ask.
            return await sync_to_async(patiently)(_failures, self.job, subject, identity) if repeated else 0

        async def form(prompt: str) -> Format:
            if (endpoint.pk, prompt) not in self._forms:  # once a lane
                looked = asyncio.ensure_future(sync_to_async(patiently)(books.form, endpoint, prompt))
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

    def gate(self, endpoint: Endpoint) -> Gate:
        return self.gateway.gate(endpoint.settings)

    def slots(self) -> int:
        """How many rows to hold at once: twice as many as the endpoints that can be asked may be asked at once.

        While one row is written, another's question is on its way; how many calls are in flight is the gates' to say.
        """
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

    def _write(self, lines: list[books.Line]) -> list[Call]:
        ids = {line.attempt.id for line in lines}
        again = not ids.isdisjoint(self._begun_to_write)
        if not again:  # so those of before are committed, or will not be tried again
            self._begun_to_write = ids
        return books.write(self.job, lines, lane=self._lane.pk, again=again)

    def _find(self, wanted: list[tuple[str, str]]) -> list[list[Paid]]:
        found = books.find(self.job, wanted)
        return [found[pair] for pair in wanted]

    # --------------------------------------------------------------------------------------------------------- pulse

    async def pulse(self) -> None:
        """Say what this lane sees and wishes for, hear what it may have. Every moment, and at once when there is news."""
        self._news.clear()
        seen = {pk: self._see(endpoint) for pk, endpoint in self.endpoints.items()}
        said = await sync_to_async(patiently)(_exchange, self.job, self._lane, seen, timezone.now())
        if said is None:
            self.stop(LaneOver())
            return
        for pk, each in said.items():
            self._hear(self.gate(self.endpoints[pk]), pk, each, seen[pk])
        if self._clock() >= self._mark_at:
            self._mark_at = self._clock() + jobs.MARK.total_seconds() / 4
            await sync_to_async(patiently)(jobs.mark, type(self.job), self.job.pk, timezone.now())
        if ENDING.is_set() or self._clock() > self._ends_at + DRAIN:
            self.stop(LaneOver())

    async def news(self) -> None:
        """Wait until a pulse should not."""
        await self._news.wait()

    def _see(self, endpoint: Endpoint) -> _Seen:
        gate, pk = self.gate(endpoint), endpoint.pk
        answered, self._answered[pk] = gate.answered - self._answered.get(pk, 0), gate.answered
        opened, self._opened[pk] = gate.opened - self._opened.get(pk, 0), gate.opened
        wanted = gate.flying + gate.waiting
        return _Seen(
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

    def _hear(self, gate: Gate, pk: int, said: _Said, seen: _Seen) -> None:
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


@dataclass(frozen=True, slots=True)
class BoundModels:
    """`generation.recipe.Models` for one row of work: roles bound to endpoints, every attempt in the ledger."""

    lane: AtWork
    endpoints: Mapping[str, Endpoint]
    row: Work
    lines: list[int] = field(default_factory=list)  # of the ledger

    async def ask(self, role: str, request: Request) -> Reply:
        endpoint = self.endpoints[role]
        book = self.lane.ledger(endpoint, self.row, self.lines)
        return await self.lane.gateway.ask(endpoint.settings, request, ledger=book)

    async def ask_structured(
        self, role: str, request: Request, shape: type[Shape], *, check: Callable[[Shape], None] | None = None
    ) -> Shape:
        endpoint = self.endpoints[role]
        book = self.lane.ledger(endpoint, self.row, self.lines)
        _reply, value = await self.lane.gateway.ask_structured(
            endpoint.settings, request, shape, check=check, ledger=book
        )
        return value

    def has(self, role: str) -> bool:
        return role in self.endpoints

    async def embed(self, role: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        endpoint = self.endpoints[role]
        book = self.lane.ledger(endpoint, self.row, self.lines)
        return await self.lane.gateway.embed(endpoint.settings, texts, ledger=book)


# ------------------------------------------------------------------------------------------------ in the database


def work(
    job: Job, endpoints: Iterable[Endpoint], take: Callable[[AtWork, int], Rows], waits: Callable[[], bool]
) -> int:
    """Work on a job in a lane until nothing is left to take, its time is up or the job stops; returns how many rows ran.

    `take(lane, count)` takes up to `count` rows under `lane.claim` and says how to work on each; `waits` whether any is
    queued. There is nothing to do here while as many lanes as allowed are on the job: workers are woken more often than needed.
    """
    endpoints = list(endpoints)
    lane = None if ENDING.is_set() else patiently(_open, job, endpoints)
    if lane is None:
        return 0
    try:
        done, away = async_to_sync(_run)(job, lane, endpoints, take)
    finally:
        patiently(_close, lane)
    if away and waits():
        _leave(job, away)
    return int(done)


async def _run(
    job: Job, lane: Lane, endpoints: list[Endpoint], take: Callable[[AtWork, int], Rows]
) -> tuple[int, dict[str, timedelta | None]]:
    """How many rows ran; and the endpoints that kept it from more, with how long they are away (None: down)."""
    at_work = AtWork(job, lane, endpoints)
    async with at_work.gateway:

        def take_rows(count: int) -> Rows:
            if not at_work.takes:
                return []
            at_work.claim = Claim()
            rows = patiently(_take, take, at_work, count)
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
    return Call.objects.filter(job=job.job, subject=subject, identity=identity, error__in=COUNTED).count()


def _take(take: Callable[[AtWork, int], Rows], at_work: AtWork, count: int) -> Rows:
    """Take rows. Where the database goes away meanwhile, they may be ours without our knowing: the next try finds them."""
    try:
        return take(at_work, count)
    except (OperationalError, InterfaceError):
        at_work.claim = replace(at_work.claim, again=True)
        raise


def lanes_of(job: Job) -> int:
    """How many living lanes a job has."""
    return Lane.objects.filter(job=job.job, until__gt=timezone.now()).count()


def lanes_wanted(job: Job) -> int:
    """How many more lanes a job may have."""
    return max(0, int(settings.MHB_LANES) - lanes_of(job))


def due(waiting: QuerySet[J]) -> list[int]:
    """Of the jobs in which rows are queued, those that want a worker: each as often as it may have another lane."""
    now = timezone.now()
    running = waiting.filter(Q(rests_until__isnull=True) | Q(rests_until__lte=now), status=Job.Status.RUNNING)
    return [job.pk for job in running for _ in range(lanes_wanted(job))]


@transaction.atomic
def _open(job: Job, endpoints: list[Endpoint]) -> Lane | None:
    now = timezone.now()
    fresh = type(job)._default_manager.select_for_update(of=("self",), no_key=True).get(pk=job.pk)
    resting = fresh.rests_until is not None and fresh.rests_until > now
    if fresh.status != Job.Status.RUNNING or resting:
        return None
    Lane.objects.filter(job=job.job, until__lte=now).delete()
    if not lanes_wanted(job):
        return None
    EndpointState.objects.bulk_create((EndpointState(endpoint=each) for each in endpoints), ignore_conflicts=True)
    probe_again(endpoints, down_before=now - HEAL if fresh.calls else now)  # a new job does not inherit an old verdict
    jobs.mark(type(job), job.pk, now)
    worker = f"{socket.gethostname()}:{os.getpid()}"[:200]
    return Lane.objects.create(job=job.job, worker=worker, until=now + lease(), started_at=now)


def _close(lane: Lane) -> None:
    Lane.objects.filter(pk=lane.pk).delete()


def _pause(job: Job, error: LLMError) -> None:
    try:
        patiently(partial(jobs.pause, type(job), job.pk, because=error.kind, detail=str(error)))
    except JobOver:  # cancelled meanwhile
        return


def _leave(job: Job, away: Mapping[str, timedelta | None]) -> None:
    """All that is left waits for endpoints that are away: let the job rest, or pause it until somebody looks."""
    waits = [wait for wait in away.values() if wait is not None]
    if waits:
        jobs.rest(type(job), job.pk, timezone.now() + min(waits))
    else:
        states = EndpointState.objects.filter(endpoint__name__in=away, down_since__isnull=False)
        said = [
            f"{state.endpoint.name} ({state.because}: {state.detail})" for state in states.select_related("endpoint")
        ]
        _pause(job, EndpointDown("; ".join(said or away)))


def open_again(endpoints: Iterable[Endpoint]) -> None:
    """Ask endpoints again that were left alone or taken for down: somebody resumes their job."""
    EndpointState.objects.filter(endpoint__in=list(endpoints)).update(
        blocked_until=None, because="", detail="", openings=0, down_since=None
    )


def probe_again(endpoints: Iterable[Endpoint], *, down_before: datetime) -> None:
    """Ask once more an endpoint that was given up before then: if that fails too, it is down again."""
    EndpointState.objects.filter(endpoint__in=list(endpoints), down_since__lte=down_before).update(
        blocked_until=None, because="", detail="", openings=BREAKS, down_since=None
    )


def _exchange(job: Job, lane: Lane, seen: Mapping[int, _Seen], now: datetime) -> dict[int, _Said] | None:
    """One pulse in the database; None where the lane was taken for dead or its job stops."""
    with transaction.atomic():
        states = list(
            EndpointState.objects.select_for_update(of=("self",), no_key=True)
            .select_related("endpoint")
            .filter(endpoint__in=seen)
            .order_by("endpoint")
        )
        lanes = list(Lane.objects.filter(until__gt=now).order_by("pk"))
        if lane.pk not in {each.pk for each in lanes}:
            return None
        said = {state.endpoint_id: _agree(state, seen[state.endpoint_id], lane, lanes, now) for state in states}
        holds = {
            str(pk): [seen[pk].wish, max(each.hold, seen[pk].flying), seen[pk].flying] for pk, each in said.items()
        }
        Lane.objects.filter(pk=lane.pk).update(until=now + lease(), holds=holds)
    running = type(job)._default_manager.filter(pk=job.pk, status=Job.Status.RUNNING).exists()
    return said if running else None


def _agree(state: EndpointState, seen: _Seen, lane: Lane, lanes: list[Lane], now: datetime) -> _Said:
    """Put what a lane has seen of an endpoint to what is known, and say what it may have of it."""
    before = (state.blocked_until, state.because, state.detail, state.openings, state.down_since, round(state.bears, 1))
    until = now + timedelta(seconds=seen.blocked_for)
    # What was heard from here comes back a moment later by the clock; that is no news.
    if seen.blocked_for and (state.blocked_until is None or until > state.blocked_until + timedelta(seconds=PULSE)):
        state.blocked_until, state.because, state.detail = until, seen.because, seen.detail
    if seen.proved:
        state.openings = 0
    elif seen.opened:
        state.openings = max(state.openings, seen.openings)
    state.bears = state.bears if seen.bears is None else seen.bears
    if seen.down and state.down_since is None:
        state.down_since, state.because, state.detail = now, seen.because, seen.detail
    if seen.proved and state.down_since is None and (state.blocked_until is None or state.blocked_until <= now):
        state.blocked_until, state.because, state.detail = None, "", ""
    if before != (
        state.blocked_until, state.because, state.detail, state.openings, state.down_since, round(state.bears, 1)
    ):  # fmt: skip
        state.save()

    name, endpoint = str(state.endpoint_id), state.endpoint
    wishes = [seen.wish if each.pk == lane.pk else each.holds.get(name, (0, 0))[0] for each in lanes]
    fair = fair_shares(endpoint.concurrency, wishes)[[each.pk for each in lanes].index(lane.pk)]
    held = sum(each.holds.get(name, (0, 0))[1] for each in lanes if each.pk != lane.pk)
    blocked = (state.blocked_until - now).total_seconds() if state.blocked_until else 0.0
    return _Said(
        endpoint=endpoint,
        hold=max(0, min(fair, endpoint.concurrency - held)),
        lanes=max(1, sum(wish > 0 for wish in wishes)),
        blocked_for=max(0.0, blocked),
        because=state.because,
        detail=state.detail,
        openings=state.openings,
        down=state.down_since is not None,
        bears=state.bears,
    )
