"""How lanes share an endpoint: what each holds and wants, agreed in the database."""

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
    """What a lane has to say of an endpoint."""

    wish: int
    flying: int
    blocked_for: float
    because: str
    detail: str
    openings: int
    opened: bool  # it has failed here since it was last spoken of; else the openings are hearsay
    proved: bool  # it has answered since it was last spoken of
    down: bool  # and nobody knows yet
    bears: float | None  # None: it may not ask it, or has not yet, and has found out nothing


@dataclass(frozen=True, slots=True)
class LaneOrders:
    """What a lane is told of an endpoint."""

    endpoint: Endpoint
    hold: int
    lanes: int
    blocked_for: float
    because: str
    detail: str
    openings: int
    down: bool
    bears: float


def exchange(job: Job, lane: Lane, seen: Mapping[int, LaneReport], now: datetime) -> dict[int, LaneOrders] | None:
    """One pulse in the database; None where the lane was taken for dead or its job stops."""
    with transaction.atomic():
        states = list(
            EndpointState.objects.select_for_update(of=("self",), no_key=True)
            .select_related("endpoint")
            .filter(endpoint__in=seen)
            .order_by("endpoint")
        )
        lanes = list(Lane.objects.filter(until__gt=now).order_by("pk"))
        if lane.pk not in {each.pk for each in lanes}:
            return None
        said = {state.endpoint_id: _agree(state, seen[state.endpoint_id], lane, lanes, now) for state in states}
        holds = {
            str(pk): [seen[pk].wish, max(each.hold, seen[pk].flying), seen[pk].flying] for pk, each in said.items()
        }
        Lane.objects.filter(pk=lane.pk).update(until=now + lease(), holds=holds)
    return said if is_running(job.pk) else None


def _agree(state: EndpointState, seen: LaneReport, lane: Lane, lanes: list[Lane], now: datetime) -> LaneOrders:
    """Put what a lane has seen of an endpoint to what is known, and say what it may have of it."""
    before = (state.blocked_until, state.because, state.detail, state.openings, state.down_since, round(state.bears, 1))
    until = now + timedelta(seconds=seen.blocked_for)
    # What was heard from here comes back a moment later by the clock; that is no news.
    if seen.blocked_for and (state.blocked_until is None or until > state.blocked_until + timedelta(seconds=PULSE)):
        state.blocked_until, state.because, state.detail = until, seen.because, seen.detail
    if seen.proved:
        state.openings = 0
    elif seen.opened:
        state.openings = max(state.openings, seen.openings)
    state.bears = state.bears if seen.bears is None else seen.bears
    if seen.down and state.down_since is None:
        state.down_since, state.because, state.detail = now, seen.because, seen.detail
    if seen.proved and state.down_since is None and (state.blocked_until is None or state.blocked_until <= now):
        state.blocked_until, state.because, state.detail = None, "", ""
    if before != (
        state.blocked_until, state.because, state.detail, state.openings, state.down_since, round(state.bears, 1)
    ):  # fmt: skip
        state.save()

    name, endpoint = str(state.endpoint_id), state.endpoint
    wishes = [seen.wish if each.pk == lane.pk else each.holds.get(name, (0, 0))[0] for each in lanes]
    fair = fair_shares(endpoint.concurrency, wishes)[[each.pk for each in lanes].index(lane.pk)]
    held = sum(each.holds.get(name, (0, 0))[1] for each in lanes if each.pk != lane.pk)
    blocked = (state.blocked_until - now).total_seconds() if state.blocked_until else 0.0
    return LaneOrders(
        endpoint=endpoint,
        hold=max(0, min(fair, endpoint.concurrency - held)),
        lanes=max(1, sum(wish > 0 for wish in wishes)),
        blocked_for=max(0.0, blocked),
        because=state.because,
        detail=state.detail,
        openings=state.openings,
        down=state.down_since is not None,
        bears=state.bears,
    )


def fair_shares(total: int, wishes: list[int]) -> list[int]:
    """`total` whole slots for lanes that wish for so many: max-min fair. Who wishes for little leaves the rest to the others.

    Where there is less than one each, the first get it.
    """
    shares = [0] * len(wishes)
    left = total
    hungry = [index for index, wish in enumerate(wishes) if wish > 0]
    while left > 0 and hungry:
        part, extra = divmod(left, len(hungry))
        for place, index in enumerate(hungry):
            given = min(wishes[index] - shares[index], part or int(place < extra))
            shares[index] += given
            left -= given
        hungry = [index for index in hungry if shares[index] < wishes[index]]
    return shares
