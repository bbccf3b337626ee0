"""Celery tasks, each a single call of a service.

The rows hold the work: a lost message only delays it until the next sweep.
"""

import logging
from contextlib import suppress
from dataclasses import asdict

import structlog
from celery import shared_task

from generation.endpoints import testing
from generation.engine.worker_beats import process_name
from generation.jobs import lanes
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

log = logging.getLogger(__name__)


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
            waking.wake(run_lane)


@shared_task
def run_lane() -> None:
    """Work on the job whose turn it is.

    A lane may take minutes: it has a queue of its own (`CELERY_TASK_ROUTES`).
    """
    lanes.run_errands()
    passed_over: list[int] = []
    while lane := lanes.reserve(process_name(), without=passed_over):
        try:
            if checking.is_unchecked(lane.job):
                lanes.decline(lane)
                passed_over.append(lane.job.pk)
                waking.wake(check_models, lane.job.pk)
                continue
            with structlog.contextvars.bound_contextvars(request_id=lane.job.request_id):  # of its launch
                kind_of(lane.job).work(lane.job.pk)
        except Exception:  # a bug of ours in one job must not hold up the others
            log.exception("a lane of %s failed", lane.job.name)
            passed_over.append(lane.job.pk)
            continue
        finally:
            lanes.give_back(lane)
        if lanes.is_wanted():
            waking.wake(run_lane)
        break
