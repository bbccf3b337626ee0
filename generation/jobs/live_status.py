"""The live status of a job for polled pages: read in one statement, whatever the job's size.

Totals, errors and the moments from which the rate is computed are stored with the job; rows of work
are counted by index.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypeVar, cast

from django.db import connection
from django.db.models import (
    DateTimeField,
    Exists,
    F,
    Func,
    IntegerField,
    JSONField,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.functions import JSONObject
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from generation.models import Endpoint, JobError, Lane, WorkerBeat
from generation.models.jobs import Job
from generation.models.work import Work
from review.models import SitePause
from review.rules.shown_fields import Hidden, Shown, shown

J = TypeVar("J", bound=Job)
MIN_RATE_SPAN = timedelta(seconds=5)  # of a rate


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a job or of one model of its rows.

    `total` counts all of these rows; `calls` and `cost` are those of the whole job.
    """

    queued: int
    running: int
    done: int
    dropped: int
    failed: int
    cost: Decimal
    calls: int

    @property
    @shown
    def total(self) -> int:
        return self.queued + self.running + self.done + self.dropped + self.failed

    @property
    def open(self) -> int:
        return self.queued + self.running

    @property
    def ended(self) -> int:
        return self.done + self.dropped + self.failed

    @property
    @shown
    def percent(self) -> int:
        """Whole per cent, rounded down: 100 only if everything has ended."""
        if self.total:
            return 100 * self.ended // self.total
        return 0


