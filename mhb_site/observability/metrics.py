"""Metrics for Prometheus, read from database, broker and disk at every scrape.

Names hold no account, case or text; labels are benchmarks, endpoints, kinds, statuses and classes
of errors.
"""

import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Min, Sum
from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from evaluation.interchange.provenance.software import software
from generation.jobs import kinds
from generation.models import EndpointState, Import, Job, JobError, Lane, WorkerBeat
from generation.models.work import Work
from generation.tasks import run_lane, send_messages
from mhb_site.backup.services import last_backup
from review.common import site_pause, waking
from review.models import Assignment, Case, ChainHead

GOING_ON = (Job.Status.RUNNING, Job.Status.PAUSED)
QUEUE_NAMES = {run_lane.name: "mhb-lanes", send_messages.name: "mhb"}
WAITING = (Work.Status.QUEUED, Work.Status.RUNNING)


class SiteCollector(Collector):
    """What the database knows. Statements count rows in progress or sum the jobs' own totals."""

    def collect(self) -> Iterator[Metric]:
        yield from _work()
        yield from _calls()
        yield from _reviews()
        yield from _processes()
        yield from _turns()
        yield from _endpoints()


class Collected(Collector):
    """Metrics that were collected before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


class ProcessCollector(Collector):
    """What a process knows without the database. `counts_messages`: only if the broker answers."""

    def __init__(self, *, counts_messages: bool) -> None:
        self._counts_messages = counts_messages

    def collect(self) -> Iterator[Metric]:
        yield _family("mhb_info", "Version of MHB.", ["version"], [((software()["mhb"],), 1)])
        disk = shutil.disk_usage(settings.ENV.data_dir)
        yield _family("mhb_disk_free_bytes", "Free space of the data folder.", [], [((), disk.free)])
        yield _family("mhb_disk_size_bytes", "Size of the disk of the data folder.", [], [((), disk.total)])
        backup = last_backup()
        if backup is not None:
            age = _age(backup, timezone.now())
            yield _family("mhb_backup_age_seconds", "Age of the newest backup.", [], [((), age)])
        if self._counts_messages:
            queues = (run_lane, send_messages)
            messages = [((QUEUE_NAMES[task.name],), waking.waiting_messages(task)) for task in queues]
            yield _family("mhb_queue_messages", "Messages that wait for a worker.", ["queue"], messages)
        pool = getattr(connection, "pool", None)
        if pool is not None:
            stats = pool.get_stats()
            sizes = [((state,), stats.get(f"pool_{state}", 0)) for state in ("size", "available", "max")]
            yield _family("mhb_database_pool", "Connections of the process that answers.", ["state"], sizes)
            waiting = stats.get("requests_waiting", 0)
            yield _family("mhb_database_pool_waiting", "Its threads that wait for one.", [], [((), waiting)])


def _work() -> Iterator[Metric]:
    depth, ages = [], []
    now = timezone.now()
    for kind in kinds.all_kinds():
        for name, model in kind.rows.items():
            rows = model._default_manager.filter(status__in=WAITING)
            going_on = rows.filter(**{f"{kind.name}__status__in": GOING_ON})  # rows of cancelled jobs stay queued
            counts = dict(going_on.values_list("status").annotate(Count("pk")).order_by())
            depth += [((kind.name, name, status.value), counts.get(status, 0)) for status in WAITING]
        running = kind.model._default_manager.filter(status=Job.Status.RUNNING)
        ages.append(((kind.name,), _age(running.aggregate(first=Min("created_at"))["first"], now)))
    yield _family("mhb_work_rows", "Rows of work by kind of job and status.", ["job", "rows", "status"], depth)
    yield _family("mhb_oldest_running_job_seconds", "Age of the oldest running job.", ["job"], ages)
    jobs = Job.objects.values_list("kind", "status").annotate(Count("pk")).order_by()
    yield _counted("mhb_jobs", "Jobs by kind and status.", ["job", "status"], jobs)
    imports = Import.objects.filter(status__in=WAITING).values_list("status").annotate(Count("pk")).order_by()
    yield _counted("mhb_imports", "Imports that wait or run.", ["status"], imports)


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
    yield _counted("mhb_call_errors", "Failed attempts by class.", ["error"], errors, CounterMetricFamily)


def _reviews() -> Iterator[Metric]:
    now = timezone.now()
    waiting = (
        Assignment.objects.filter(hold__in=[Assignment.Hold.OPEN, Assignment.Hold.HELD])
        .values_list("case__benchmark", "role", "hold")
        .annotate(Count("pk"), Min("case__opened_at"))
        .order_by()
    )
    labels, rows, ages = ["benchmark", "role", "hold"], [], []
    for benchmark, role, hold, count, first in waiting:
        rows.append((benchmark, role, hold, count))
        ages.append((benchmark, role, hold, _age(first, now)))
    yield _counted("mhb_reviews", "Reviews that wait for a physician or are in work.", labels, rows)
    yield _counted("mhb_oldest_case_seconds", "Age of the oldest case among them.", labels, ages)
    cases = Case.objects.values_list("benchmark", "state").annotate(Count("pk")).order_by()
    yield _counted("mhb_cases", "Cases by state.", ["benchmark", "state"], cases)
    heads = ChainHead.objects.values_list("name", "sequence")
    yield _counted("mhb_audit_entries", "Entries of a hash chain.", ["chain"], heads)


def _processes() -> Iterator[Metric]:
    now = timezone.now()
    ages, living = [], {"lanes": 0, "tasks": 0}
    for beat in WorkerBeat.objects.order_by("name"):
        process = "worker"
        if beat.name == WorkerBeat.SWEEPER:
            process = "sweeper"
        ages.append(((process, beat.name), _age(beat.seen_at, now)))
        if process == "worker" and not beat.is_lost(now):
            living["lanes"] += beat.runs_lanes
            living["tasks"] += beat.runs_tasks
    yield _family("mhb_beat_age_seconds", "Seconds since a process's last beat.", ["process", "name"], ages)
    yield _counted("mhb_workers", "Living workers by what they run.", ["runs"], living.items())
    lanes, in_flight = [], []
    live = Lane.objects.filter(until__gt=now).values_list("job__kind")
    for kind, count, calls in live.annotate(Count("pk"), Sum("in_flight")).order_by():
        lanes.append((kind, count))
        in_flight.append((kind, calls))
    yield _counted("mhb_lanes", "Live lanes.", ["job"], lanes)
    yield _counted("mhb_calls_in_flight", "Calls that lanes may have started.", ["job"], in_flight)


def _turns() -> Iterator[Metric]:
    live = Lane.objects.filter(until__gt=timezone.now()).values("job")
    since = []
    for kind in kinds.all_kinds():
        since += [job.waits_since for job in kind.waiting().exclude(pk__in=live)]
    now = timezone.now()
    longest = (now - min(since, default=now)).total_seconds()
    yield _family("mhb_jobs_without_lane", "Jobs that wait for a worker.", [], [((), len(since))])
    yield _family("mhb_lane_wait_seconds", "The longest wait among them.", [], [((), longest)])
    paused = int(site_pause.paused_since() is not None)
    yield _family("mhb_site_paused", "Whether a restored site waits to be resumed.", [], [((), paused)])


def _endpoints() -> Iterator[Metric]:
    now = timezone.now()
    rows = []
    for state in EndpointState.objects.select_related("endpoint").order_by("endpoint"):
        is_blocked = state.blocked_until is not None and state.blocked_until > now
        current = {
            "down": state.down_since is not None,
            "paused": is_blocked and not state.openings,
            "probing": bool(state.openings) and state.down_since is None,
        }
        rows += [((state.endpoint.name, name), int(value)) for name, value in current.items()]
    text = "Whether an endpoint is down, paused at its own request, or probed by the circuit breaker."
    yield _family("mhb_endpoint", text, ["endpoint", "state"], rows)


def _age(since: datetime | None, now: datetime) -> float:
    if since:
        return (now - since).total_seconds()
    return 0.0


def _counted(
    name: str,
    text: str,
    labels: list[str],
    rows: Iterable[tuple[Any, ...]],
    kind: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """A family of rows as the database returns them: the values of the labels, then the number."""
    return _family(name, text, labels, [(tuple(values), number) for *values, number in rows], kind)


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
