"""Celery tasks, each a single call of a service.

The rows hold the work: a lost message only delays it until the next sweep.
"""

from contextlib import suppress
from dataclasses import asdict

import structlog
from celery import shared_task

from generation.endpoints import testing
from generation.jobs import services
from generation.jobs.kinds import kind_of
from generation.models import Endpoint, Freeze, Import, Job, ProbeWork
from generation.notifications import sending
from generation.notifications import services as notifications_services
from generation.probes import services as probes_services
from generation.releases import services as releases_services
from generation.sources import services as sources_services
from generation.trials import checking
from review.common import waking
from review.models import Delivery, Webhook


@shared_task
def run_import(import_id: int) -> None:
    with suppress(Import.DoesNotExist):  # a message may outlive its row
        sources_services.run_import(import_id)


@shared_task
def run_freeze(freeze_id: int) -> None:
    with suppress(Freeze.DoesNotExist):
        releases_services.run_freeze(freeze_id)


@shared_task
def run_probes(work_id: int) -> None:
    with suppress(ProbeWork.DoesNotExist):
        probes_services.run(work_id)


@shared_task
def send_messages() -> None:
    sending.send_due()


@shared_task
def try_endpoint(key: str, language: str, endpoint_id: int, images: bool) -> None:
    endpoint = Endpoint.objects.get(pk=endpoint_id)
    waking.answer(key, language, lambda: asdict(testing.test_endpoint(endpoint, images=images)))


def test_endpoint(endpoint: Endpoint, *, images: bool) -> testing.EndpointTest:
    """Test an endpoint in a worker, which has its key."""
    return testing.EndpointTest(**waking.ask_worker(try_endpoint, endpoint.pk, images, seconds=180))


@shared_task
def try_webhook(key: str, language: str, webhook_id: int) -> None:
    hook = Webhook.objects.get(pk=webhook_id)
    waking.answer(key, language, lambda: notifications_services.test_webhook(hook).pk)


def test_webhook(hook: Webhook) -> Delivery:
    """Send a test to a webhook from a worker, which has its secret."""
    return Delivery.objects.get(pk=waking.ask_worker(try_webhook, hook.pk, seconds=60))


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
