"""Queries on endpoints and their usage."""

from dataclasses import dataclass
from datetime import UTC, date, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, QuerySet, Sum
from django.utils import timezone

from generation import errors
from generation.llm.provider_words import NO_ENDING, Ending, ending_of
from generation.llm.types import EMBEDDINGS
from generation.models import Batch, Call, Endpoint, EndpointDay


def endpoint(name: str) -> Endpoint:
    """Return the endpoint of this name. Raises UnknownEndpoint."""
    endpoint = Endpoint.objects.filter(name=name).first()
    if endpoint is None:
        raise errors.UnknownEndpoint(name)
    return endpoint


def endpoints() -> QuerySet[Endpoint]:
    """All endpoints by name, with their state."""
    return Endpoint.objects.select_related("state").order_by("name")


def endpoints_of(batch: Batch) -> QuerySet[Endpoint]:
    """The endpoints that play a role in a batch."""
    return Endpoint.objects.filter(pk__in=batch.roles.values("endpoint"))


def has_answered(endpoint: Endpoint) -> bool:
    """Whether results refer to its address and model.

    They do if a call ever succeeded, or if it has no address, as it represents a model that is
    known only from imported results.
    """
    return not endpoint.url or Call.objects.filter(endpoint=endpoint, error="", job__isnull=False).exists()


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Totals of calls.

    `calls` are HTTP attempts, `failed` those that ended in an error, `estimated` those of which the
    endpoint reported no usage; `hits` are replies that were already paid for.
    """

    calls: int
    hits: int
    failed: int
    estimated: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_reasoning: int
    cost: Decimal


@dataclass(frozen=True, slots=True)
class DayTotals(UsageTotals):
    """Totals of an endpoint's calls that began on one day (UTC)."""

    day: date


ENDINGS_SHOWN = timedelta(days=30)
USAGE_COLUMNS = UsageTotals.__slots__


def usage(endpoint: Endpoint, *, days: int) -> tuple[UsageTotals, list[DayTotals]]:
    """Usage of an endpoint, in total and on each of the last `days` days (UTC): two queries."""
    rows = EndpointDay.objects.filter(endpoint=endpoint)
    today = timezone.now().astimezone(UTC).date()
    first = today - timedelta(days=days - 1)
    zeros: dict[str, Any] = {**dict.fromkeys(USAGE_COLUMNS, 0), "cost": Decimal(0)}
    sums = rows.aggregate(**{f"sum_{name}": Sum(name, default=zeros[name]) for name in USAGE_COLUMNS})
    total = UsageTotals(**{name: sums[f"sum_{name}"] for name in USAGE_COLUMNS})
    by_day = {row["day"]: row for row in rows.filter(day__gte=first).values("day", *USAGE_COLUMNS)}
    day_totals = []
    for place in range(days):
        day = first + timedelta(days=place)
        day_totals.append(DayTotals(**{**zeros, "day": day, **by_day.get(day, {})}))
    return total, day_totals


def calls_of(subject: str) -> QuerySet[Call]:
    """The calls made for one row of work, in order."""
    return Call.objects.filter(subject=subject).select_related("endpoint").order_by("pk")


@dataclass(frozen=True, slots=True)
class UnknownEndings:
    """How many replies of an endpoint ended in one way that is not known."""

    ending: str
    calls: int


def unknown_endings(endpoint: Endpoint) -> list[UnknownEndings]:
    """The endings of the last weeks' replies that nobody has decided about, most frequent first."""
    since = timezone.now() - ENDINGS_SHOWN
    calls = Call.objects.filter(endpoint=endpoint, started_at__gt=since, hit_of__isnull=True, error="")
    chats = calls.exclude(prompt=EMBEDDINGS).order_by().values_list("finish_reason")
    counts = chats.annotate(n=Count("pk")).order_by("-n")
    unknown = []
    for ending, n in counts:
        if ending_of(ending, endpoint.endings) is Ending.UNKNOWN:
            unknown.append(UnknownEndings(ending or NO_ENDING, n))
    return unknown
