"""Workers' signs of life."""

from datetime import timedelta

from django.utils import timezone

from generation.models import WorkerBeat

BEAT = timedelta(seconds=5)


def record_beat(name: str) -> None:
    """A worker says that it lives; every `BEAT`."""
    WorkerBeat.objects.update_or_create(name=name, defaults={"seen_at": timezone.now()})


def remove_beat(name: str) -> None:
    """A worker says good-bye."""
    WorkerBeat.objects.filter(name=name).delete()
