"""Has a worker count large runs when they are over, before anybody looks at them.

Runs know nothing of reports: what counts them registers here. That a run was counted is kept like its numbers, and under the
same conditions: after a kill, a change or a new version it is found again, and counted again.
"""

from collections.abc import Callable

from django.core.cache import cache

from evaluation.models import Run
from evaluation.runs.rows import result_cache

LARGE = 20_000  # judgments; below, numbers are there in a tenth of a second
AGAIN = 600  # seconds, after which a count that came to no end is begun anew
MOST = 100  # runs that a sweep looks at, the last ones that ended

_counts: list[Callable[[Run], object]] = []


def register(count: Callable[[Run], object]) -> None:
    """Have this done for each large run. Call it in `AppConfig.ready`."""
    _counts.append(count)


def uncounted() -> list[int]:
    """Large runs that are over, and of which no worker has kept the numbers or is about to."""
    over = Run.objects.filter(status=Run.Status.FINISHED, finished_at__isnull=False, rubrics_total__gte=LARGE)
    keys = {_key(run): run.pk for run in over.order_by("-finished_at")[:MOST]}
    known = cache.get_many(keys) if keys else {}
    return [pk for key, pk in keys.items() if key not in known]


def count(pk: int) -> None:
    """Work out and keep what the pages of a large run show, if it is over and nobody has done so."""
    run = Run.objects.select_related("release", "judge").filter(pk=pk, rubrics_total__gte=LARGE).first()
    key = _key(run) if run else ""
    if run is None or not key or not cache.add(key, False, AGAIN):
        return
    for each in _counts:
        each(run)
    cache.set(key, True, result_cache.DAYS)


def _key(run: Run) -> str:
    return result_cache.key_of(run, "ahead")
