"""Throughput, backlog and projected finish of the reviews. Only real cases count, not copies."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil
from statistics import median, quantiles

from django.db.models import Count, Q
from django.db.models.functions import TruncDate
from django.utils import timezone

from review.access.visibility import counted_reviews
from review.models import Case
from review.rules.state_machine import FINAL, Ground, Phase, State

DAYS = 30  # in the chart
RECENT_DAYS = 7  # active days on which the projection is based
MIN_ACTIVE_DAYS = 3  # active days below which there is no projection


@dataclass(frozen=True, slots=True)
class Day:
    """Reviews submitted and cases closed on one day.

    A physician's answers to a case count once, without confirmations and second votes.
    """

    day: date
    reviews: int
    closed: int


@dataclass(frozen=True, slots=True)
class Projection:
    """When all open cases will be closed, at the pace of the last active days.

    known: the number of active days that it is based on.
    pace: cases closed on a typical active day (median); `slow` and `fast` are the quartiles.
    finish, early, late: None with too few active days (`known` < MIN_ACTIVE_DAYS), or if the
        respective pace is 0.
    """

    open: int
    known: int
    pace: float | None = None
    slow: float | None = None
    fast: float | None = None
    finish: date | None = None
    early: date | None = None
    late: date | None = None


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """The state of the reviews.

    backlog: specialty -> stage -> open cases, with all stages; the specialty is empty for cases
        without one.
    """

    days: tuple[Day, ...]
    backlog: Mapping[str, Mapping[State, int]]
    projection: Projection


def progress(benchmark: str = "") -> ReviewProgress:
    """Throughput of the last DAYS days, backlog by stage and specialty, projected finish."""
    today = timezone.localdate()
    since = timezone.now() - timedelta(days=4 * DAYS)  # the last active days may be older than the chart
    cases = Case.objects.filter(kind=Case.Kind.WORK)
    reviews = counted_reviews().filter(case__kind=Case.Kind.WORK, submitted_at__gte=since).order_by()
    if benchmark:
        cases, reviews = cases.filter(benchmark=benchmark), reviews.filter(case__benchmark=benchmark)
    # Days with confirmations only are active days, too, with 0 reviews.
    first_answers = Count("pk", filter=Q(phase=Phase.COMMIT))
    reviewed = Counter(
        dict(reviews.values(day=TruncDate("submitted_at")).annotate(n=first_answers).values_list("day", "n"))
    )
    closed_cases = cases.filter(state__in=[State.APPROVED, State.REJECTED], closed_at__gte=since).order_by()
    closed_cases = closed_cases.exclude(ground=Ground.UNREVIEWED)  # nobody worked on these
    closed = Counter(
        dict(closed_cases.values(day=TruncDate("closed_at")).annotate(n=Count("pk")).values_list("day", "n"))
    )
    backlog: dict[str, dict[State, int]] = defaultdict(lambda: {stage: 0 for stage in State if not stage.final})
    open_counts = cases.exclude(state__in=FINAL).order_by().values_list("specialty", "state").annotate(n=Count("pk"))
    for specialty, state, n in open_counts:
        backlog[specialty][State(state)] = n
    shown = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    waiting = sum(sum(stages.values()) for stages in backlog.values())
    closed_on_active_days = {day: closed[day] for day in reviewed if day < today}
    return ReviewProgress(
        days=tuple(Day(day, reviewed[day], closed[day]) for day in shown),
        backlog=dict(sorted(backlog.items())),
        projection=project(waiting, closed_on_active_days, today),
    )


def project(waiting: int, closed: Mapping[date, int], today: date) -> Projection:
    """The projection for `waiting` open cases.

    Args: closed: cases closed on each active day (with at least one submission) before `today`,
        which is not over yet.
    """
    active = sorted(closed)[-RECENT_DAYS:]
    if len(active) < MIN_ACTIVE_DAYS:
        return Projection(waiting, len(active))
    rates = [closed[day] for day in active]
    slow, _middle, fast = quantiles(rates, n=4, method="inclusive")
    pace = median(rates)
    # Not every day is active: the calendar days per active day.
    calendar_factor = ((today - active[0]).days) / len(active)

    def day_at(rate: float) -> date | None:
        if rate:
            return today + timedelta(days=ceil(waiting / rate * calendar_factor))
        return None

    return Projection(waiting, len(active), pace, slow, fast, day_at(pace), day_at(fast), day_at(slow))
