"""Work is a row with a status and a lease. Whoever takes a row owns it until the lease runs out; the token fences the result.

The database is the truth: a process killed at any instruction leaves rows whose lease runs out, and the sweeper gives them
back. Nothing here knows what the work is.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import models, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from generation.llm.errors import GivenUp


class Work(models.Model):
    """A row of work. `tries` counts how often it was taken since it last got on: above 1, a process died with it."""

    class Status(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        DROPPED = "dropped", _("dropped")
        FAILED = "failed", _("failed")

    status = models.CharField(max_length=8, choices=Status, default=Status.QUEUED)
    token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    error = models.CharField(max_length=64, blank=True)  # the name of the error class
    detail = models.TextField(blank=True)

    class Meta:
        abstract = True


def work_constraints(prefix: str) -> list[models.BaseConstraint]:
    """The invariants of a work table: known status, and a lease exactly while it runs."""
    return [
        models.CheckConstraint(condition=Q(status__in=Work.Status.values), name=f"{prefix}_status_known"),
        models.CheckConstraint(
            condition=Q(status="running", token__isnull=False, lease_until__isnull=False)
            | (~Q(status="running") & Q(token__isnull=True, lease_until__isnull=True)),
            name=f"{prefix}_leased_iff_running",
        ),
    ]


W = TypeVar("W", bound=Work)
MAX_TRIES = 5


def lease() -> timedelta:
    """How long a row may go without a sign of life from whoever took it."""
    return timedelta(seconds=settings.MHB_LEASE_SECONDS)


def take(queued: QuerySet[W], count: int) -> list[W]:
    """Take up to `count` rows of `queued`, in its order, in one transaction. Two takers never get the same row."""
    token = uuid.uuid4()
    with transaction.atomic():
        # Not a subquery of the UPDATE: PostgreSQL may run that anew for each row and so take more than `count`.
        free = queued.filter(status=Work.Status.QUEUED).select_for_update(skip_locked=True, of=("self",))
        pks = list(free.values_list("pk", flat=True)[:count])
        taken = queued.model._default_manager.filter(status=Work.Status.QUEUED, pk__in=pks).update(
            status=Work.Status.RUNNING, token=token, lease_until=timezone.now() + lease(), tries=F("tries") + 1
        )
    return list(queued.model._default_manager.filter(token=token).order_by("pk")) if taken else []


def check_tries(row: Work) -> None:
    """Raises GivenUp for a row that has been taken more than `MAX_TRIES` times without an end.

    Whatever stops the lane each time (a fault of ours, memory) would otherwise come back with every lease and pay anew. Where
    it kills the process, what flew with it each time is given up with it: trying again by hand takes both up.
    """
    if row.tries > MAX_TRIES:
        raise GivenUp(f"It was begun {MAX_TRIES} times.")


def finish(row: Work, status: Work.Status, **fields: Any) -> bool:
    """End or requeue a row that is still ours; False when the lease was lost, and then nothing may be written with it."""
    updated = (
        type(row)
        ._default_manager.filter(pk=row.pk, token=row.token, status=Work.Status.RUNNING)
        .update(status=status, token=None, lease_until=None, **fields)
    )
    return bool(updated)


def renew(model: type[Work], tokens: Collection[uuid.UUID | None]) -> None:
    """Keep alive the leases of the rows in flight under these tokens; a row that was lost has another."""
    model._default_manager.filter(token__in=tokens, status=Work.Status.RUNNING).update(
        lease_until=timezone.now() + lease()
    )


def give_back_expired(model: type[Work], *, now: datetime | None = None) -> int:
    """Requeue rows whose holder is gone; returns how many."""
    return model._default_manager.filter(status=Work.Status.RUNNING, lease_until__lt=now or timezone.now()).update(
        status=Work.Status.QUEUED, token=None, lease_until=None
    )


class Take(Protocol):
    """Takes up to `count` rows and says how to work on each."""

    def __call__(self, count: int) -> list[tuple[Work, Callable[[], Awaitable[None]]]]: ...


def lane_is_free() -> Q:
    """Condition on a row with `lane_until` (a batch, a run): nobody works on it, or whoever did is gone."""
    return Q(lane_until__isnull=True) | Q(lane_until__lt=timezone.now())


async def run_lane(take_rows: Take, *, slots: int, alive: Callable[[], None]) -> int:
    """Keep up to `slots` rows in flight, refilling as each finishes, until nothing is left to take; returns how many ran.

    `alive` is called about three times a lease, to say that this lane lives. An exception out of a row's work is a fault of
    ours: nothing more is taken, what is in flight is brought to its end (its calls are being paid for), and the first such
    exception is raised; its row comes back when the lease runs out. Cancelled from outside, the lane cancels its rows.
    """
    flying: dict[asyncio.Task[None], Work] = {}
    done_count = 0
    fault: BaseException | None = None
    beat = lease().total_seconds() / 3
    loop = asyncio.get_running_loop()
    next_beat = loop.time()
    try:
        while True:
            if loop.time() >= next_beat:
                await sync_to_async(_beat)(alive, list(flying.values()))
                next_beat = loop.time() + beat
            if fault is None and len(flying) < slots:
                for row, run in await sync_to_async(take_rows)(slots - len(flying)):
                    flying[asyncio.ensure_future(run())] = row
            if not flying:
                if fault is not None:
                    raise fault
                return done_count
            finished, _waiting = await asyncio.wait(
                flying, timeout=max(0.0, next_beat - loop.time()), return_when=asyncio.FIRST_COMPLETED
            )
            for task in finished:
                flying.pop(task)
                error = task.exception()
                fault = fault or error
                done_count += 1
    finally:
        for task in flying:
            task.cancel()
        for task in flying:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


def _beat(alive: Callable[[], None], rows: list[Work]) -> None:
    alive()
    by_model: dict[type[Work], set[uuid.UUID | None]] = {}
    for row in rows:
        by_model.setdefault(type(row), set()).add(row.token)
    for model, tokens in by_model.items():
        renew(model, tokens)
