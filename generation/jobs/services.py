"""Controls of jobs of any kind that touch their rows. For the others, see `life_cycle`."""

from collections.abc import Iterable

from django.db import transaction

from generation import errors
from generation.jobs import life_cycle
from generation.jobs.kinds import kind_of
from generation.models import Endpoint, EndpointState, Job
from generation.models.work import Work
from review.audit.trail import recording_events
from review.models import Occasion


@transaction.atomic
def settle(pk: int) -> None:
    """Mark a job finished when no row is open, and running again when one is.

    A paused job stays paused.
    """
    job = life_cycle.lock_job(pk)
    before, kind = job.status, kind_of(job)
    life_cycle.settle(job, is_open=kind.is_open(pk))
    if job.status == Job.Status.FINISHED != before:
        has_failed = any(rows.exists() for rows in kind.rows_of(pk, status=Work.Status.FAILED))
        life_cycle.tell(job, Occasion.FAILED if has_failed else Occasion.FINISHED)


@recording_events()
def resume(pk: int) -> Job:
    """Resume a paused job and try its endpoints again. Raises JobOver, BudgetTooSmall.

    If it paused because a model refused what it would have sent, and has asked nothing yet, it
    takes over the endpoints' present settings.
    """
    unfit = Job.objects.filter(pk=pk, paused_because="ModelCheck", calls=0, hits=0).exists()
    job = life_cycle.resume(pk)
    kind = kind_of(job)
    endpoints = list(kind.endpoints(kind.get(pk)))
    reset_endpoints(endpoints)
    if unfit:
        settings = {str(endpoint.pk): endpoint.launch_settings for endpoint in endpoints}
        kind.model._default_manager.filter(pk=pk).update(endpoint_settings=settings)
    life_cycle.wake_workers(pk)
    return job


def reset_endpoints(endpoints: Iterable[Endpoint]) -> None:
    """Clear the pauses and failures of endpoints."""
    EndpointState.objects.filter(endpoint__in=list(endpoints)).update(
        blocked_until=None, error="", detail="", openings=0, down_since=None
    )


@recording_events()
def cancel(pk: int) -> Job:
    """Cancel a job. Results so far are kept. Raises JobOver if it is finished."""
    job = life_cycle.lock_job(pk)
    if job.status == Job.Status.FINISHED:
        raise errors.JobOver
    if job.status != Job.Status.CANCELLED:
        life_cycle.cancel(job)
        life_cycle.record(job, "cancelled")
        kind_of(job).discard_waiting(pk)
    return job


@transaction.atomic
def retry_failed(pk: int) -> int:
    """Queue the failed rows of a job again; returns how many. Raises JobOver if it is cancelled."""
    job = life_cycle.lock_job(pk)
    if job.status == Job.Status.CANCELLED:
        raise errors.JobOver
    count = kind_of(job).retry(pk)
    settle(pk)
    life_cycle.wake_workers()
    return count
