"""The Celery application. A task is one call of a service; pending work is in the database."""

import gc
import importlib
import logging
import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_ready, worker_shutdown, worker_shutting_down
from kombu import Queue

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
app = Celery("mhb")
app.config_from_object("django.conf:settings", namespace="CELERY")
# A lane works for minutes. Short tasks must not wait for one, so lanes have workers of their own; a
# worker that names no queue takes both.
app.conf.task_queues = [Queue("mhb"), Queue("mhb-lanes")]
app.autodiscover_tasks()
app.set_default()  # else only the thread that imports this module would send tasks through it

log = logging.getLogger(__name__)
_stopping = threading.Event()


@worker_init.connect
def _wait_for_database(**_: Any) -> None:
    from mhb_site.server import startup

    startup.wait()


@worker_ready.connect
def _start_beats(sender: Any, **_: Any) -> None:
    """Record every few seconds that this worker is alive: commands check whether one is running."""
    from generation.engine import watchdog

    watchdog.start()
    queues = sender.app.amqp.queues.consume_from
    runs = {"runs_lanes": "mhb-lanes" in queues, "runs_tasks": "mhb" in queues}
    if runs["runs_lanes"]:
        importlib.import_module("generation.llm.http.transport")  # so that it is frozen, too
    gc.collect()
    gc.freeze()  # everything loaded so far stays for good, as in wsgi.py
    if all(runs.values()):
        log.warning(
            "This worker takes lanes and short tasks: an import waits while all its threads are lanes (see -Q)."
        )
    threading.Thread(target=_record_beats, kwargs=runs, daemon=True).start()


def _record_beats(**runs: bool) -> None:
    from django.db import InterfaceError, OperationalError, connection

    from generation.engine.worker_beats import BEAT, process_name, record_beat, remove_beat

    while True:
        try:
            record_beat(process_name(), **runs)
        except (InterfaceError, OperationalError):
            connection.close()  # the database is unavailable: use a new connection next time
        if _stopping.wait(BEAT.total_seconds()):
            remove_beat(process_name())
            return


@worker_shutting_down.connect
def _stop_lanes(**_: Any) -> None:
    """Tell lanes to finish their calls in flight: Celery waits for tasks, and a lane is one."""
    from generation.engine.worker_lane import SHUTTING_DOWN

    SHUTTING_DOWN.set()


@worker_shutdown.connect
def _stop_beats(**_: Any) -> None:
    _stopping.set()
