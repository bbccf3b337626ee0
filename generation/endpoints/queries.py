"""Everything that is read of endpoints and their usage."""

from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, Sum
from django.utils import timezone

from generation import errors
from generation.models import Batch, Call, Endpoint, EndpointDay


def endpoint(name: str) -> Endpoint:
    """Raises UnknownEndpoint."""
    found = Endpoint.objects.filter(name=name).first()
    if found is None:
        raise errors.UnknownEndpoint(name)
    return found


def endpoints() -> QuerySet[Endpoint]:
    """All endpoints by name."""
    return Endpoint.objects.order_by("name")


def endpoints_of(batch: Batch) -> QuerySet[Endpoint]:
    """The endpoints that play a role in a batch."""
    return Endpoint.objects.filter(pk__in=batch.roles.values("endpoint"))


def has_answered(endpoint: Endpoint) -> bool:
    """Whether a result names its address and model: a call of it ever succeeded, or it has no address, as it stands for a model
    that is known from imported results alone."""
    return not endpoint.url or Call.objects.filter(endpoint=endpoint, error="").exists()


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """What calls of an endpoint came to, on one day or (None) in all."""

    day: date | None
    calls: int
    hits: int
    failed: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    cost: Decimal


USAGE = tuple(name for name in UsageTotals.__slots__ if name != "day")


def usage(endpoint: Endpoint, *, days: int) -> tuple[UsageTotals, list[UsageTotals]]:
    """All that was asked of an endpoint, and each of the last `days` days (UTC) in order, empty ones too: two queries."""
    kept = EndpointDay.objects.filter(endpoint=endpoint)
    whole = kept.aggregate(**{f"sum_{name}": Sum(name) for name in USAGE})
    today = timezone.now().astimezone(UTC).date()
    first = today - timedelta(days=days - 1)
    there = {row["day"]: row for row in kept.filter(day__gte=first).values("day", *USAGE)}
    nothing: dict[str, Any] = {**dict.fromkeys(USAGE, 0), "cost": Decimal(0)}
    dates = [first + timedelta(days=place) for place in range(days)]
    total = {name: whole[f"sum_{name}"] or nothing[name] for name in USAGE}
    return UsageTotals(None, **total), [UsageTotals(**{**nothing, "day": day, **there.get(day, {})}) for day in dates]


def calls_of(subject: str) -> QuerySet[Call]:
    """The ledger of one row of work, in order."""
    return Call.objects.filter(subject=subject).select_related("endpoint").order_by("pk")
