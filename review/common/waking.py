"""Waking the workers when a row is ready for them."""

import logging
from functools import partial
from typing import Any

from celery import Task
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def wake(task: "Task[..., Any]", *args: Any) -> None:
    """Send a task; if the broker is down, only log it, as the sweeper will find the row."""
    try:
        task.delay(*args)
    except (OperationalError, OSError) as error:
        log.warning("broker unavailable, %s%s is left to the sweeper: %s", task.name, args, error)


def wake_after_commit(task: "Task[..., Any]", *args: int) -> None:
    """`wake` once the transaction has committed, so that workers can see the row."""
    transaction.on_commit(partial(wake, task, *args))
