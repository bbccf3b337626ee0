"""How lanes share endpoints: each lane's share and demand, agreed in the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from generation.engine.task_queue import PULSE, lease
from generation.jobs.life_cycle import is_running
from generation.models import Endpoint, EndpointState, Lane
from generation.models.jobs import Job


@dataclass(frozen=True, slots=True)
class LaneReport:
    """A lane's report on an endpoint.

    `wish`: slots wanted. `flying`: calls in flight. `opened`: the circuit breaker opened here since
    the last report; otherwise `openings` is only what the lane was told. `proved`: the endpoint has
    answered since the last report. `down`: the lane gave the endpoint up, which the database does
    not know yet. `bears`: the share of its concurrency that the endpoint was found to support; None
    if not found out yet.
    """

    wish: int
    flying: int
    blocked_for: float
    because: str
    detail: str
    openings: int
    opened: bool
    proved: bool
    down: bool
    bears: float | None


@dataclass(frozen=True, slots=True)
class LaneOrders:
    """The answer to a report.

    `hold`: how many slots of the endpoint the lane may use. `lanes`: how many lanes want the
    endpoint.
    """

    endpoint: Endpoint
    hold: int
    lanes: int
    blocked_for: float
    because: str
    detail: str
    openings: int
    down: bool
    bears: float


def exchange(job: Job, lane: Lane, reports: Mapping[int, LaneReport], now: datetime) -> dict[int, LaneOrders] | None:
    """Exchange reports for orders, by endpoint; None if the lane has expired or its job stops."""
    with transaction.atomic():
        states = list(
            EndpointState.objects.select_for_update(of=("self",), no_key=True)
            .select_related("endpoint")
            .filter(endpoint__in=reports)
            .order_by("endpoint")
        )
        lanes = list(Lane.objects.filter(until__gt=now).order_by("pk"))
        if lane.pk not in {other.pk for other in lanes}:
            return None
        orders = {
            state.endpoint_id: _reconcile(state, reports[state.endpoint_id], lane, lanes, now) for state in states
        }
        holds = {
            str(pk): [reports[pk].wish, max(order.hold, reports[pk].flying), reports[pk].flying]
            for pk, order in orders.items()
        }
        Lane.objects.filter(pk=lane.pk).update(until=now + lease(), holds=holds)
    return orders if is_running(job.pk) else None


def _reconcile(state: EndpointState, report: LaneReport, lane: Lane, lanes: list[Lane], now: datetime) -> LaneOrders:
    """Merge a lane's report into the shared state of an endpoint; returns the lane's orders."""
    before = (state.blocked_until, state.because, state.detail, state.openings, state.down_since, round(state.bears, 1))
    until = now + timedelta(seconds=report.blocked_for)
    # A block that the lane got from here comes back slightly later by the clock; that is not news.
    if report.blocked_for and (state.blocked_until is None or until > state.blocked_until + timedelta(seconds=PULSE)):
        state.blocked_until, state.because, state.detail = until, report.because, report.detail
    if report.proved:
        state.openings = 0
    elif report.opened:
        state.openings = max(state.openings, report.openings)
    state.bears = state.bears if report.bears is None else report.bears
    if report.down and state.down_since is None:
        state.down_since, state.because, state.detail = now, report.because, report.detail
    if report.proved and state.down_since is None and (state.blocked_until is None or state.blocked_until <= now):
        state.blocked_until, state.because, state.detail = None, "", ""
    if before != (
        state.blocked_until, state.because, state.detail, state.openings, state.down_since, round(state.bears, 1)
    ):  # fmt: skip
        state.save()

    name, endpoint = str(state.endpoint_id), state.endpoint
    wishes = [report.wish if other.pk == lane.pk else other.holds.get(name, (0, 0))[0] for other in lanes]
    fair_share = fair_shares(endpoint.concurrency, wishes)[[other.pk for other in lanes].index(lane.pk)]
    held = sum(other.holds.get(name, (0, 0))[1] for other in lanes if other.pk != lane.pk)
    blocked = (state.blocked_until - now).total_seconds() if state.blocked_until else 0.0
    return LaneOrders(
        endpoint=endpoint,
        hold=max(0, min(fair_share, endpoint.concurrency - held)),
        lanes=max(1, sum(wish > 0 for wish in wishes)),
        blocked_for=max(0.0, blocked),
        because=state.because,
        detail=state.detail,
        openings=state.openings,
        down=state.down_since is not None,
        bears=state.bears,
    )


def fair_shares(total: int, wishes: list[int]) -> list[int]:
    """Distribute `total` whole slots over lanes with these wishes: max-min fair.

    Slots that a lane does not want go to the others. If there is less than one slot for each, the
    first lanes get them.
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
