"""Heartbeats of worker processes and of the sweeper."""

import os
import socket
from datetime import timedelta
from functools import cache
from uuid import uuid4

from django.conf import settings
from django.utils import timezone

from generation.models import WorkerBeat

BEAT = timedelta(seconds=5)
FORGOTTEN_AFTER = timedelta(hours=1)  # the beat of a process that was killed


def process_name() -> str:
    """The name of this process, as in `Lane.worker`: no other process has it, now or later."""
    return _name_of(os.getpid())


@cache
def _name_of(pid: int) -> str:
    """Containers can share a host name, and each of them counts its processes from 1."""
    return f"{socket.gethostname()[:150]}:{pid}:{uuid4().hex[:8]}"


def record_beat(name: str, *, runs_lanes: bool = True, runs_tasks: bool = True) -> None:
    """Record the heartbeat of a process; called every `BEAT`."""
    now = timezone.now()
    WorkerBeat.objects.update_or_create(
        name=name, defaults={"seen_at": now, "runs_lanes": runs_lanes, "runs_tasks": runs_tasks}
    )
    WorkerBeat.objects.filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
    if settings.MHB_ALIVE_FILE:
        settings.MHB_ALIVE_FILE.touch()  # for the health check of its container


def remove_beat(name: str) -> None:
    """Remove the heartbeat of a worker that shuts down."""
    WorkerBeat.objects.filter(name=name).delete()
