"""Work in progress: jobs and imports in every state, some with a known remaining time."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from evaluation.models import Response, Run
from evaluation.runs import services as runs_services
from evaluation.runs.settings import RunSettings
from generation.engine.task_queue import take
from generation.jobs import life_cycle
from generation.jobs import services as jobs_services
from generation.models import (
    Batch,
    BatchRole,
    Call,
    Comparison,
    Endpoint,
    EndpointState,
    Import,
    ImportStatus,
    JobError,
    Lane,
    ProviderBatch,
    Release,
    Source,
    WorkerBeat,
)
from generation.models.jobs import Job
from generation.models.work import Work
from review.models import User
from tests.engine import drafts, endpoint

JOB_STATES = ("running", "resting", "paused", "spent", "failed", "finished", "cancelled")
UNCLAIMED: dict[str, Any] = {"token": None, "lease_until": None}
MODELS = "http://models.example/v1"


def put_in_progress(job: Job, target: Endpoint) -> None:
    """Give the job a lane, a finished row and a measured rate: its remaining time is known.

    The endpoint asked to wait, which a rate that goes on allows for; no circuit breaker is open.
    """
    now, model = timezone.now(), type(job)
    rows: Any = job.drafts if isinstance(job, Batch) else job.responses  # type: ignore[attr-defined]
    first, second, *_ = rows.filter(status=Work.Status.QUEUED).order_by("pk")
    outcome = {"outcome": "answered"} if isinstance(job, Run) else {}
    rows.filter(pk=first.pk).update(status=Work.Status.DONE, **outcome)
    assert take(rows.filter(pk=second.pk).order_by("pk"), 1)
    model._default_manager.filter(pk=job.pk).update(
        calls=4, hits=1, failed=1, cost=Decimal("0.4"), since_at=now - timedelta(minutes=2), then_at=now
    )
    JobError.objects.create(job=job, error="ServerError", calls=1)
    Lane.objects.create(
        job=job, worker="one:1", until=now + timedelta(hours=1), in_flight=2, holds={str(target.pk): [4, 3, 2]}, started_at=now
    )  # fmt: skip
    EndpointState.objects.get_or_create(
        endpoint=target, defaults={"blocked_until": now + timedelta(hours=1), "error": "RateLimited"}
    )
    WorkerBeat.objects.get_or_create(name="one:1", defaults={"seen_at": now})


class InProgress:
    """Primary keys of a batch and a run in each of `JOB_STATES`, and an import in each status.

    `admin` launched all of them.
    """

    def __init__(self, admin: User, release: Release) -> None:
        self.admin, self.release = admin, release
        self.generator, self.judge = endpoint(MODELS, "busy"), endpoint(MODELS, "busy-judge", batches=True)
        self.batches = {state: self._job_in(state, self._batch) for state in JOB_STATES}
        self.runs = {state: self._job_in(state, self._run) for state in JOB_STATES}
        self.imports = {status.value: self._import(status) for status in ImportStatus}
        self.comparison = self._comparison()

    def _batch(self, name: str) -> Batch:
        batch = drafts(3, f"batch-{name}")
        Batch.objects.filter(pk=batch.pk).update(created_by=self.admin)
        BatchRole.objects.create(batch=batch, role="generator", endpoint=self.generator)
        return batch

    def _run(self, _name: str) -> Run:
        return runs_services.launch_run(
            RunSettings(release=self.release, endpoints=[self.generator, self.judge], judge=self.judge),
            actor=self.admin,
        )

    def _job_in(self, state: str, make: Callable[[str], Job]) -> int:
        job = make(state)
        pk, model = job.pk, type(job)
        put_in_progress(job, self.generator)
        if isinstance(job, Run):
            self._provider_batch(job)
        rows: Any = Batch.objects.get(pk=pk).drafts if isinstance(job, Batch) else Response.objects.filter(run=pk)

        def outcome_field(outcome: str) -> dict[str, str]:
            return {"outcome": outcome} if isinstance(job, Run) else {}

        match state:
            case "resting":
                life_cycle.rest(pk, timezone.now() + timedelta(hours=1))
            case "paused":
                life_cycle.pause(pk, because="KeyMissing", detail="Variable: OWN_KEY.")
            case "spent":
                life_cycle.change_limits(pk, budget_money=Decimal("0.4"), budget_calls=4)
                life_cycle.pause(pk, because="BudgetSpent")
            case "failed":
                rows.update(
                    status=Work.Status.FAILED,
                    error="BrokenReply",
                    detail="Not JSON.",
                    **UNCLAIMED,
                    **outcome_field("failed"),
                )
                self._failed_call(model._default_manager.get(pk=pk), rows.first())
            case "finished":
                rows.update(status=Work.Status.DONE, **UNCLAIMED, **outcome_field("answered"))
            case "cancelled":
                jobs_services.cancel(pk)
        if state in ("failed", "finished"):
            life_cycle.settle(model._default_manager.get(pk=pk), is_open=False)
        return int(pk)

    def _failed_call(self, job: Job, row: Any) -> None:
        Call.objects.create(
            job=job, subject=f"{row._meta.model_name}:{row.pk}", endpoint=self.generator, model="busy",
            seconds=1.0, attempt=1, error="BrokenReply", started_at=timezone.now(),
        )  # fmt: skip

    def _provider_batch(self, run: Run) -> None:
        ProviderBatch.objects.create(
            job=run,
            endpoint=self.judge,
            lines_count=3,
            remote_status="in_progress",
            next_at=timezone.now(),
            created_at=timezone.now(),
        )

    def _import(self, status: ImportStatus) -> int:
        run = Import.objects.create(
            source=Source.objects.get(name="batch-running"), file_name="own.jsonl", path="own.jsonl", layout="jsonl",
            created_by=self.admin, created_at=timezone.now(),
        )  # fmt: skip
        rows = Import.objects.filter(pk=run.pk)
        if status == ImportStatus.RUNNING:
            assert take(rows.order_by("pk"), 1)
        else:
            rows.update(status=status, error="WrongFormat" if status == ImportStatus.FAILED else "")
        return run.pk

    def _comparison(self) -> int:
        """A comparison of two batches, of which one is running and one paused."""
        pair = Comparison.objects.create(
            benchmark="mhb", source=Source.objects.get(name="batch-running"), created_at=timezone.now()
        )
        for arm, state in (("A", "running"), ("B", "paused")):
            Batch.objects.filter(pk=self.batches[state]).update(comparison=pair, arm=arm)
        return pair.pk
