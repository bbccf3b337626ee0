"""Takes, finishes and gives back rows of work. The token given out when a row is taken fences its result."""

import asyncio
import contextlib
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from generation.llm.errors import GivenUp
from generation.models.work import Work

W = TypeVar("W", bound=Work)
MAX_TRIES = 10  # not fewer: a row may also have been in flight beside whatever killed the process
GATHER = 0.005  # seconds that a lane which lost a row waits for others to end: rows are taken together
PULSE = 0.5  # seconds between two signs of life of a lane
FEW = 16  # rows that are always worth taking together


def lease() -> timedelta:
    """How long a row may go without a sign of life from its worker."""
    return timedelta(seconds=settings.MHB_LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class Claim:
    """The token under which rows are to be taken, made before they are.

    `again`: it was tried before, and may have come to pass without our hearing of it.
    """

    token: uuid.UUID = field(default_factory=uuid.uuid4)
    again: bool = False


def take(queued: QuerySet[W], count: int, claim: Claim | None = None) -> list[W]:
    """Take up to `count` rows of `queued`, in its order, in one transaction. Two takers never get the same row.

    What was taken under the claim before is among them.
    """
    claim = claim or Claim()
    # Running rows have an index, tokens have none.
    ours = queued.model._default_manager.filter(status=Work.Status.RUNNING, token=claim.token).order_by("pk")
    before = list(ours.all()) if claim.again else []
    with transaction.atomic():
        # Not a subquery of the UPDATE: PostgreSQL may run that anew for each row and so take more than `count`.
        free = queued.filter(status=Work.Status.QUEUED).select_for_update(skip_locked=True, of=("self",))
        pks = list(free.values_list("pk", flat=True)[: max(0, count - len(before))])
        if not pks:
            return before
        queued.model._default_manager.filter(status=Work.Status.QUEUED, pk__in=pks).update(
            status=Work.Status.RUNNING, token=claim.token, lease_until=timezone.now() + lease(), tries=F("tries") + 1
        )
    return list(ours)


def join(row: Work, others: QuerySet[W]) -> list[W]:
    """Take queued rows along with one that was taken: they share its token, so its lease.

    Returns those that were still free.
    """
    with transaction.atomic():
        pks = list(
            others.filter(status=Work.Status.QUEUED)
            .select_for_update(skip_locked=True, of=("self",))
            .values_list("pk", flat=True)
        )
        ours = others.model._default_manager
        ours.filter(status=Work.Status.QUEUED, pk__in=pks).update(
            status=Work.Status.RUNNING, token=row.token, lease_until=timezone.now() + lease(), tries=F("tries") + 1
        )
        return list(ours.filter(status=Work.Status.RUNNING, token=row.token, pk__in=pks).order_by("pk"))


def check_tries(row: Work, most: int = MAX_TRIES) -> None:
    """Raises GivenUp for a row that has been taken more than `most` times without an end.

    Whatever stops the lane each time (a fault of ours, memory) would otherwise come back with every lease and pay anew. Where
    it kills the process, what flew with it each time is given up with it: trying again by hand takes both up.
    """
    if row.tries > most:
        raise GivenUp(f"It was begun {most} times.")


def finish(row: Work, status: Work.Status, **fields: Any) -> bool:
    """End or requeue a row that is still ours; False when the lease was lost, and then nothing may be written with it."""
    updated = (
        type(row)
        ._default_manager.filter(pk=row.pk, token=row.token, status=Work.Status.RUNNING)
        .update(status=status, token=None, lease_until=None, **fields)
    )
    return bool(updated)


def finish_all(ends: Sequence[tuple[W, Work.Status, Mapping[str, Any]]]) -> list[bool]:
    """`finish` for several rows of one table at once, in the caller's transaction: whether each was still ours.

    Written out, because the ORM builds a statement for every row, which takes it longer than the database needs to run it.
    """
    kind = type(ends[0][0])
    held = kind._default_manager.filter(pk__in=[row.pk for row, _, _ in ends], status=Work.Status.RUNNING)
    locked = held.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk", "token")
    tokens = dict(locked)
    ours = [row.token is not None and tokens.get(row.pk) == row.token for row, _, _ in ends]
    alike: dict[tuple[str, ...], list[list[Any]]] = defaultdict(list)
    for (row, status, fields), is_ours in zip(ends, ours, strict=True):
        if is_ours:
            alike[tuple(fields)].append([*_prepared(kind, {**fields, "status": status}), row.pk])
    with connection.cursor() as cursor:
        for names, values in alike.items():
            columns = [str(kind._meta.get_field(name).column) for name in (*names, "status")]  # type: ignore[union-attr]
            changes = ", ".join(f"{column} = %s" for column in columns)
            cursor.executemany(
                f"UPDATE {kind._meta.db_table} SET {changes}, token = NULL, lease_until = NULL WHERE id = %s",  # noqa: S608
                values,
            )
    return ours


def _prepared(kind: type[Work], fields: Mapping[str, Any]) -> list[Any]:
    """The values as the database wants them."""
    found = [(kind._meta.get_field(name), value) for name, value in fields.items()]
    return [field.get_db_prep_save(value, connection) for field, value in found]  # type: ignore[union-attr]


def put_back(row: Work, *, tried: bool = False) -> bool:
    """Give back a row that is still ours, as if it had not been taken: what stood in the way was none of its fault.

    `tried`: a call of its own had failed by then, so this counts as a try.
    """
    return finish(row, Work.Status.QUEUED, **({} if tried else {"tries": F("tries") - 1}))


def renew(model: type[Work], tokens: Collection[uuid.UUID | None]) -> None:
    """Keep alive the leases of the rows in flight under these tokens; a row that was lost has another."""
    model._default_manager.filter(token__in=tokens, status=Work.Status.RUNNING).update(
        lease_until=timezone.now() + lease()
    )


def give_back_expired(model: type[Work]) -> int:
    """Requeue rows whose holder is gone; returns how many."""
    expired = model._default_manager.filter(status=Work.Status.RUNNING, lease_until__lt=timezone.now())
    return expired.update(status=Work.Status.QUEUED, token=None, lease_until=None)


class Take(Protocol):
    """Takes up to `count` rows and says how to work on each."""

    def __call__(self, count: int) -> list[tuple[Work, Callable[[], Awaitable[None]]]]: ...


async def _never() -> None:
    await asyncio.Event().wait()


async def run_lane(
    take_rows: Take,
    *,
    slots: Callable[[], int],
    alive: Callable[[], Awaitable[None]],
    news: Callable[[], Awaitable[None]] = _never,
) -> int:
    """Keep up to `slots()` rows in flight, refilling as each finishes, until nothing is left to take; returns how many ran.

    `alive` is called every `PULSE`, and as soon as `news` returns, to say that this lane lives; leases are renewed
    three times in their length. An exception out of a row's work is a fault of ours: nothing more is taken, what is in
    flight is brought to its end (its calls are being paid for), and the first such exception is raised; its row comes
    back when the lease runs out. Cancelled from outside, the lane cancels its rows.
    """
    flying: dict[asyncio.Task[None], Work] = {}
    landed: list[asyncio.Task[None]] = []
    stirred = asyncio.Event()
    done_count = 0
    fault: BaseException | None = None
    loop = asyncio.get_running_loop()

    def land(task: asyncio.Task[None]) -> None:
        landed.append(task)
        stirred.set()

    next_pulse = next_renewal = loop.time()
    listening = asyncio.ensure_future(news())
    listening.add_done_callback(lambda _task: stirred.set())
    try:
        while True:
            if loop.time() >= next_pulse or listening.done():
                if listening.done():
                    listening = asyncio.ensure_future(news())
                    listening.add_done_callback(lambda _task: stirred.set())
                await alive()
                next_pulse = loop.time() + min(PULSE, lease().total_seconds() / 3)
            if loop.time() >= next_renewal:
                renewed = await sync_to_async(_renew)(list(flying.values()))
                third = lease().total_seconds() / 3
                next_renewal = loop.time() + (third if renewed else min(PULSE, third))
            room = slots()
            # Not for a row or two: what a take costs, it costs whether it brings one or many.
            if fault is None and (free := room - len(flying)) >= max(1, room // 8):
                # Some at a time: all that were taken together would be written together, and nothing sent meanwhile.
                wanted = min(free, max(FEW, room // 4))
                rows = await sync_to_async(take_rows)(wanted)
                if len(rows) == wanted < free:
                    stirred.set()
                for row, run in rows:
                    task = asyncio.ensure_future(run())
                    flying[task] = row
                    task.add_done_callback(land)
            if not flying:
                if fault is not None:
                    raise fault
                return done_count
            # Not `asyncio.wait`, which would touch each of a thousand tasks whenever one of them ends.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(next_pulse, next_renewal) - loop.time())):
                    await stirred.wait()
            await asyncio.sleep(GATHER)
            stirred.clear()
            while landed:
                task = landed.pop()
                flying.pop(task)
                fault = fault or task.exception()
                done_count += 1
    finally:
        for task in (listening, *flying):
            task.cancel()
        for task in (listening, *flying):
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


def _renew(rows: list[Work]) -> bool:
    """False where the database is away: it is tried again, for as long as the pulse has patience with it."""
    by_model: dict[type[Work], set[uuid.UUID | None]] = {}
    for row in rows:
        by_model.setdefault(type(row), set()).add(row.token)
    try:
        for model, tokens in by_model.items():
            renew(model, tokens)
    except (InterfaceError, OperationalError):
        connection.close_if_unusable_or_obsolete()
        return False
    return True
