"""Group commit: writes asked for at the same moment go in one transaction."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, connection, transaction

from generation.engine.task_queue import lease

log = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_DATABASE = 0.5  # seconds
GATHER = 0.005  # seconds that a transaction waits for company: each costs the same, however much goes in it


def with_database_retries(work: Callable[..., T], *arguments: Any) -> T:
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
            log.warning("database unavailable, trying again: %s", error)
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
                if future.done():  # its caller was cancelled
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
        return with_database_retries(_in_one, wanted)
    except Exception as error:  # whose fault it was is found out one by one
        if len(wanted) == 1 or isinstance(error, (OperationalError, InterfaceError)):
            return [_Failed(error) for _ in wanted]
    return [outcome for one in wanted for outcome in _committed([one])]


@transaction.atomic
def _in_one(wanted: Sequence[tuple[Callable[[list[Any]], list[Any]], Any]]) -> list[Any]:
    outcomes: list[Any] = [None] * len(wanted)
    # The ledger first: so all transactions lock jobs and days before whatever the services lock, and none waits in a circle.
    for work in sorted(dict.fromkeys(work for work, _item in wanted), key=lambda work: work is run_each):
        places = [place for place, (each, _item) in enumerate(wanted) if each == work]
        for place, outcome in zip(places, work([wanted[place][1] for place in places]), strict=True):
            outcomes[place] = outcome
    return outcomes


def run_each(works: list[Callable[[], Any]]) -> list[Any]:
    return [work() for work in works]
