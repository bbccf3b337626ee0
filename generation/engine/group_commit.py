"""Group commit: writes requested at the same moment share one transaction."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connection, transaction

from generation.engine.task_queue import lease

log = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_DATABASE = 0.5  # seconds
GATHER = 0.005  # seconds that a transaction waits for more writes: its cost hardly depends on its size


def with_database_retries(work: Callable[..., T], *arguments: Any) -> T:
    """Run `work`, and repeat it for half a lease while the database is unavailable.

    `work` must be safe to repeat. Trying for longer would be useless, as the rows would belong to
    another worker by then.
    """
    deadline = time.monotonic() + lease().total_seconds() / 2
    while True:
        try:
            return work(*arguments)
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block or time.monotonic() > deadline:
                raise
            log.warning("database unavailable, trying again: %s", error)
            connection.close_if_unusable_or_obsolete()
            time.sleep(RETRY_DATABASE)


@dataclass(frozen=True, slots=True)
class Failure:
    """An outcome that is raised where the call was made."""

    error: Exception


class Grouped:
    """Collects requests while earlier ones run, and for `seconds` more, and runs them together.

    `run` returns what became of requests, in order: a Failure for each that failed.
    """

    def __init__(self, run: Callable[[list[Any]], Awaitable[list[Any]]], seconds: float = 0.0) -> None:
        self._run, self._seconds = run, seconds
        self._waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self._working: asyncio.Task[None] | None = None

    async def __call__(self, request: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._working is None:
            self._working = asyncio.ensure_future(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(self._seconds)
            batch, self._waiting = self._waiting, []
            outcomes = await self._run([request for request, _future in batch])
            for (_request, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():  # its caller was cancelled
                    continue
                if isinstance(outcome, Failure):
                    future.set_exception(outcome.error)
                else:
                    future.set_result(outcome)
        self._working = None


class GroupCommit:
    """Collects writes while a transaction is under way, and for `GATHER` more, into the next one.

    `await group(work, item)` returns what `work([item, ...])` returned for this item, after the
    commit. If a transaction fails, each item runs in one of its own, and only the caller of the
    failing item gets the error.
    """

    def __init__(self) -> None:
        self._grouped = Grouped(sync_to_async(_outcomes_of), GATHER)

    async def __call__(self, work: Callable[[list[Any]], list[Any]], item: Any) -> Any:
        return await self._grouped((work, item))


def _outcomes_of(requests: Sequence[tuple[Callable[[list[Any]], list[Any]], Any]]) -> list[Any]:
    """Run the requests; returns their results in order, a Failure for each that failed."""
    try:
        return with_database_retries(_in_one_transaction, requests)
    except Exception as error:  # run them one by one to find the faulty one
        if len(requests) == 1 or isinstance(error, (OperationalError, InterfaceError)):
            return [Failure(error) for _ in requests]
    outcomes = []
    for request in requests:
        outcomes += _outcomes_of([request])
    return outcomes


@transaction.atomic
def _in_one_transaction(requests: Sequence[tuple[Callable[[list[Any]], list[Any]], Any]]) -> list[Any]:
    outcomes: list[Any] = [None] * len(requests)
    # The ledger first: all transactions then lock jobs and days before whatever the services lock,
    # so that none deadlocks.
    works = dict.fromkeys(work for work, _item in requests)
    for work in sorted(works, key=lambda work: work is run_each):
        places = [place for place, (other, _item) in enumerate(requests) if other == work]
        done = work([requests[place][1] for place in places])
        for place, outcome in zip(places, done, strict=True):
            outcomes[place] = outcome
    return outcomes


def run_each(works: list[Callable[[], Any]]) -> list[Any]:
    """Run independent writes one after the other, as the `work` of a group commit."""
    return [work() for work in works]
