"""How workers are told that a row waits for them."""

import logging
from functools import partial
from typing import Any

from celery import Task
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def wake(task: "Task[..., Any]", *args: int) -> None:
    """Send a task. A broker that is away is no error: the row says what there is to do, and the sweeper finds it."""
    try:
        task.delay(*args)
    except (OperationalError, OSError) as error:
        log.warning("broker unavailable, %s%s is left to the sweeper: %s", task.name, args, error)


def wake_after_commit(task: "Task[..., Any]", *args: int) -> None:
    """The same, once the transaction has committed and workers can see the row."""
    transaction.on_commit(partial(wake, task, *args))
