"""Celery tasks: each is one call of a service. The rows say what there is to do; a lost message costs a sweep, not work."""

import logging
from typing import Any

from celery import Task, shared_task
from kombu.exceptions import OperationalError

from generation.batches import services as batches_services
from generation.sources import services as sources_services

log = logging.getLogger(__name__)


def wake(task: "Task[..., Any]", *args: int) -> None:
    """Send a task. A broker that is away is no error: the sweeper finds the row and sends it again."""
    try:
        task.delay(*args)
    except (OperationalError, OSError) as error:
        log.warning("broker unavailable, %s%s is left to the sweeper: %s", task.name, args, error)


@shared_task
def run_import(import_id: int) -> None:
    sources_services.run_import(import_id)


@shared_task
def work_on_batch(batch_id: int) -> None:
    batches_services.work_on_batch(batch_id)
    if batches_services.batch_waits(batch_id):  # its time was up
        wake(work_on_batch, batch_id)
