"""Ends a worker in which code on a row does not come back, and has that row fail by name.

Steps of recipes and other code of a benchmark run in a worker's threads. Python cannot interrupt
them, and an expression that runs away keeps every thread of the process from working. So a worker
has a guard: a process of its own that looks once a second, in shared memory, at what each thread
is computing for. If that takes too long, it kills the worker, and then notes the cause at the row
(`condemn`), which the next lane fails as `TooSlow`. The other rows return to the queue when their
leases expire, as after any kill. What only waits, for anything but a model, is cancelled by
`limit_waiting` and ends the same way.
"""

import asyncio
import itertools
import logging
import mmap
import os
import signal
import struct
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db.models import Q

from generation.engine.group_commit import with_database_retries
from generation.jobs import life_cycle
from generation.llm.errors import TooSlow
from generation.models.jobs import Job
from generation.models.work import Work

log = logging.getLogger(__name__)

LOOK = 1.0  # seconds between two looks of the guard
PATIENCE = 12  # times the allowed seconds that may pass, however little is computed
SLOTS = 64  # threads watched at once
_SLOT = struct.Struct("<QQQqq16s40s")  # serial, thread, seconds, primary key, tries, token, model
_ROOT = Path(__file__).resolve().parents[2]
_CONDEMN = (
    f"import sys, django; django.setup(); from {__name__} import condemn_after_kill; condemn_after_kill(*sys.argv[1:])"
)

_row: ContextVar[Work | None] = ContextVar("row", default=None)  # that a task of a lane works on
_clock: ContextVar["_Clock | None"] = ContextVar("clock", default=None)  # of that row
_memory: mmap.mmap | None = None  # None: no guard
_free: list[int] = []  # offsets of slots
_serials = itertools.count(1)


def start() -> None:
    """Start the guard of this process, which ends with it. Call once, early."""
    global _memory
    memory = mmap.mmap(-1, SLOTS * _SLOT.size)
    worker = os.getpid()
    if os.fork() == 0:
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM):  # the worker has rows to finish
                signal.signal(number, signal.SIG_IGN)
            _guard(worker, memory)
        finally:
            os._exit(1)
    _free[:] = range(0, SLOTS * _SLOT.size, _SLOT.size)
    _memory = memory


@contextmanager
def computing_for(subject: Work | Job | None) -> Iterator[None]:
    """Tell the guard what this thread computes for. Not to be nested."""
    try:
        offset = None
        if subject:
            offset = _free.pop()
    except IndexError:
        offset = None
    if _memory is None or subject is None or offset is None:
        yield
        return
    serial, thread, seconds = next(_serials), threading.get_native_id(), subject.seconds_allowed
    token, tries = b"", 0
    if isinstance(subject, Work):
        tries = subject.tries
        if subject.token:
            token = subject.token.bytes
    label = subject._meta.label_lower.encode()
    # The serial last: until it is there, the slot counts as free.
    _SLOT.pack_into(_memory, offset, 0, thread, seconds, subject.pk, tries, token, label)
    struct.pack_into("<Q", _memory, offset, serial)
    try:
        yield
    finally:
        struct.pack_into("<Q", _memory, offset, 0)
        _free.append(offset)


@dataclass(slots=True)
class _Clock:
    timeout: asyncio.Timeout
    seconds: int
    calls: int = 0


@asynccontextmanager
async def limit_waiting(row: Work) -> AsyncIterator[None]:
    """Say that this task, and those that it starts, work on a row, and cancel it if it waits.

    Raises TooSlow after `PATIENCE` times the allowed seconds outside of `calling`.
    """
    _row.set(row)
    seconds = PATIENCE * row.seconds_allowed
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            _clock.set(_Clock(timeout, seconds))
            yield
    except TimeoutError:
        if timeout.expired():
            raise TooSlow from None
        raise


@contextmanager
def calling() -> Iterator[None]:
    """Do not count the time that passes meanwhile: a model is asked."""
    clock = _clock.get()
    if clock is None:
        yield
        return
    clock.calls += 1
    clock.timeout.reschedule(None)
    try:
        yield
    finally:
        clock.calls -= 1
        if not clock.calls:
            with suppress(RuntimeError):  # the row has ended, and what it had started goes on
                clock.timeout.reschedule(asyncio.get_running_loop().time() + clock.seconds)


def watch_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Tell the guard, whenever a task of this loop goes on, for which row it does."""

    def start_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(_drive(coroutine), loop=loop, **options)

    if _memory is not None:
        loop.set_task_factory(start_task)


async def _drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return await _Turns(coroutine)


@dataclass(frozen=True, slots=True)
class _Turns:
    """A coroutine of which each turn, from one await to the next, is watched."""

    coroutine: Coroutine[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        result, error = None, None
        while True:
            try:
                with computing_for(_row.get()):
                    if error is None:
                        waits_for = self.coroutine.send(result)
                    else:
                        waits_for = self.coroutine.throw(error)
            except StopIteration as end:
                return end.value
            try:
                result, error = (yield waits_for), None
            except BaseException as raised:
                result, error = None, raised


def condemn(kind: type[Work] | type[Job], pk: int, token: uuid.UUID | None, tries: int) -> None:
    """Return a row to the queue with the cause of its failure; a job is paused.

    The row may have been taken again since; it may not have ended.
    """
    error = TooSlow(f"Limit: {kind.seconds_allowed} seconds.")
    if issubclass(kind, Job):
        life_cycle.pause(pk, because=error.kind, detail=error.detail)
        return
    rows = kind._default_manager.filter(pk=pk, status__in=(Work.Status.QUEUED, Work.Status.RUNNING))
    rows.filter(Q(token=token, status=Work.Status.RUNNING) | Q(tries__gte=tries)).update(
        status=Work.Status.QUEUED, token=None, lease_until=None, error=error.kind, detail=error.detail
    )


# ------------------------------------------------------------------------------------- the guard


@dataclass(frozen=True, slots=True)
class _Seen:
    serial: int
    at: float
    computed: float  # seconds, by its thread


def _guard(worker: int, memory: mmap.mmap) -> None:
    seen: dict[int, _Seen] = {}
    while os.getppid() == worker:
        for offset in range(0, SLOTS * _SLOT.size, _SLOT.size):
            serial, thread, seconds, pk, tries, token, label = _SLOT.unpack_from(memory, offset)
            now, computed = time.monotonic(), _computed(worker, thread)
            before = seen.get(offset)
            if before is None or before.serial != serial:
                seen[offset] = _Seen(serial, now, computed)
            elif serial and (computed - before.computed > seconds or now - before.at > PATIENCE * seconds):
                os.kill(worker, signal.SIGKILL)
                while os.getppid() == worker:
                    time.sleep(0.01)
                os.chdir(_ROOT)
                row = [label.rstrip(b"\0").decode(), str(pk), token.hex(), str(tries)]
                os.execv(sys.executable, [sys.executable, "-c", _CONDEMN, *row])  # noqa: S606 - our own program
        time.sleep(LOOK)


def _computed(process: int, thread: int) -> float:
    """Seconds that a thread has computed; 0 where the system does not tell."""
    try:
        values = Path(f"/proc/{process}/task/{thread}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def condemn_after_kill(label: str, pk: str, token: str, tries: str) -> None:
    """`condemn`, in a process that knows the names only."""
    kind: Any = apps.get_model(label)
    log.error("a worker was ended, as code on %s %s did not come back", label, pk)
    with_database_retries(condemn, kind, int(pk), uuid.UUID(hex=token), int(tries))
