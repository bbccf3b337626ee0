"""The Celery application. A task is one call of a service; the database says what there is to do."""

import gc
import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
app = Celery("mhb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

_stopping = threading.Event()


@worker_ready.connect
def _live(sender: Any, **_: Any) -> None:
    """Say every few seconds that this worker lives, so that commands know whether anybody will do the work."""
    gc.collect()
    gc.freeze()  # what is loaded by now stays for good, as in wsgi.py
    threading.Thread(target=_beat, args=(str(sender.hostname),), daemon=True).start()


def _beat(name: str) -> None:
    from django.db import InterfaceError, OperationalError, connection

    from generation.engine.worker_beats import BEAT, record_beat, remove_beat

    while True:
        try:
            record_beat(name)
        except (InterfaceError, OperationalError):
            connection.close()  # the database is away: a fresh connection next time
        if _stopping.wait(BEAT.total_seconds()):
            remove_beat(name)
            return


@worker_shutting_down.connect
def _wind_up(**_: Any) -> None:
    """Celery waits for tasks that are under way, and a lane is one: tell it to end with what it has in flight."""
    from generation.engine.worker_lane import ENDING

    ENDING.set()


@worker_shutdown.connect
def _stop(**_: Any) -> None:
    _stopping.set()
