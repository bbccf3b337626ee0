"""How lanes share endpoints: each lane's share and demand, agreed in the database.

A lane reports (`LaneEndpoint.report`), the database decides (`exchange`), the lane follows.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from generation.engine.task_queue import PULSE, lease
from generation.jobs.life_cycle import is_running
from generation.llm.admission_control import AdmissionControl
from generation.models import Endpoint, EndpointState, Lane
from generation.models.jobs import Job


@dataclass(frozen=True, slots=True)
class LaneReport:
    """A lane's report on an endpoint.

    `wanted`: slots. `in_flight`: calls. `share`: the slots that it may use until it has its orders,
    so that calls it starts meanwhile are within what others leave to it. `opened`: the circuit
    breaker opened here since the last report; otherwise `openings` is only what the lane was told.
    `answered`: the endpoint has answered since the last report. `down`: the lane gave the endpoint
    up, which the database does not know yet. `supported`: the share of its concurrency that the
    endpoint was found to support; None if not found out yet.
    """

    wanted: int
    in_flight: int
    share: int
    blocked_for: float
    error: str
    detail: str
    openings: int
    opened: bool
    answered: bool
    down: bool
    supported: float | None


@dataclass(frozen=True, slots=True)
class LaneOrders:
    """The answer to a report.

    `state`: the endpoint as all lanes know it now. `hold`: how many slots of it the lane may use.
    `part`: of its requests and tokens a minute, from 0 to 1.
    """

    state: EndpointState
    hold: int
    part: float
    blocked_for: float


@dataclass(slots=True)
class LaneEndpoint:
    """An endpoint as a lane uses it. `rows`: in flight, that ask it and no other."""

    endpoint: Endpoint
    admission: AdmissionControl
    rows: int = 0
    _answered: int = 0  # as last reported
    _opened: int = 0
    _is_known: bool = False  # orders have come
    _known_down: bool = False

    @property
    def most_rows(self) -> int:
        """How many rows that ask it may be in flight: while it pauses, the probe that ends it."""
        if self.admission.is_away:
            return 0
        if self.admission.openings:
            return 1
        return 2 * max(1, self.admission.ceiling)

    @property
    def room(self) -> int:
        return max(0, self.most_rows - self.rows)

    def report(self, *, wants_more: bool) -> LaneReport:
        """What to tell the other lanes. `wants_more`: there are more rows than are in flight."""
        admission = self.admission
        answered, self._answered = admission.answered - self._answered, admission.answered
        opened, self._opened = admission.opened - self._opened, admission.opened
        wanted, share, supported = admission.in_flight + admission.waiting, 0, None
        if wants_more and not admission.is_away:
            wanted = max(wanted, self.endpoint.concurrency)
        if self._is_known and admission.ceiling:
            share, supported = admission.ceiling, admission.supported
        return LaneReport(
            wanted=wanted,
            in_flight=admission.in_flight,
            share=share,
            blocked_for=admission.blocked_for,
            error=admission.error,
            detail=admission.detail,
            openings=admission.openings,
            opened=opened > 0,
            answered=answered > 0 and not admission.openings,
            down=admission.down and not self._known_down,
            supported=supported,
        )

    def follow(self, order: LaneOrders, report: LaneReport) -> None:
        """Follow the answer to a report."""
        admission, state = self.admission, order.state
        if not self._is_known:  # start from what other lanes found out
            self._is_known, admission.supported = True, state.supported
        rpm, tpm = _part_of(state.endpoint.rpm, order.part), _part_of(state.endpoint.tpm, order.part)
        admission.set_share(order.hold, rpm=rpm, tpm=tpm)
        # Otherwise something happened meanwhile, and the order is outdated.
        unchanged = admission.openings == report.openings
        if state.down_since:
            admission.mark_down(state.error, state.detail)
        elif self._known_down:  # a person resumed it, or it is due for a probe
            admission.reset()
        self._known_down = state.down_since is not None
        if order.blocked_for:
            admission.block(order.blocked_for, state.error)
        if unchanged:
            admission.openings = state.openings


def _part_of(rate: float | None, part: float) -> float | None:
    if rate is None:
        return None
    return rate * part


def exchange(job: Job, lane: Lane, reports: Mapping[int, LaneReport], now: datetime) -> dict[int, LaneOrders] | None:
    """Exchange reports for orders, by endpoint; None if the lane has expired or its job stops."""
    with transaction.atomic():
        states = list(
            EndpointState.objects.select_for_update(of=("self",), no_key=True)
            .select_related("endpoint")
            .filter(endpoint__in=reports)
            .order_by("endpoint")
        )
        lanes = list(Lane.objects.filter(until__gt=now).select_related("job").order_by("pk"))
        if lane.pk not in {other.pk for other in lanes}:
            return None
        orders, holds = {}, {}
        for state in states:
            report = reports[state.endpoint_id]
            order = orders[state.endpoint_id] = _reconcile(state, report, lane, lanes, now)
            held = max(order.hold, report.share, report.in_flight)
            holds[str(state.endpoint_id)] = [report.wanted, held, report.in_flight]
        Lane.objects.filter(pk=lane.pk).update(until=now + lease(), holds=holds)
    if is_running(job.pk):
        return orders
    return None


def _reconcile(state: EndpointState, report: LaneReport, lane: Lane, lanes: list[Lane], now: datetime) -> LaneOrders:
    """Merge a lane's report into the shared state of an endpoint; returns the lane's orders."""
    before = _stored_values(state)
    until = now + timedelta(seconds=report.blocked_for)
    # A block that the lane got from here comes back slightly later by the clock; that is not news.
    if report.blocked_for and (state.blocked_until is None or until > state.blocked_until + timedelta(seconds=PULSE)):
        state.blocked_until, state.error, state.detail = until, report.error, report.detail
    if report.answered:
        state.openings = 0
    elif report.opened:
        state.openings = max(state.openings, report.openings)
    if report.supported is not None:
        state.supported = report.supported
    if report.down and state.down_since is None:
        state.down_since, state.error, state.detail = now, report.error, report.detail
    if report.answered and state.down_since is None and (state.blocked_until is None or state.blocked_until <= now):
        state.blocked_until, state.error, state.detail = None, "", ""
    if before != _stored_values(state):
        state.save()

    name, endpoint = str(state.endpoint_id), state.endpoint
    wishes, held = [], 0  # `held`: by the other lanes
    for other in lanes:
        wish, other_held = other.holds.get(name, (0, 0))[:2]
        if other.pk == lane.pk:
            wish = report.wanted
        else:
            held += other_held
        wishes.append(wish)
    jobs = [other.job_id for other in lanes]
    place = [other.pk for other in lanes].index(lane.pk)
    shares = shares_by_rank(endpoint.concurrency, wishes, [other.job.rank for other in lanes], jobs)
    using = Counter(job for job, share in zip(jobs, shares, strict=True) if share > 0)
    blocked_for = 0.0
    if state.blocked_until:
        blocked_for = max(0.0, (state.blocked_until - now).total_seconds())
    return LaneOrders(
        state,
        hold=max(0, min(shares[place], endpoint.concurrency - held)),
        part=1 / (max(1, len(using)) * max(1, using[lane.job_id])),
        blocked_for=blocked_for,
    )


def _stored_values(state: EndpointState) -> list[object]:
    """What is worth writing if it has changed."""
    supported = round(state.supported, 1)
    return [state.blocked_until, state.error, state.detail, state.openings, state.down_since, supported]


def shares_by_rank(total: int, wishes: list[int], ranks: list[int], jobs: list[int]) -> list[int]:
    """Distribute `total` slots over lanes: lower ranks first, then fairly by job, then by lane.

    A job gets no more because it has more lanes.
    """
    shares = [0] * len(wishes)
    for rank in sorted(set(ranks)):
        lanes_of: dict[int, list[int]] = {}  # by job
        for index, job in enumerate(jobs):
            if ranks[index] == rank:
                lanes_of.setdefault(job, []).append(index)
        wishes_by_job = []
        for lanes in lanes_of.values():
            wishes_by_job.append(sum(wishes[index] for index in lanes))
        parts = fair_shares(total - sum(shares), wishes_by_job)
        for lanes, part in zip(lanes_of.values(), parts, strict=True):
            lane_shares = fair_shares(part, [wishes[index] for index in lanes])
            for index, share in zip(lanes, lane_shares, strict=True):
                shares[index] = share
    return shares


def fair_shares(total: int, wishes: list[int]) -> list[int]:
    """Distribute `total` whole slots over jobs or lanes with these wishes: max-min fair.

    Slots that one does not want go to the others. If there is less than one slot for each, the
    first ones get them.
    """
    shares = [0] * len(wishes)
    left = total
    hungry = [index for index, wish in enumerate(wishes) if wish > 0]
    while left > 0 and hungry:
        part, extra = divmod(left, len(hungry))
        for place, index in enumerate(hungry):
            grant = min(wishes[index] - shares[index], part or int(place < extra))
            shares[index] += grant
            left -= grant
        hungry = [index for index in hungry if shares[index] < wishes[index]]
    return shares
