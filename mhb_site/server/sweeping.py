"""The sweeper: finds what nobody took. With the database and this alone, every piece of work is brought to its end."""

import logging
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from evaluation import tasks as evaluation_tasks
from evaluation.runs import services
from generation import tasks as generation_tasks
from generation.batches import sweeping
from generation.sources import uploads
from generation.tasks import wake
from review.assignments import claims

log = logging.getLogger(__name__)
T = TypeVar("T")


def sweep() -> dict[str, int]:
    """One round: give back expired leases, carry review outcomes over, wake workers. Returns what was found.

    Files that no import waits for are removed. A part that fails by a fault of ours is logged, and the others are done all
    the same.
    """
    leases = _guarded(claims.expire_leases, 0)
    due = _guarded(sweeping.sweep, sweeping.Due([], []))
    _guarded(uploads.remove_orphans, 0)
    runs: list[int] = _guarded(services.sweep, [])
    for pk in due.imports:
        wake(generation_tasks.run_import, pk)
    for pk in due.batches:
        wake(generation_tasks.work_on_batch, pk)
    for pk in runs:
        wake(evaluation_tasks.work_on_run, pk)
    return {"leases": leases, "imports": len(due.imports), "batches": len(due.batches), "runs": len(runs)}


def _guarded(part: Callable[[], T], otherwise: T) -> T:
    try:
        return part()
    except (OperationalError, InterfaceError):  # the database is away: no part would be better off
        raise
    except Exception:
        log.exception("a part of the sweep failed")
        return otherwise
