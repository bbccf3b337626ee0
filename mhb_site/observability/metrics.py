"""Metrics for Prometheus, read from the database at every scrape: all processes give the same.

Names hold no account, case or text; labels are benchmarks, endpoints, kinds, statuses and classes
of errors.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Sum
from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from evaluation.interchange.provenance.software import software
from generation.jobs import kinds
from generation.models import Import, Job, JobError, Lane, WorkerBeat
from generation.models.work import Work
from review.models import Assignment, Case, ChainHead

WAITING = (Work.Status.QUEUED, Work.Status.RUNNING)


class SiteCollector(Collector):
    """All metrics of the site. Statements count rows in progress or sum the jobs' own totals."""

    def collect(self) -> Iterator[Metric]:
        yield _family("mhb_info", "Version of MHB.", ["version"], [((software()["mhb"],), 1)])
        yield from _work()
        yield from _calls()
        yield from _reviews()
        yield from _processes()


def _work() -> Iterator[Metric]:
    depth, ages = [], []
    now = timezone.now()
    for kind in kinds.all_kinds():
        for name, model in kind.rows.items():
            counts = dict(
                model._default_manager.filter(status__in=WAITING).values_list("status").annotate(Count("pk")).order_by()
            )
            depth += [((kind.name, name, status.value), counts.get(status, 0)) for status in WAITING]
        running = kind.model._default_manager.filter(status=Job.Status.RUNNING)
        ages.append(((kind.name,), _age(running.aggregate(first=Min("created_at"))["first"], now)))
    yield _family("mhb_work_rows", "Rows of work by kind of job and status.", ["job", "rows", "status"], depth)
    yield _family("mhb_oldest_running_job_seconds", "Age of the oldest running job.", ["job"], ages)
    statuses = Job.objects.values_list("kind", "status").annotate(Count("pk")).order_by()
    yield _family("mhb_jobs", "Jobs by kind and status.", ["job", "status"], [((k, s), n) for k, s, n in statuses])
    imports = Import.objects.filter(status__in=WAITING).values_list("status").annotate(Count("pk")).order_by()
    yield _family("mhb_imports", "Imports that wait or run.", ["status"], [((s,), n) for s, n in imports])


def _calls() -> Iterator[Metric]:
    totals = (
        Job.objects.values_list("kind")
        .annotate(Sum("calls"), Sum("failed"), Sum("hits"), Sum("tokens_in"), Sum("tokens_out"), Sum("cost"))
        .order_by()
    )
    names = {
        "mhb_calls": "Attempts of calls.",
        "mhb_calls_failed": "Attempts that ended in an error.",
        "mhb_replies_reused": "Replies that had been paid for earlier.",
        "mhb_tokens_in": "Tokens sent.",
        "mhb_tokens_out": "Tokens received.",
        "mhb_cost": "Cost of calls, in MHB_CURRENCY.",
    }
    rows = list(totals)
    for place, (name, text) in enumerate(names.items(), 1):
        yield _family(name, text, ["job"], [((row[0],), row[place]) for row in rows], CounterMetricFamily)
    errors = JobError.objects.values_list("error").annotate(Sum("calls")).order_by()
    yield _family(
        "mhb_call_errors", "Failed attempts by class.", ["error"], [((e,), n) for e, n in errors], CounterMetricFamily
    )


def _reviews() -> Iterator[Metric]:
    now = timezone.now()
    waiting = (
        Assignment.objects.filter(hold__in=[Assignment.Hold.OPEN, Assignment.Hold.HELD])
        .values_list("case__benchmark", "role", "hold")
        .annotate(Count("pk"), Min("case__opened_at"))
        .order_by()
    )
    rows = [((benchmark, role, hold), count, first) for benchmark, role, hold, count, first in waiting]
    labels = ["benchmark", "role", "hold"]
    yield _family("mhb_reviews", "Reviews that wait for a physician or are in work.", labels, [r[:2] for r in rows])
    ages = [(labels_, _age(first, now)) for labels_, _count, first in rows]
    yield _family("mhb_oldest_case_seconds", "Age of the oldest case among them.", labels, ages)
    cases = Case.objects.values_list("benchmark", "state").annotate(Count("pk")).order_by()
    yield _family("mhb_cases", "Cases by state.", ["benchmark", "state"], [((b, s), n) for b, s, n in cases])
    heads = ChainHead.objects.values_list("name", "sequence")
    yield _family("mhb_audit_entries", "Entries of a hash chain.", ["chain"], [((name,), n) for name, n in heads])


def _processes() -> Iterator[Metric]:
    now = timezone.now()
    beats = WorkerBeat.objects.values_list("name", "seen_at")
    ages = [("sweeper" if name == WorkerBeat.SWEEPER else "worker", _age(seen, now)) for name, seen in beats]
    youngest = {what: min(age for other, age in ages if other == what) for what, _age_ in ages}
    yield _family(
        "mhb_beat_age_seconds", "Seconds since the last beat.", ["process"], [((p,), a) for p, a in youngest.items()]
    )
    lanes = (
        Lane.objects.filter(until__gt=now).values_list("job__kind").annotate(Count("pk"), Sum("in_flight")).order_by()
    )
    rows = list(lanes)
    yield _family("mhb_lanes", "Live lanes.", ["job"], [((kind,), count) for kind, count, _ in rows])
    yield _family("mhb_calls_in_flight", "Calls that lanes may have started.", ["job"], [((k,), n) for k, _, n in rows])


def _age(since: datetime | None, now: datetime) -> float:
    return (now - since).total_seconds() if since else 0.0


def _family(
    name: str,
    text: str,
    labels: list[str],
    values: Iterable[tuple[tuple[str, ...], Any]],
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    family = kind(name, text, labels=labels)
    for labelled, value in values:
        family.add_metric(list(labelled), float(value or 0))
    return family