@dataclass(frozen=True, slots=True)
class EndpointLane:
    """A lane's use of an endpoint: its share of the concurrency and its calls in flight.

    While the endpoint is blocked, the share is no more than what is in flight.
    """

    worker: str
    job: str
    share: int
    in_flight: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The current state of an endpoint.

    `lanes`: the lanes of the given job; `others`: slots held by other jobs. `limit`: the
    concurrency that the endpoint was found to support.
    """

    name: str
    concurrency: int
    limit: int
    lanes: tuple[EndpointLane, ...]
    others: int
    blocked_until: datetime | None
    error: str
    detail: str
    openings: Hidden[int]
    down_since: datetime | None

    @property
    @shown
    def share(self) -> int:
        return sum(lane.share for lane in self.lanes)

    @property
    @shown
    def in_flight(self) -> int:
        return sum(lane.in_flight for lane in self.lanes)

    @property
    @shown
    def state(self) -> str:
        """One of ``down``, ``open``, ``waiting``, ``working`` and ``idle``.

        ``open``: paused by the circuit breaker; ``waiting``: paused at the endpoint's own request.
        """
        if self.down_since:
            return "down"
        if self.blocked_until:
            if self.openings:
                return "open"
            return "waiting"
        if self.lanes:
            return "working"
        return "idle"


@dataclass(frozen=True, slots=True)
class LaneWait:
    """A job with rows to take has had no lane for so long; the jobs `behind` have lanes."""

    lasted: timedelta
    behind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveStatus:
    """The live status of a job.

    None means unknown: nothing is measured yet, or nothing more will come.

    `rate`: calls per minute over the last minutes. `left`: the remaining time if open rows are like
    those that have ended. `projected`: the final cost if no further reply is already paid for.
    `errors`: error classes with their numbers of calls, the most frequent first. `waits`: for a
    lane, if it does.
    """

    rate: float | None
    left: Hidden[timedelta | None]
    projected: Annotated[Decimal | None, Shown(places=4)]
    errors: Hidden[tuple[tuple[str, int], ...]]
    endpoints: tuple[EndpointStatus, ...]
    worker_lives: bool
    site_paused: Hidden[bool]
    waits: Hidden[LaneWait | None] = None

    @property
    @shown
    def seconds_left(self) -> float | None:
        if self.left is None:
            return None
        return self.left.total_seconds()

    @property
    @shown
    def error_counts(self) -> dict[str, int]:
        return dict(self.errors)


class _List(Func):
    """The rows of a subquery as one JSON array."""

    function = "JSONB_AGG"
    output_field = JSONField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, function="JSON_GROUP_ARRAY", **extra)


def rows_as_json(rows: QuerySet[Any], *names: str, **paths: str) -> Subquery:
    """Columns of a query, which may refer to an outer one, as a JSON array of objects or null."""
    columns = {**{name: F(name) for name in names}, **{name: F(path) for name, path in paths.items()}}
    listed = rows.order_by().annotate(listed_=_List(JSONObject(**columns)))
    return Subquery(listed.values("listed_"), output_field=JSONField())


class _RowCount(Func):
    """The number of a job's rows in one status, with keys above `after` if it is given.

    The SQL is written out: Django needs as long to compile these counts as subqueries as for all
    the rest of a progress poll.
    """

    template = "(SELECT COUNT(*) FROM %(table)s w_ WHERE w_.%(job_key)s = %(expressions)s AND w_.status = '%(status)s')"
    arg_joiner = " AND w_.id > "
    output_field = IntegerField()


def row_count(model: type[Work], job_key: str, status: Work.Status, *, after: str = "") -> Func:
    """The number of a job's rows of work in a status.

    `job_key`: the rows' foreign key to the job. `after`: a column of the job with a row's key; only
    rows above it are counted.
    """
    table = connection.ops.quote_name(model._meta.db_table)
    return _RowCount(F("pk"), *([F(after)] if after else []), table=table, job_key=f"{job_key}_id", status=status.value)


def endpoints_listed(rows: QuerySet[Any], path: str = "endpoint__") -> Subquery:
    """The endpoints that `rows` refer to by `path`, with their state, for `endpoints_now`."""
    columns = {name: path + name for name in ("id", "name", "concurrency")}
    state_columns = ("blocked_until", "error", "detail", "openings", "down_since", "supported")
    return rows_as_json(rows, **columns, **{name: f"{path}state__{name}" for name in state_columns})


class _Moment(Func):
    """The time at which the statement is compiled, less `ago`, so that the query can be cached."""

    output_field = DateTimeField()

    def __init__(self, ago: timedelta = timedelta()) -> None:
        super().__init__(ago=ago)

    def as_sql(self, compiler: Any, connection: Any, *_given: Any, **_extra: Any) -> Any:
        now = Value(timezone.now() - self.extra["ago"], output_field=DateTimeField())
        return now.as_sql(compiler, connection)


def lanes_listed() -> Subquery:
    """All live lanes: a few for each job in progress."""
    return rows_as_json(
        Lane.objects.filter(until__gt=_Moment()), "id", "job", "worker", "holds", "started_at", kind="job__kind"
    )


def live_workers(**runs: bool) -> QuerySet[WorkerBeat]:
    """The workers with a recent heartbeat. `runs`: `runs_lanes` or `runs_tasks`."""
    recent = (_Moment(WorkerBeat.VALID), _Moment(-WorkerBeat.VALID))
    return WorkerBeat.objects.filter(seen_at__range=recent, **runs).exclude(name=WorkerBeat.SWEEPER)


def with_live_status(
    jobs: QuerySet[J],
    rows: Mapping[str, type[Work]],
    job_key: str,
    endpoints: Mapping[str, Subquery],
    *,
    tallied: Collection[str] = (),
) -> QuerySet[J]:
    """Annotate jobs with all that `progress` and `live` need: one statement, answered from indexes.

    `rows`: name -> model of the rows of work, with the foreign key `job_key`. `endpoints`: name ->
    subquery for endpoints that the job calls. `tallied`: names of rows of which the jobs have
    columns `NAME_done` and `NAME_done_to`: the number of done rows up to that key.
    """
    counts: dict[str, Any] = {}
    for name, model in rows.items():
        for status in Work.Status:
            if name in tallied and status == Work.Status.DONE:
                count: Any = F(f"{name}_done") + row_count(model, job_key, status, after=f"{name}_done_to")
            else:
                count = row_count(model, job_key, status)
            counts[f"{name}_{status}_all"] = count
    errors = rows_as_json(JobError.objects.filter(job=OuterRef("pk")), "error", "calls")
    annotated: Any = jobs.annotate(
        **counts,
        **{f"listed_endpoints_{name}": subquery for name, subquery in endpoints.items()},
        errors_listed=errors,
        lanes_listed=lanes_listed(),
        worker_lives=Exists(live_workers(runs_lanes=True)),
        site_paused=Exists(SitePause.objects.all()),
    )
    return cast("QuerySet[J]", annotated)


def remove_words(job: Job) -> None:
    """Remove what servers said from a job read by `with_live_status`. Do not save it."""
    job.paused_detail = ""
    job.model_checks = deepcopy(job.model_checks)
    for check in job.model_checks.values():
        for tried in check["tried"]:
            for finding in tried["findings"]:
                finding["detail"] = ""
    for name, endpoints in vars(job).items():
        if name.startswith("listed_endpoints_"):
            for endpoint in endpoints or ():
                endpoint["detail"] = ""


def progress(job: Job, rows: str) -> Progress:
    """Progress of a job read by `with_live_status`, over its rows of this name."""
    counts = {status.value: getattr(job, f"{rows}_{status}_all") for status in Work.Status}
    return Progress(**counts, cost=job.cost, calls=job.calls)


def live(job: Job, *, ended: int, total: int) -> LiveStatus:
    """Live status of a job read by `with_live_status`, with `ended` of `total` rows ended."""
    annotated_job: Any = job
    now = timezone.now()
    is_running = job.status == Job.Status.RUNNING
    lines = job.calls + job.hits
    open_lines = None
    if ended:
        open_lines = (total - ended) * lines / ended
    rate = left = projected = None
    if is_running and job.since_at is not None and now - job.since_at >= MIN_RATE_SPAN:
        minutes = (now - job.since_at).total_seconds() / 60
        rate = (job.calls - job.since_calls) / minutes
        speed = rate + (job.hits - job.since_hits) / minutes
        if open_lines is not None and speed:
            left = timedelta(minutes=open_lines / speed)
    if job.status in (Job.Status.RUNNING, Job.Status.PAUSED) and open_lines is not None and job.calls:
        projected = job.cost + job.cost / job.calls * Decimal(open_lines)
    errors = [(row["error"], row["calls"]) for row in annotated_job.errors_listed or ()]
    listed: list[Any] = []
    for name, rows in vars(job).items():
        if name.startswith("listed_endpoints_"):
            listed += rows or ()
    endpoints = endpoints_now(listed, annotated_job.lanes_listed, job.pk, now=now)
    # While it stands still, its rate says nothing about the time that is left.
    if job.is_resting or any(endpoint.state in ("open", "down") for endpoint in endpoints):
        left = None
    return LiveStatus(
        rate=rate,
        left=left,
        projected=projected,
        errors=tuple(sorted(errors, key=lambda row: (-row[1], row[0]))),
        endpoints=endpoints,
        worker_lives=annotated_job.worker_lives,
        site_paused=annotated_job.site_paused,
        waits=_lane_wait(job, annotated_job.lanes_listed or (), has_open_rows=ended < total, now=now),
    )


WAIT_SHOWN = timedelta(seconds=2)  # from then on, a job that has no lane is said to wait


def _lane_wait(job: Job, lanes: Iterable[Mapping[str, Any]], *, has_open_rows: bool, now: datetime) -> LaneWait | None:
    """What a job without a lane waits for; None if it has one, rests, or needs none."""
    jobs = {f"{lane['kind']}:{lane['job']}": lane["job"] for lane in lanes}
    could_work = job.status == Job.Status.RUNNING and has_open_rows and not job.is_resting and not job.is_checking
    if not could_work or not jobs or job.pk in jobs.values() or now - job.waits_since < WAIT_SHOWN:
        return None
    return LaneWait(now - job.waits_since, tuple(sorted(jobs)))


def endpoints_now(
    endpoints: Iterable[Mapping[str, Any]],
    lanes: Iterable[Mapping[str, Any]] | None,
    job: int | None = None,
    *,
    now: datetime,
) -> tuple[EndpointStatus, ...]:
    """The status of listed endpoints, each once, with their lanes of `job` (None: of any job)."""
    live_lanes = sorted(lanes or (), key=lambda lane: int(lane["id"]))
    statuses = []
    for row in {row["id"]: row for row in endpoints}.values():
        until = _moment(row["blocked_until"])
        blocked = until is not None and until > now
        down = _moment(row["down_since"])
        job_lanes, used_by_others = [], 0
        for lane in live_lanes:
            wanted, share, in_flight = _use_of(lane, row["id"], idle=bool(blocked or down))
            if job not in (None, lane["job"]):
                used_by_others += share
            elif wanted or share or in_flight:
                name, started = f"{lane['kind']}:{lane['job']}", _moment(lane["started_at"]) or now
                job_lanes.append(EndpointLane(lane["worker"], name, share, in_flight, started))
        if row["supported"] is None:
            supported = 1.0
        else:
            supported = float(row["supported"])
        blocked_until = None
        error = detail = ""
        if blocked:
            blocked_until = until
        if blocked or down:
            error, detail = row["error"] or "", row["detail"] or ""
        statuses.append(
            EndpointStatus(
                name=row["name"],
                concurrency=row["concurrency"],
                limit=max(1, round(row["concurrency"] * supported)),
                lanes=tuple(job_lanes),
                others=used_by_others,
                blocked_until=blocked_until,
                error=error,
                detail=detail,
                openings=row["openings"] or 0,
                down_since=down,
            )
        )
    return tuple(sorted(statuses, key=lambda endpoint: endpoint.name))


def endpoint_now(endpoint: Endpoint) -> EndpointStatus:
    """The status of one endpoint, with all lanes that use it."""
    rows = Endpoint.objects.filter(pk=endpoint.pk)
    row: Any = rows.annotate(
        listed_endpoints_=endpoints_listed(Endpoint.objects.filter(pk=OuterRef("pk")), ""), lanes_listed=lanes_listed()
    ).get()
    return endpoints_now(row.listed_endpoints_, row.lanes_listed, now=timezone.now())[0]


def _use_of(lane: Mapping[str, Any], endpoint: int, *, idle: bool) -> tuple[int, int, int]:
    """The wanted, share and calls in flight of a lane at an endpoint.

    At an `idle` endpoint, which gets no new calls now, the share is what is in flight.
    """
    if isinstance(lane["holds"], str):
        holds = json.loads(lane["holds"])
    else:
        holds = lane["holds"]
    wanted, share, in_flight = (*holds.get(str(endpoint), ()), 0, 0, 0)[:3]
    return wanted, in_flight if idle else share, in_flight


def _moment(text: str | None) -> datetime | None:
    """Parse a moment from JSON; SQLite omits the time zone, which is UTC."""
    moment = None
    if text:
        moment = parse_datetime(text)
    if moment and moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment
