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
KEPT = 3600  # seconds in which an answer waits to be read
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
    with task.app.connection_for_write() as broker:
        of_the_transport: Any = broker.connection_errors  # such as those of Redis' client
        try:
            with broker.channel() as channel:
                return int(queue(channel).queue_declare(passive=False).message_count)
        except (*of_the_transport, OperationalError, OSError) as error:
            log.warning("broker unavailable, its messages are not counted: %s", error)
            return 0


def wake_after_commit(task: "Task[..., Any] | str", *args: int) -> None:
    """`wake` once the transaction has committed, so that workers can see the row.

    Services, which tasks call, name the task by its dotted path.
    """

    def wake_named() -> None:
        if isinstance(task, str):
            wake(import_string(task), *args)
        else:
            wake(task, *args)

    transaction.on_commit(wake_named)


def ask_worker(task: "Task[..., Any]", *args: Any, seconds: float) -> Any:
    """What a task `answer`s within this time, for somebody who waits.

    Only workers have the keys of endpoints. Without Redis, web and worker share one environment,
    and the task runs here. Raises NoWorker, and what the task refuses.
    """
    key = send(task, *args, seconds=seconds, here=not settings.ENV.redis_url)
    end = time.monotonic() + seconds
    while not is_answered(key):
        if time.monotonic() > end:
            raise NoWorker
        time.sleep(EVERY)
    try:
        return read_answer(key)
    finally:
        cache.delete(key)


def send(task: "Task[..., Any]", *args: Any, seconds: float, here: bool) -> str:
    """Have a task run that `answer`s; returns the key of its answer.

    `here`: in this process, which then waits for it. Raises NoWorker if the broker is down.
    """
    from kombu.exceptions import OperationalError

    import_module(settings.MHB_CELERY)
    key, language = f"answer:{uuid.uuid4()}", translation.get_language()
    if here:
        task.run(key, language, *args)
        return key
    try:
        task.apply_async((key, language, *args), expires=seconds)
    except (OperationalError, OSError) as error:
        raise NoWorker from error
    return key


def is_answered(key: str) -> bool:
    """Whether a task has answered under this key, and its answer is still kept."""
    return cache.get(key) is not None


def read_answer(key: str) -> Any:
    """The answer under a key that `is_answered`. Raises what the task refused."""
    answered = cache.get(key)
    if answered is None:
        raise NoWorker
    if refusal := answered["refusal"]:
        kind, detail = refusal
        raise kind(detail)
    return answered["answer"]


def answer(key: str, language: str, work: Callable[[], Any]) -> None:
    """Keep what `work` returns or refuses, in the words of that language, for who asked.

    A message that is delivered again, because its worker died, is not worked on again: what it asks
    for may have been paid.
    """
    if not cache.add(f"{key}:begun", True, KEPT):
        return
    answered: dict[str, Any] = {"answer": None, "refusal": None}
    with translation.override(language):
        try:
            answered["answer"] = work()
        except ShownError as error:
            answered["refusal"] = type(error), error.detail
    cache.set(key, answered, KEPT)
