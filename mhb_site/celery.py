"""The Celery application. A task is one call of a service; the database says what there is to do."""

import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
app = Celery("mhb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

_stopping = threading.Event()


@worker_ready.connect
def _live(sender: Any, **_: Any) -> None:
    """Say every few seconds that this worker lives, so that commands know whether anybody will do the work."""
    threading.Thread(target=_beat, args=(str(sender.hostname),), daemon=True).start()


def _beat(name: str) -> None:
    from django.db import InterfaceError, OperationalError, connection

    from generation.services import BEAT, worker_alive, worker_gone

    while True:
        try:
            worker_alive(name)
        except (InterfaceError, OperationalError):
            connection.close()  # the database is away: a fresh connection next time
        if _stopping.wait(BEAT.total_seconds()):
            worker_gone(name)
            return


@worker_shutdown.connect
def _stop(**_: Any) -> None:
    _stopping.set()
