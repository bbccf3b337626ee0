"""Watches what can be told without reading while a batch runs, and stops it by setting."""

from generation import errors
from generation.jobs import life_cycle
from generation.models import Batch, Job, ProbeWork
from generation.probes import queries, services
from generation.probes.reading import batch_versions, has_labelled_answers

WATCHED_FROM = 50  # samples: from so many pairs on, what models always write can be told
GROWTH = 1.2  # times the samples of the last probing, from which a batch is probed again
STOPPED = "stopped"  # in the result of a probing that stopped its batch
STOP_SETTING = "stop_when_told"  # of a recipe's preset: an accuracy between 0 and 1; null: never


def watch() -> list[int]:
    """Have the running batches probed that have grown enough, and stop those that tell.

    Returns the batches that were stopped.
    """
    stopped = []
    for batch in Batch.objects.filter(status=Job.Status.RUNNING):
        if not has_labelled_answers(batch.benchmark):
            continue
        latest = queries.latest(batch)
        if latest is not None and tells_too_much(batch, latest):
            _stop(batch, latest)
            stopped.append(batch.pk)
        elif is_due(batch, latest):
            services.start(batch)
    return stopped


def is_due(batch: Batch, latest: ProbeWork | None) -> bool:
    """Whether a batch has so many more samples than when it was last probed."""
    if queries.unfinished(batch) is not None or queries.failed(batch) is not None:
        return False
    samples = batch_versions(batch).count()
    probed = 0
    if latest is not None:
        probed = int(latest.result["cases"])
    return samples >= max(WATCHED_FROM, GROWTH * probed)


def tells_too_much(batch: Batch, latest: ProbeWork) -> bool:
    """Whether the accuracy of a probe is surely above the batch's limit.

    A result stops a batch once: the person who resumes it has seen it. The next may stop it again.
    """
    limit = batch.settings.get(STOP_SETTING)
    if limit is None or latest.result.get(STOPPED):
        return False
    return any(probe["tells"] and probe["low"] > limit for probe in latest.result["probes"])


def _stop(batch: Batch, latest: ProbeWork) -> None:
    ProbeWork.objects.filter(pk=latest.pk).update(result={**latest.result, STOPPED: True})
    told = errors.ToldWithoutReading(_detail(latest))
    life_cycle.pause_unless_over(batch.pk, type(told).__name__, str(told))


def _detail(latest: ProbeWork) -> str:
    result = latest.result
    best = next(probe for probe in result["probes"] if probe["name"] == result["strongest"])
    return (
        f"{best['name']}: {best['accuracy']:.3f} (95% interval {best['low']:.3f} to {best['high']:.3f}) of"
        f" {result['answers']} answers"
    )
