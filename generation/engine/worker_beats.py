"""Heartbeats of worker processes and of the sweeper."""

from datetime import timedelta

from django.utils import timezone

from generation.models import WorkerBeat

BEAT = timedelta(seconds=5)


def record_beat(name: str) -> None:
    """Record the heartbeat of a worker; called every `BEAT`."""
    WorkerBeat.objects.update_or_create(name=name, defaults={"seen_at": timezone.now()})


def remove_beat(name: str) -> None:
    """Remove the heartbeat of a worker that shuts down."""
    WorkerBeat.objects.filter(name=name).delete()
