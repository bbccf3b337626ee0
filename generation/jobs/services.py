"""What is done to a job of whatever kind together with its rows. Pausing and budgets need no rows: see `life_cycle`."""

from collections.abc import Iterable

from django.db import transaction

from generation import errors
from generation.jobs import life_cycle, queries
from generation.jobs.kinds import kind_of
from generation.models import Endpoint, EndpointState, Job


@transaction.atomic
def settle(pk: int) -> None:
    """Mark a job finished when nothing of it is open any more, and running again when something is; a pause stays a pause."""
    job = life_cycle.locked(pk)
    life_cycle.settle(job, is_open=kind_of(job).is_open(pk))


def resume(pk: int) -> Job:
    """Go on with a paused job, its endpoints included. Raises JobOver, BudgetTooSmall."""
    job = life_cycle.resume(pk)
    kind = kind_of(job)
    open_again(kind.endpoints(kind.get(pk)))
    return job


def open_again(endpoints: Iterable[Endpoint]) -> None:
    """Ask endpoints again that were left alone or taken for down: somebody resumes their job."""
    EndpointState.objects.filter(endpoint__in=list(endpoints)).update(
        blocked_until=None, because="", detail="", openings=0, down_since=None
    )


@transaction.atomic
def cancel(pk: int) -> Job:
    """Take nothing further of a job; what was done stays. Raises JobOver when it is finished."""
    job = life_cycle.locked(pk)
    if job.status == Job.Status.FINISHED:
        raise errors.JobOver
    if life_cycle.cancel(job):
        kind_of(job).cancelled(pk)
    return job


@transaction.atomic
def retry_failed(pk: int) -> int:
    """Queue again what failed of a job; returns how many rows. Raises JobOver for a cancelled one."""
    job = Job.objects.get(pk=pk)
    if job.status == Job.Status.CANCELLED:
        raise errors.JobOver
    count = kind_of(job).retry(pk)
    settle(pk)
    return count


def waits(pk: int) -> bool:
    """Whether a running job has rows for a lane and may have another now."""
    kind = kind_of(Job.objects.get(pk=pk))
    return bool(queries.due(kind.with_work().filter(pk=pk)))
