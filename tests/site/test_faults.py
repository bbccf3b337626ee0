"""Whatever an endpoint does to us: every row ends in a state that has a name, and the ledger is the truth."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from evaluation.models import Judgment, Response, Run
from evaluation.runs import services as runs_services
from evaluation.runs import work
from generation.batches import services as batches_services
from generation.llm import errors
from generation.llm.simulator.faults import FaultKind
from generation.models import Batch, Call, Draft, Sample, SampleVersion
from generation.models.jobs import Job
from generation.models.work import Work
from tests.engine import (
    bare_release,
    conversations_file,
    endpoint,
    imported,
    launched,
    launched_run,
    models,
    no_long_waits,
    served,
    simulated,
)

__all__ = ["models", "no_long_waits"]
pytestmark = pytest.mark.django_db
Status = Work.Status
NAMED = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.LLMError)}
IN_THE_LEDGER = {
    FaultKind.RATE_LIMITED: "RateLimited",
    FaultKind.SERVER_ERROR: "ServerError",
    FaultKind.TIMEOUT: "TimedOut",
    FaultKind.CUT: "ConnectionCut",
}
DOWN = set(IN_THE_LEDGER)  # where nothing else is ever answered
matrix = pytest.mark.parametrize("fault", [*FaultKind])
passing = pytest.mark.parametrize("share", [0.3, 1.0], ids=["passing", "lasting"])


def patience(fault: FaultKind, share: float) -> float:
    """Seconds for an answer: the fewer the sooner a timeout is over, but a real answer must come in time."""
    if fault is not FaultKind.TIMEOUT:
        return 10
    return 0.8 if share < 1 else 0.2


def check_ledger(job: Job, url: str, fault: FaultKind, share: float) -> None:
    """One line for each request that the server itself counted, under the error's own name."""
    lines = Call.objects.filter(job=job)
    attempts = lines.filter(hit_of=None)
    assert served(url)["requests"] == attempts.count() == job.calls
    assert job.failed == attempts.exclude(error="").count()
    assert job.hits == lines.exclude(hit_of=None).count()
    assert set(attempts.values_list("error", flat=True)) <= {"", IN_THE_LEDGER.get(fault, "")}
    if fault in IN_THE_LEDGER:
        assert attempts.filter(error=IN_THE_LEDGER[fault]).exists(), "it did strike"


def check_rows(rows: Any) -> Counter[str]:
    found = Counter(rows.values_list("status", flat=True))
    assert not found[Status.RUNNING]
    assert set(rows.filter(status=Status.FAILED).values_list("error", flat=True)) <= NAMED | {runs_services.NO_RESPONSE}
    return found


def check_job(job: Job, found: Counter[str]) -> None:
    if found[Status.QUEUED]:
        assert (job.status, job.paused_because) == (Job.Status.PAUSED, "EndpointDown"), "and it says why"
    else:
        assert job.status == Job.Status.FINISHED


@matrix
@passing
def test_generation(tmp_path: Path, fault: FaultKind, share: float) -> None:
    source = imported(conversations_file(tmp_path / "own.jsonl", 8))
    with simulated(f"{fault}@{share}") as url:
        batch: Batch = launched(source, endpoint(url, timeout=patience(fault, share), concurrency=4))
        batches_services.work_on_batch(batch.pk)
        batch.refresh_from_db()
        check_ledger(batch, url, fault, share)
    found = check_rows(Draft.objects.filter(batch=batch))
    check_job(batch, found)
    assert sum(found.values()) == 8
    assert Sample.objects.count() == SampleVersion.objects.count() == found[Status.DONE]
    if share == 1.0:
        assert not found[Status.DONE]
        assert (batch.status == Batch.Status.PAUSED) == (fault in DOWN)
    else:
        assert found[Status.DONE]


@matrix
@passing
@pytest.mark.parametrize("judging", Run.Judging.values)
def test_evaluation(fault: FaultKind, share: float, judging: str) -> None:
    release = bare_release(*[("dialogue", [["A1"], ["C2"]]), ("report", [["A1"], ["A3"]])] * 3)
    with simulated(f"{fault}@{share}") as url:
        for model in ("sim-average", "sim-judge"):
            endpoint(url, model, timeout=patience(fault, share), concurrency=4)
        run = launched_run(release, url, "sim-average", judging=judging)
        work.work_on_run(run.pk)
        run.refresh_from_db()
        check_ledger(run, url, fault, share)
    responses = check_rows(Response.objects.filter(run=run))
    judgments = check_rows(Judgment.objects.filter(run=run))
    check_job(run, responses + judgments)
    assert sum(responses.values()) == 6
    said = responses[Status.DONE] + responses[Status.FAILED]
    assert sum(judgments.values()) == 2 * said, "each that has an end has its judgments"
    assert judgments[Status.DONE] == Judgment.objects.exclude(verdict="").count()
    for judgment in Judgment.objects.filter(status=Status.FAILED):
        assert not judgment.verdict, "unjudged, never 'not met'"
    assert not Call.objects.filter(error="", hit_of=F("pk")).exists()
    if share == 1.0 and fault in DOWN:
        assert run.status == Run.Status.PAUSED
        assert not responses[Status.DONE]
