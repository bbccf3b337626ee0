"""Probes sources, releases and batches: work that any worker can restart. It asks no model."""

import time
from collections.abc import Callable, Iterable

from django.db import transaction
from django.utils import timezone

from generation import errors
from generation.engine.task_queue import check_tries, finish, keep, requeue_expired, take
from generation.llm.errors import GivenUp
from generation.models import Batch, ProbeWork, Release, Source
from generation.models.work import Work
from generation.probes import queries, reading, stored
from generation.probes.catalogue import PROBES
from generation.probes.measuring import ProbeCase, ProbeReport, measure
from generation.probes.queries import Target
from generation.probes.reasons import NoNumber
from review.common.waking import wake_after_commit
from review.models import User

TRIES = 3  # a probing that kills its worker would kill the next one, too


NOT_PROBED = ProbeReport(0, 0, 0, options=False, chance=None, reason=NoNumber("not-probed"))


class ProbingLost(Exception):
    """Another worker has taken over."""


def start(target: Target, actor: User | None = None) -> ProbeWork:
    """Queue the probing of a set; one that is queued or running is returned instead."""
    with transaction.atomic():
        type(target)._default_manager.select_for_update(no_key=True).get(pk=target.pk)  # two may start at once
        row = queries.unfinished(target)
        if row is None:
            row = ProbeWork.objects.create(
                **{queries.target_field(target): target},
                total=len(PROBES),
                created_by=actor,
                created_at=timezone.now(),
            )
    wake_after_commit("generation.tasks.run_probes", row.pk)
    return row


def run(work_id: int) -> ProbeWork:
    """Probe, unless somebody else does, and return the row afterwards."""
    for row in take(ProbeWork.objects.filter(pk=work_id).order_by("pk"), 1):
        try:
            check_tries(row, TRIES)
            _probe(row)
        except GivenUp as error:
            finish(row, Work.Status.FAILED, error=type(error).__name__, detail=str(error), finished_at=timezone.now())
        except ProbingLost:
            continue
    return ProbeWork.objects.get(pk=work_id)


def probed(target: Target, actor: User | None = None) -> ProbeReport:
    """Probe a set in this process, and return what was found. Raises ProbingFailed."""
    row = start(target, actor)
    while (row := run(row.pk)).status in (Work.Status.QUEUED, Work.Status.RUNNING):
        time.sleep(0.1)  # a worker took it
    if row.status != Work.Status.DONE:
        raise errors.ProbingFailed(row.detail)
    return stored.from_json(row.result)


def sweep() -> list[int]:
    """Return probings of lost workers to the queue; return the ids of all queued ones."""
    requeue_expired(ProbeWork)
    return list(ProbeWork.objects.filter(status=Work.Status.QUEUED).values_list("pk", flat=True))


def _probe(row: ProbeWork) -> None:
    report = report_on(_cases_of(row), renewing(row, "tried"))
    finish(row, Work.Status.DONE, result=stored.to_json(report), tried=row.total, finished_at=timezone.now())


def _cases_of(row: ProbeWork) -> Iterable[ProbeCase]:
    if row.source_id is not None:
        return reading.cases_of_source(Source.objects.get(pk=row.source_id))
    if row.release_id is not None:
        return reading.cases_of_release(Release.objects.get(pk=row.release_id))
    if row.batch_id is not None:
        return reading.cases_of_batch(Batch.objects.get(pk=row.batch_id))
    return ()


def renewing(row: Work, column: str = "") -> Callable[[int, int], None]:
    """The progress of `measure` that renews a lease after each probe. Raises ProbingLost.

    `column`: where to store how many probes were tried.
    """

    def progress(tried: int, _total: int) -> None:
        stored = {}
        if column:
            stored[column] = tried
        if not keep(row, **stored):
            raise ProbingLost

    return progress


def report_on(cases: Iterable[ProbeCase], progress: Callable[[int, int], None]) -> ProbeReport:
    """Measure; where nothing is labelled, a report that says so."""
    known = list(cases)
    if not known:
        return ProbeReport(0, 0, 0, options=False, chance=None, reason=NoNumber("not-labelled"))
    return measure(known, progress=progress)
