"""Whatever an endpoint does, every row ends in a state with a name and the ledger is correct."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from evaluation.models import Judgment, Response, Run
from evaluation.numbers.rules import NO_RESPONSE
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
    import_file,
    launch_batch,
    launch_run,
    models,
    no_long_waits,
    simulator,
    simulator_stats,
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
DOWN = set(IN_THE_LEDGER)  # an endpoint that always fails like this counts as down
each_fault = pytest.mark.parametrize("fault", [*FaultKind])
each_share = pytest.mark.parametrize("share", [0.3, 1.0], ids=["passing", "lasting"])


def call_timeout(fault: FaultKind, share: float) -> float:
    """Return the timeout of calls in seconds: short if they time out, but enough for replies."""
    if fault is not FaultKind.TIMEOUT:
        return 10
    return 0.8 if share < 1 else 0.2


def check_ledger(job: Job, url: str, fault: FaultKind, share: float) -> None:
    """Check that the ledger has a line, with the error's name, for each request of the server."""
    lines = Call.objects.filter(job=job)
    attempts = lines.filter(hit_of=None)
    assert simulator_stats(url)["requests"] == attempts.count() == job.calls
    assert job.failed == attempts.exclude(error="").count()
    assert job.hits == lines.exclude(hit_of=None).count()
    assert set(attempts.values_list("error", flat=True)) <= {"", IN_THE_LEDGER.get(fault, "")}
    if fault in IN_THE_LEDGER:
        assert attempts.filter(error=IN_THE_LEDGER[fault]).exists(), "the fault occurred"


def check_rows(rows: Any) -> Counter[str]:
    statuses = Counter(rows.values_list("status", flat=True))
    assert not statuses[Status.RUNNING]
    assert set(rows.filter(status=Status.FAILED).values_list("error", flat=True)) <= NAMED | {NO_RESPONSE}
    return statuses


def check_job(job: Job, statuses: Counter[str]) -> None:
    if statuses[Status.QUEUED]:
        assert (job.status, job.paused_because) == (Job.Status.PAUSED, "EndpointDown"), "with the reason"
    else:
        assert job.status == Job.Status.FINISHED


@each_fault
@each_share
def test_a_batch_ends_or_pauses_under_every_fault(tmp_path: Path, fault: FaultKind, share: float) -> None:
    source = import_file(conversations_file(tmp_path / "own.jsonl", 8))
    with simulator(f"{fault}@{share}") as url:
        batch: Batch = launch_batch(source, endpoint(url, timeout=call_timeout(fault, share), concurrency=4))
        batches_services.work_on_batch(batch.pk)
        batch.refresh_from_db()
        check_ledger(batch, url, fault, share)
    statuses = check_rows(Draft.objects.filter(batch=batch))
    check_job(batch, statuses)
    assert sum(statuses.values()) == 8
    assert Sample.objects.count() == SampleVersion.objects.count() == statuses[Status.DONE]
    if share == 1.0:
        assert not statuses[Status.DONE]
        assert (batch.status == Batch.Status.PAUSED) == (fault in DOWN)
    else:
        assert statuses[Status.DONE]


@each_fault
@each_share
@pytest.mark.parametrize("judging", Run.Judging.values)
def test_a_run_ends_or_pauses_under_every_fault(fault: FaultKind, share: float, judging: str) -> None:
    release = bare_release(*[("dialogue", [["A1"], ["C2"]]), ("report", [["A1"], ["A3"]])] * 3)
    with simulator(f"{fault}@{share}") as url:
        for model in ("sim-average", "sim-judge"):
            endpoint(url, model, timeout=call_timeout(fault, share), concurrency=4)
        run = launch_run(release, url, "sim-average", judging=judging)
        work.work_on_run(run.pk)
        run.refresh_from_db()
        check_ledger(run, url, fault, share)
    responses = check_rows(Response.objects.filter(run=run))
    judgments = check_rows(Judgment.objects.filter(run=run))
    check_job(run, responses + judgments)
    assert sum(responses.values()) == 6
    ended = responses[Status.DONE] + responses[Status.FAILED]
    assert sum(judgments.values()) == 2 * ended, "each response that ended has its judgments"
    assert judgments[Status.DONE] == Judgment.objects.exclude(verdict="").count()
    for judgment in Judgment.objects.filter(status=Status.FAILED):
        assert not judgment.verdict, "it counts as not judged, never as not met"
    assert not Call.objects.filter(error="", hit_of=F("pk")).exists()
    if share == 1.0 and fault in DOWN:
        assert not responses[Status.DONE]
        # A few rows end as cut off, after two time-outs each, before the endpoint counts as down.
        assert run.status == Run.Status.PAUSED or fault is FaultKind.TIMEOUT
