"""Waking the workers when a row is ready for them, and asking them for what only they can do."""

import logging
import time
import uuid
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.utils import translation
from django.utils.module_loading import import_string

from review.errors import NoWorker, ShownError

if TYPE_CHECKING:
    from celery import Task

EVERY = 0.2  # seconds between two looks for an answer
KEPT = 300  # seconds in which an answer waits to be read
log = logging.getLogger(__name__)


def wake(task: "Task[..., Any]", *args: Any) -> None:
    """Send a task; if the broker is down, only log it, as the sweeper will find the row."""
    from kombu.exceptions import OperationalError  # only by who sends a task: commands start faster without

    import_module(settings.MHB_CELERY)
    try:
        task.delay(*args)
    except (OperationalError, OSError) as error:
        log.warning("broker unavailable, %s%s is left to the sweeper: %s", task.name, args, error)


def waiting_messages(task: "Task[..., Any]") -> int:
    """How many messages wait in the queue of a task; 0 if the broker is down."""
    from kombu.exceptions import OperationalError

    import_module(settings.MHB_CELERY)
    queue = task.app.amqp.router.route({}, task.name)["queue"]
    try:
        with task.app.connection_for_write() as broker, broker.channel() as channel:
            return int(queue(channel).queue_declare(passive=False).message_count)
    except (OperationalError, OSError) as error:
        log.warning("broker unavailable, its messages are not counted: %s", error)
        return 0


def wake_after_commit(task: "Task[..., Any] | str", *args: int) -> None:
    """`wake` once the transaction has committed, so that workers can see the row.

    Services, which tasks call, name the task by its dotted path.
    """
    transaction.on_commit(lambda: wake(import_string(task) if isinstance(task, str) else task, *args))


def ask_worker(task: "Task[..., Any]", *args: Any, seconds: float) -> Any:
    """What a task `answer`s within this time, for somebody who waits.

    Only workers have the keys of endpoints. Without Redis, web and worker share one environment,
    and the task runs here. Raises NoWorker, and what the task refuses.
    """
    from kombu.exceptions import OperationalError

    import_module(settings.MHB_CELERY)
    key, language = f"answer:{uuid.uuid4()}", translation.get_language()
    if settings.ENV.redis_url:
        try:
            task.apply_async((key, language, *args), expires=seconds)
        except (OperationalError, OSError) as error:
            raise NoWorker from error
    else:
        task.run(key, language, *args)
    end = time.monotonic() + seconds
    while (answered := cache.get(key)) is None:
        if time.monotonic() > end:
            raise NoWorker
        time.sleep(EVERY)
    cache.delete(key)
    if refusal := answered["refusal"]:
        kind, detail = refusal
        raise kind(detail)
    return answered["answer"]


def answer(key: str, language: str, work: Callable[[], Any]) -> None:
    """Keep what `work` returns or refuses, in the words of that language, for who asked."""
    answered: dict[str, Any] = {"answer": None, "refusal": None}
    with translation.override(language):
        try:
            answered["answer"] = work()
        except ShownError as error:
            answered["refusal"] = type(error), error.detail
    cache.set(key, answered, KEPT)
