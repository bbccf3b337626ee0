"""What the overview shows of jobs and endpoints: those in progress, and those that need a person. Read only."""

from collections.abc import Mapping
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from generation.jobs import kinds
from generation.jobs.kinds import JobKind
from generation.models import Draft, EndpointDay, EndpointState, Job

NEAR = Decimal("0.9")  # of a budget
SHOWN = 10
WEEK = 7


def needing_jobs(_shown: object) -> Mapping[str, Any]:
    """The jobs that are paused, or running with a budget near its end, the oldest first: one query a kind.

    With each its name and address, and whether it is the money that is nearly spent.
    """
    near = Q(cost__gte=F("budget_money") * NEAR) | Q(calls__gte=F("budget_calls") * NEAR)
    wanted = Q(status=Job.Status.PAUSED) | Q(near, status=Job.Status.RUNNING)
    return {
        "jobs": [
            (job, *_named(kind, job), job.budget_money is not None and job.cost >= job.budget_money * NEAR)
            for kind in kinds.all_kinds()
            for job in kind.jobs().filter(wanted).order_by("pk")[:SHOWN]
        ]
    }


def going_jobs(_shown: object) -> Mapping[str, Any]:
    """The jobs that have not ended, the newest first: one query a kind."""
    alive = Q(status__in=[Job.Status.RUNNING, Job.Status.PAUSED])
    return {
        "jobs": [
            (job, *_named(kind, job), kind.progress(job), kind.live(job))
            for kind in kinds.all_kinds()
            for job in kind.all_watched().filter(alive).order_by("-pk")[:SHOWN]
        ]
    }


def _named(kind: JobKind[Any], job: Job) -> tuple[str, str]:
    return kind.title(job), kind.address("", job.pk)


def trouble(_shown: object) -> Mapping[str, Any]:
    """Endpoints that do not answer, and batches with stopped drafts: two queries."""
    failing = EndpointState.objects.filter(
        Q(down_since__isnull=False) | Q(openings__gt=0, blocked_until__gt=timezone.now())
    )
    stopped = Draft.objects.filter(gate=Draft.Gate.STOPPED).order_by("batch").values("batch").annotate(n=Count("pk"))
    return {
        "failing": failing.select_related("endpoint").order_by("endpoint__name")[:SHOWN],
        "stopped": stopped[:SHOWN],
    }


def cost(_shown: object) -> Mapping[str, Any]:
    """What calls cost on the last seven days (UTC), today included."""
    first = timezone.now().astimezone(UTC).date() - timedelta(days=WEEK - 1)
    return {"week": EndpointDay.objects.filter(day__gte=first).aggregate(n=Sum("cost"))["n"] or Decimal(0)}
