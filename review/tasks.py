"""Celery tasks: each is one call of a service. The rows say what there is to do."""

import logging
from typing import Any

from celery import Task, shared_task
from kombu.exceptions import OperationalError

from review.audit import verification

log = logging.getLogger(__name__)


def wake(task: "Task[..., Any]", *args: int) -> None:
    """Send a task. A broker that is away is no error: the row says what there is to do, and can be sent for again."""
    try:
        task.delay(*args)
    except (OperationalError, OSError) as error:
        log.warning("broker unavailable, %s%s was not sent: %s", task.name, args, error)


@shared_task
def check_trail(audit_id: int) -> None:
    verification.run(audit_id)
