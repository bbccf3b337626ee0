"""The task queue: takes, finishes and gives back rows of work.

The token given out when a row is taken fences its result.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from generation.llm.errors import GivenUp, TooSlow
from generation.models.work import Work

W = TypeVar("W", bound=Work)
MAX_TRIES = 10  # not fewer: a row may just have been in flight beside the one that killed the process
PULSE = 0.5  # seconds between two pulses of a lane
MIN_ROWS = 16  # the least that a lane with enough free slots takes at once


def lease() -> timedelta:
    """How long a row belongs to its worker without a renewal."""
    return timedelta(seconds=settings.MHB_LEASE_SECONDS)


@dataclass(frozen=True, slots=True)
class Claim:
    """The token under which rows are taken, created before the take.

    `again`: the take was tried before and may have been committed without our knowing.
    """

    token: uuid.UUID | None = field(default_factory=uuid.uuid4)
    again: bool = False


def take(queued: QuerySet[W], count: int | None = None, claim: Claim | None = None) -> list[W]:
    """Take up to `count` rows of `queued` (None: all), in its order, in one transaction.

    Two takers never get the same row. Rows taken under the same claim before are among the result.
    """
    claim = claim or Claim()
    # Running rows have an index, tokens have none.
    claimed = queued.model._default_manager.filter(status=Work.Status.RUNNING, token=claim.token).order_by("pk")
    before = []
    if claim.again:
        before = list(claimed.all())
    with transaction.atomic():
        # Not a subquery of the UPDATE: PostgreSQL may run it again for each row and so take more
        # than `count`.
        free = queued.filter(status=Work.Status.QUEUED).select_for_update(skip_locked=True, of=("self",))
        if count is None:
            most = None
        else:
            most = max(0, count - len(before))
        pks = list(free.values_list("pk", flat=True)[:most])
        if not pks:
            return before
        queued.model._default_manager.filter(status=Work.Status.QUEUED, pk__in=pks).update(
            status=Work.Status.RUNNING, token=claim.token, lease_until=timezone.now() + lease(), tries=F("tries") + 1
        )
    return [*before, *claimed.filter(pk__in=pks)]


def join(row: Work, others: QuerySet[W]) -> list[W]:
    """Take the queued rows among `others` under the token and lease of a row that was taken.

    Returns the rows that were still free.
    """
    return take(others, claim=Claim(row.token))


def check_tries(row: Work, most: int = MAX_TRIES) -> None:
    """Raise GivenUp if a row has been taken more than `most` times without an end.

    Raise TooSlow if code on it did not come back (`watchdog.condemn`).

    Otherwise whatever stops the lane each time (a bug of ours, memory) would recur with every lease
    and be paid for again. If it kills the process, rows that were in flight with it each time are
    given up too; retrying failed rows by hand queues them all.
    """
    if row.error == TooSlow.__name__:
        raise TooSlow(row.detail)
    if row.tries > most:
        raise GivenUp(f"It was started {most} times.")


def finish(row: Work, status: Work.Status, **fields: Any) -> bool:
    """End or requeue a row that is still ours.

    Returns False if the lease was lost; nothing may then be written for the row.
    """
    updated = (
        type(row)
        ._default_manager.filter(pk=row.pk, token=row.token, status=Work.Status.RUNNING)
        .update(status=status, token=None, lease_until=None, **fields)
    )
    return bool(updated)


def finish_all(ends: Sequence[tuple[W, Work.Status, Mapping[str, Any]]]) -> list[bool]:
    """Finish several rows of one table in the caller's transaction; returns which were still ours.

    The SQL is written out, as the ORM would build a statement for every row, which takes longer
    than the database needs to run it.
    """
    kind = type(ends[0][0])
    held = kind._default_manager.filter(pk__in=[row.pk for row, _, _ in ends], status=Work.Status.RUNNING)
    locked = held.select_for_update(of=("self",), no_key=True).order_by("pk").values_list("pk", "token")
    tokens = dict(locked)
    still_held = [row.token is not None and tokens.get(row.pk) == row.token for row, _, _ in ends]
    alike: dict[tuple[Any, ...], list[list[Any]]] = defaultdict(list)  # by the fields that change
    for (row, status, fields), is_held in zip(ends, still_held, strict=True):
        if is_held:
            changed: dict[Any, Any] = {kind._meta.get_field(name): value for name, value in fields.items()}
            changed[kind._meta.get_field("status")] = status
            values = [field.get_db_prep_save(value, connection) for field, value in changed.items()]
            alike[tuple(changed)].append([*values, row.pk])
    with connection.cursor() as cursor:
        for columns, rows in alike.items():
            changes = ", ".join(f"{column.column} = %s" for column in columns)
            cursor.executemany(
                f"UPDATE {kind._meta.db_table} SET {changes}, token = NULL, lease_until = NULL WHERE id = %s",  # noqa: S608
                rows,
            )
    return still_held


def requeue(row: Work, *, tried: bool = False) -> bool:
    """Requeue a row that is still ours, as if it had never been taken: the row is not to blame.

    `tried`: one of its own calls had failed, so that this counts as a try.
    """
    if tried:
        return finish(row, Work.Status.QUEUED)
    return finish(row, Work.Status.QUEUED, tries=F("tries") - 1)


def renew(model: type[Work], tokens: Collection[uuid.UUID | None]) -> None:
    """Renew the leases of the rows held under these tokens; a lost row has another token."""
    model._default_manager.filter(token__in=tokens, status=Work.Status.RUNNING).update(
        lease_until=timezone.now() + lease()
    )


def keep(row: Work, **fields: Any) -> bool:
    """Renew the lease of a row and store these fields; returns False if the lease was lost."""
    held = type(row)._default_manager.filter(pk=row.pk, token=row.token, status=Work.Status.RUNNING)
    return bool(held.update(lease_until=timezone.now() + lease(), **fields))


def requeue_expired(model: type[Work]) -> int:
    """Requeue rows whose lease has expired; returns how many."""
    running = model._default_manager.filter(status=Work.Status.RUNNING)
    shorten_leases(running, "lease_until")
    expired = running.filter(lease_until__lt=timezone.now())
    return expired.update(status=Work.Status.QUEUED, token=None, lease_until=None)


def shorten_leases(held: QuerySet[Any], column: str) -> None:
    """Shorten leases longer than any that are given: they are of before the clock was set back.

    A holder that lives renews its own in time; without this, nobody could take what a dead one
    held until the clock is where it was.
    """
    now = timezone.now()
    held.filter(**{f"{column}__gt": now + 2 * lease()}).update(**{column: now + lease()})
