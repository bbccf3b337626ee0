"""The sweeper: finds work that no worker is doing.

With it, the database alone is enough for all work to be completed, even if every message is lost.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from evaluation import tasks as evaluation_tasks
from evaluation.interchange import services as results_services
from generation import tasks
from generation.batches import watching
from generation.common import temporary
from generation.engine import sweeping
from generation.jobs import kinds
from generation.notifications import sending
from generation.outcomes import services as outcomes_services
from generation.probes import services as probes_services
from generation.releases import services as releases_services
from generation.sources import services as sources_services
from generation.sources import uploads
from review.assignments import claims, digest
from review.common import figures, waking
from review.common.waking import wake
from review.rewordings import services as rewordings_services
from review.tasks import count_figures

log = logging.getLogger(__name__)
T = TypeVar("T")


def sweep() -> dict[str, int]:
    """One round: expire leases, approve unopposed rewordings, apply review outcomes, wake workers.

    Also removes files that no import needs. If one part fails by a bug of ours, it is logged and
    the others still run. Returns counts by kind of work.
    """
    leases = _guarded(claims.expire_leases, 0)
    lapsed = _guarded(rewordings_services.lapse_due, 0)
    imports: list[int] = _guarded(sources_services.sweep, [])
    results: list[int] = _guarded(results_services.sweep, [])
    _guarded(outcomes_services.apply_outcomes, 0)  # before the jobs: a rejected sample may queue a draft
    freezes: list[int] = _guarded(releases_services.sweep, [])
    _stopped: list[int] = _guarded(watching.watch, [])
    probings: list[int] = _guarded(probes_services.sweep, [])
    _guarded(uploads.remove_orphans, 0)
    _guarded(temporary.remove_orphans, None)
    _guarded(digest.write_due, None)
    messages = _guarded(sending.is_due, False)
    jobs: dict[str, list[int]] = {}
    for kind in kinds.all_kinds():
        jobs[kind.plural] = _guarded(partial(sweeping.sweep, kind), [])
    for pk in imports:
        wake(tasks.run_import, pk)
    for pk in results:
        wake(evaluation_tasks.import_results, pk)
    for pk in freezes:
        wake(tasks.run_freeze, pk)
    for pk in probings:
        wake(tasks.run_probes, pk)
    wanted = sum(len(pks) for pks in jobs.values())
    lanes = 0
    if wanted:
        lanes = max(0, wanted - waking.waiting_messages(tasks.run_lane))
    for _lane in range(lanes):
        wake(tasks.run_lane)
    if messages:
        wake(tasks.send_messages)
    if _guarded(figures.are_due, False):
        wake(count_figures)
    counts = {"leases": leases, "imports": len(imports) + len(results), "freezes": len(freezes), "lapsed": lapsed}
    return counts | {name: len(pks) for name, pks in jobs.items()}


def _guarded(part: Callable[[], T], default: T) -> T:
    try:
        return part()
    except (OperationalError, InterfaceError):  # the database is unavailable: every part would fail
        raise
    except Exception:
        log.exception("a part of the sweep failed")
        return default
