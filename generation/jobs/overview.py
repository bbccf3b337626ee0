"""Panels of the overview: jobs in progress, jobs and endpoints that need attention. Read only."""

from collections.abc import Mapping
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from generation.jobs import kinds
from generation.jobs.kinds import JobKind
from generation.jobs.live_status import live_workers
from generation.models import Draft, EndpointDay, EndpointState, Job

NEARLY_SPENT = Decimal("0.9")  # of a budget
SHOWN = 10
WEEK = 7


def jobs_needing_attention(_shown: object) -> Mapping[str, Any]:
    """Jobs that are paused or have nearly spent their budget, oldest first: one query per kind.

    Each comes with its title, its URL, and whether the cost budget is the one nearly spent.
    """
    nearly_spent = Q(cost__gte=F("budget_money") * NEARLY_SPENT) | Q(calls__gte=F("budget_calls") * NEARLY_SPENT)
    needs_attention = Q(status=Job.Status.PAUSED) | Q(nearly_spent, status=Job.Status.RUNNING)
    jobs = []
    for kind in kinds.all_kinds():
        for job in kind.jobs().filter(needs_attention).order_by("pk")[:SHOWN]:
            is_money_spent = job.budget_money is not None and job.cost >= job.budget_money * NEARLY_SPENT
            jobs.append((job, *_title_and_url(kind, job), is_money_spent))
    return {"jobs": jobs}


def jobs_in_progress(_shown: object) -> Mapping[str, Any]:
    """The jobs that have not ended, newest first: one query per kind."""
    not_over = Q(status__in=[Job.Status.RUNNING, Job.Status.PAUSED])
    jobs = []
    for kind in kinds.all_kinds():
        for job in kind.jobs_with_status().filter(not_over).order_by("-pk")[:SHOWN]:
            jobs.append((job, *_title_and_url(kind, job), kind.progress(job), kind.live(job)))
    return {"jobs": jobs}


def _title_and_url(kind: JobKind[Any], job: Job) -> tuple[str, str]:
    return kind.title(job), kind.address("", job.pk)


def problems(_shown: object) -> Mapping[str, Any]:
    """Failing endpoints, batches with stopped drafts, whether no worker runs: three queries."""
    failing = EndpointState.objects.filter(
        Q(down_since__isnull=False) | Q(openings__gt=0, blocked_until__gt=timezone.now())
    )
    stopped = Draft.objects.filter(gate=Draft.Gate.STOPPED).order_by("batch").values("batch").annotate(n=Count("pk"))
    return {
        "failing": failing.select_related("endpoint").order_by("endpoint__name")[:SHOWN],
        "stopped": stopped[:SHOWN],
        "idle": not live_workers(runs_lanes=True).exists(),
    }


def cost(_shown: object) -> Mapping[str, Any]:
    """The cost of calls on the last seven days (UTC), including today."""
    first = timezone.now().astimezone(UTC).date() - timedelta(days=WEEK - 1)
    return {"week": EndpointDay.objects.filter(day__gte=first).aggregate(n=Sum("cost"))["n"] or Decimal(0)}
