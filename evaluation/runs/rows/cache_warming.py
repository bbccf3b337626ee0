"""Lets a worker compute the reports of large runs as soon as they finish, before anyone opens them.

Runs know nothing of reports, so reports register their functions here. The mark that a run is warm
is cached under the same conditions as its numbers: after a kill, a change or a new version the run
is found and computed again.
"""

from collections.abc import Callable

from django.core.cache import cache

from evaluation.models import Run
from evaluation.runs.rows import result_cache
from review import registrations

LARGE_RUN = 20_000  # judgments; below, the numbers take a tenth of a second
RETRY_AFTER = 600  # seconds; a computation that has not ended by then is started again
SWEEP_LIMIT = 100  # a sweep checks only this many of the runs that finished last

_warmers: list[Callable[[Run], object]] = []


def register(warmer: Callable[[Run], object]) -> None:
    """Register a function to call for each large run. Call this in `registered.py`."""
    _warmers.append(warmer)


def runs_to_warm() -> list[int]:
    """The ids of large finished runs that no worker has computed or is computing."""
    finished = Run.objects.filter(status=Run.Status.FINISHED, finished_at__isnull=False, rubrics_total__gte=LARGE_RUN)
    keys = {_key(run): run.pk for run in finished.order_by("-finished_at")[:SWEEP_LIMIT]}
    known = {}
    if keys:
        known = cache.get_many(keys)
    return [pk for key, pk in keys.items() if key not in known]


def warm(pk: int) -> None:
    """Compute and cache what the pages of a run show, if it is in `runs_to_warm`."""
    run = Run.objects.select_related("release", "judge").filter(pk=pk, rubrics_total__gte=LARGE_RUN).first()
    key = ""
    if run:
        key = _key(run)
    if run is None or not key or not cache.add(key, False, RETRY_AFTER):
        return
    registrations.load()
    for warmer in _warmers:
        warmer(run)
    cache.set(key, True, result_cache.LIFETIME)


def _key(run: Run) -> str:
    return result_cache.key_of(run, "ahead")
