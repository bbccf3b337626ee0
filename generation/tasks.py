"""Celery tasks, each a single call of a service.

The rows hold the work: a lost message only delays it until the next sweep.
"""

from contextlib import suppress

import structlog
from celery import shared_task

from generation.jobs import services
from generation.jobs.kinds import kind_of
from generation.models import Freeze, Import, Job
from generation.releases import services as releases_services
from generation.sources import services as sources_services
from generation.told import sending
from generation.trials import checking
from review.common import waking


@shared_task
def run_import(import_id: int) -> None:
    with suppress(Import.DoesNotExist):  # a message may outlive its row
        sources_services.run_import(import_id)


@shared_task
def run_freeze(freeze_id: int) -> None:
    with suppress(Freeze.DoesNotExist):
        releases_services.run_freeze(freeze_id)


@shared_task
def send_messages() -> None:
    sending.send_due()


@shared_task
def check_models(job_id: int) -> None:
    with suppress(Job.DoesNotExist):
        if checking.check_models(job_id):
            waking.wake(work_on_job, job_id)


@shared_task
def work_on_job(job_id: int) -> None:
    """A lane, which may take minutes: it has a queue of its own (`CELERY_TASK_ROUTES`)."""
    job = Job.objects.filter(pk=job_id).first()
    if job is None:  # a message may outlive its row
        return
    if checking.is_unchecked(job):
        waking.wake(check_models, job_id)
        return
    with structlog.contextvars.bound_contextvars(request_id=job.request_id):  # of the launch, not of this wake-up
        kind_of(job).work(job_id)
    if services.waits(job_id):  # the lane ended because its time was up
        waking.wake(work_on_job, job_id)
