"""How fast the work goes, what waits, and when it may be done. Read only; work alone counts, no calibration, no repeats."""

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

DAYS = 30  # in the picture
RECENT = 7  # active days that the projection looks at
FEWEST = 3  # active days below which there is no projection


@dataclass(frozen=True, slots=True)
class Day:
    """Reviews submitted and cases closed on one day. A review is one physician's own answer to one case: the secondary's
    confirmation and an adjudicator's second vote are the same review."""

    day: date
    reviews: int
    closed: int


@dataclass(frozen=True, slots=True)
class Projection:
    """When all open cases will have closed at the pace of the last active days.

    pace: cases closed on a typical active day (median); `slow` and `fast` bound the middle half of those days. `finish`,
    `early` and `late` are None where there is no such day: too few active days (`known` < FEWEST), or a pace of 0.
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
class Progress:
    """`backlog`: specialty -> stage -> open cases, with every stage named; the specialty is empty where a case has none."""

    days: tuple[Day, ...]
    backlog: Mapping[str, Mapping[State, int]]
    projection: Projection


def progress(benchmark: str = "") -> Progress:
    """Throughput of the last DAYS days, the backlog by stage and specialty, and the projected finish."""
    today = timezone.localdate()
    since = timezone.now() - timedelta(
        days=4 * DAYS
    )  # the last active days may lie further back than the picture shows
    cases = Case.objects.filter(kind=Case.Kind.WORK)
    reviews = counted_reviews().filter(case__kind=Case.Kind.WORK, submitted_at__gte=since).order_by()
    if benchmark:
        cases, reviews = cases.filter(benchmark=benchmark), reviews.filter(case__benchmark=benchmark)
    # Days on which only confirmations came are active days all the same, with 0 reviews.
    own_answers = Count("pk", filter=Q(phase=Phase.COMMIT))
    reviewed = Counter(
        dict(reviews.values(day=TruncDate("submitted_at")).annotate(n=own_answers).values_list("day", "n"))
    )
    ended = cases.filter(state__in=[State.APPROVED, State.REJECTED], closed_at__gte=since).order_by()
    ended = ended.exclude(ground=Ground.UNREVIEWED)  # nobody worked on these
    closed = Counter(dict(ended.values(day=TruncDate("closed_at")).annotate(n=Count("pk")).values_list("day", "n")))
    backlog: dict[str, dict[State, int]] = defaultdict(lambda: {stage: 0 for stage in State if not stage.final})
    waiting = cases.exclude(state__in=FINAL).order_by().values_list("specialty", "state").annotate(n=Count("pk"))
    for specialty, state, n in waiting:
        backlog[specialty][State(state)] = n
    shown = [today - timedelta(days=back) for back in reversed(range(DAYS))]
    return Progress(
        days=tuple(Day(day, reviewed[day], closed[day]) for day in shown),
        backlog={specialty: backlog[specialty] for specialty in sorted(backlog)},
        projection=project(
            sum(sum(stages.values()) for stages in backlog.values()),
            {day: closed[day] for day in reviewed if day < today},
            today,
        ),
    )


def project(waiting: int, closed: Mapping[date, int], today: date) -> Projection:
    """The projection for `waiting` open cases.

    Args:
        closed: cases closed on each active day (a day on which something was submitted) before `today`; today is not over yet.
    """
    active = sorted(closed)[-RECENT:]
    if len(active) < FEWEST:
        return Projection(waiting, len(active))
    rates = [closed[day] for day in active]
    slow, _middle, fast = quantiles(rates, n=4, method="inclusive")
    pace = median(rates)
    # People rest: so many days of the calendar went by for each active one.
    stretch = ((today - active[0]).days) / len(active)

    def day_at(rate: float) -> date | None:
        return today + timedelta(days=ceil(waiting / rate * stretch)) if rate else None

    return Projection(waiting, len(active), pace, slow, fast, day_at(pace), day_at(fast), day_at(slow))
