"""Lanes in the database: a thread reserves one of the job whose turn it is, and gives it back."""

from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from generation.jobs import queries
from generation.jobs.fair_lanes import PATIENCE
from generation.jobs.kinds import all_kinds
from generation.models import Job, Lane


def waiting_jobs() -> list[Job]:
    """The jobs of every kind with rows for a lane to take."""
    jobs: list[Job] = []
    for kind in all_kinds():
        jobs += kind.waiting()
    return jobs


def is_wanted() -> bool:
    """Whether any job may have a further lane."""
    return bool(queries.fair_lanes(waiting_jobs()).wanted())


@transaction.atomic
def reserve(worker: str, *, without: Collection[int] = ()) -> Lane | None:
    """Reserve a lane of the job whose turn it is for a thread of this process; None without one.

    `without`: jobs to pass over. A lane that is not begun within a lease expires like others.
    """
    fair = queries.fair_lanes(waiting_jobs())
    for pk in fair.next_jobs(worker):
        if pk in without:
            continue
        # Another thread that decides about the same job now is not waited for.
        free = Job.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        job = free.filter(pk=pk, status=Job.Status.RUNNING).first()
        if job is not None and fair.lanes_of(pk) == live_lanes(pk) and not job.is_resting:
            return create(job, worker)
    return None


def live_lanes(job: int) -> int:
    """How many lanes a job has now."""
    return Lane.objects.filter(job=job, until__gt=timezone.now()).count()


def create(job: Job, worker: str) -> Lane | None:
    """Create a lane of a job that the caller has locked.

    None if it has as many as it may, or one in this process.
    """
    now = timezone.now()
    Lane.objects.filter(job=job.pk, until__lte=now).delete()
    lanes = Lane.objects.filter(job=job.pk)
    if lanes.filter(worker=worker).exists() or lanes.count() >= queries.most_lanes(job):
        return None
    lease = timedelta(seconds=settings.MHB_LEASE_SECONDS)
    return Lane.objects.create(job_id=job.pk, worker=worker, until=now + lease)


@transaction.atomic
def give_back(lane: Lane) -> None:
    """End a lane: its job waits from now on. Safe to repeat."""
    deleted, _by_model = Lane.objects.filter(pk=lane.pk).delete()
    if deleted:
        Job.objects.filter(pk=lane.job_id).update(idle_since=timezone.now())


def decline(lane: Lane) -> None:
    """End a lane that has not begun: its job has waited since before."""
    Lane.objects.filter(pk=lane.pk).delete()


def ends_early(lane: Lane) -> bool:
    """Whether a lane must end now because a job has waited for one for too long."""
    now = timezone.now()
    live = Lane.objects.filter(until__gt=now)
    running = Job.objects.filter(status=Job.Status.RUNNING).exclude(pk__in=live.values("job"))
    starved = [job for job in running if now - job.waits_since >= PATIENCE]
    if not starved:  # nearly always, so that the rows of jobs are looked at seldom
        return False
    pks = [job.pk for job in starved]
    with_rows: list[Job] = []
    for kind in all_kinds():
        with_rows += kind.waiting().filter(pk__in=pks)
    return lane.pk in queries.fair_lanes(with_rows).ending_early()


def run_errands() -> None:
    """Do for jobs of every kind what needs no lane."""
    for kind in all_kinds():
        for pk in kind.errands():
            kind.run_errand(pk)
