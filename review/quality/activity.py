"""Active time: when physicians worked on a case, in stretches measured by the page.

Pages may send a stretch repeatedly, extended, or from two windows at once. The stored intervals of
a person never overlap, whatever is sent in whatever order, so that their sum counts no time twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Count, DurationField, ExpressionWrapper, F, Sum
from django.utils import timezone

from review import errors
from review.access import visibility
from review.models import ActiveInterval, Assignment, Case, User
from review.rules.permissions import Can, require
from review.rules.state_machine import State

Stretch = tuple[datetime, datetime]
ASSUMED_MINUTES = 15.0  # of a case, until MIN_MEASURED are measured: two reviews, and sometimes a third
MIN_MEASURED = 5  # cases
MAX_STRETCHES = 500  # stretches in one message


@transaction.atomic
def record_stretches(physician: User, assignment_id: int, stretches: Iterable[Stretch]) -> timedelta:
    """Store when `physician` worked on an assignment; returns how much of that time was new.

    Time before the claim or in the future is cut off; time that is already stored (from any window,
    on any case) is not counted again. Repeating a message changes nothing.

    Raises:
        NotAssigned: the physician neither holds nor has held the assignment.
    """
    require(physician, Can.REVIEW)
    User.objects.select_for_update(no_key=True).get(pk=physician.pk)  # two windows may send at once
    assignment = Assignment.objects.filter(pk=assignment_id).first()
    if assignment is None:
        raise errors.NotAssigned
    since, now = _held_since(physician, assignment), timezone.now()
    sent = [(max(began, since), min(ended, now)) for began, ended in stretches]
    sent = sorted((began, ended) for began, ended in sent if began < ended)
    if not sent:
        return timedelta()
    known = list(
        ActiveInterval.objects.filter(
            physician=physician, began_at__lte=max(ended for _, ended in sent), ended_at__gte=sent[0][0]
        ).order_by("began_at")
    )
    new = timedelta()
    for stretch in sent:
        for began, ended in _subtract(stretch, [(row.began_at, row.ended_at) for row in known]):
            new += ended - began
            row = next((r for r in known if r.ended_at == began and r.assignment_id == assignment.pk), None)
            if row is None:
                known.append(
                    ActiveInterval.objects.create(
                        assignment=assignment, physician=physician, began_at=began, ended_at=ended
                    )
                )
            else:  # continues a stored stretch
                row.ended_at = ended
                row.save(update_fields=["ended_at"])
    return new


def parse_stretches(pairs: object) -> list[Stretch]:
    """The stretches sent by a page as pairs of milliseconds since 1970.

    Anything else is ignored.
    """
    stretches: list[Stretch] = []
    for pair in pairs[:MAX_STRETCHES] if isinstance(pairs, list) else []:
        match pair:
            case [int() | float() as began, int() | float() as ended] if 0 <= began < ended <= _LATEST:
                stretches.append((_from_milliseconds(began), _from_milliseconds(ended)))
    return stretches


_LATEST = 4_102_444_800_000  # the year 2100


def _from_milliseconds(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _held_since(physician: User, assignment: Assignment) -> datetime:
    """When the physician first claimed the assignment. Raises NotAssigned."""
    claims = visibility.claims_of(assignment).filter(actor=physician)
    first = claims.order_by("id").values_list("at", flat=True).first()
    if first is None and assignment.physician_id != physician.pk:
        raise errors.NotAssigned
    return first or assignment.opened_at


def _subtract(stretch: Stretch, known: Iterable[Stretch]) -> list[Stretch]:
    """The parts of `stretch` that do not overlap with `known`."""
    remaining = [stretch]
    for other in known:
        pieces = []
        for began, ended in remaining:
            pieces += [(began, min(ended, other[0])), (max(began, other[1]), ended)]
        remaining = [(began, ended) for began, ended in pieces if began < ended]
    return remaining


SPENT = Sum(ExpressionWrapper(F("ended_at") - F("began_at"), output_field=DurationField()))


def active_time(physician: User, *, since: datetime | None = None) -> timedelta:
    """The active time of a physician, optionally only of stretches that began from `since` on."""
    rows = ActiveInterval.objects.filter(physician=physician)
    return (rows.filter(began_at__gte=since) if since else rows).aggregate(total=SPENT)["total"] or timedelta()


def minutes_by_assignment(physician: User) -> dict[int, float]:
    """A physician's active minutes by assignment, without assignments that have none measured."""
    rows = ActiveInterval.objects.filter(physician=physician).values("assignment").order_by()
    return {row["assignment"]: row["total"].total_seconds() / 60 for row in rows.annotate(total=SPENT)}


@dataclass(frozen=True, slots=True)
class CaseTime:
    """The minutes that physicians spend on a case, all its reviews together: a mean.

    cases: the number of decided cases that were measured; 0: the minutes are assumed.
    """

    minutes: float
    cases: int


def case_time(benchmark: str) -> CaseTime:
    """How long physicians worked on a decided case of a benchmark, as their pages measured it."""
    decided = ActiveInterval.objects.filter(
        assignment__case__benchmark=benchmark,
        assignment__case__kind=Case.Kind.WORK,
        assignment__case__state__in=[State.APPROVED, State.REJECTED],
    )
    measured = decided.aggregate(total=SPENT, cases=Count("assignment__case", distinct=True))
    if measured["cases"] < MIN_MEASURED:
        return CaseTime(ASSUMED_MINUTES, 0)
    return CaseTime(measured["total"].total_seconds() / 60 / measured["cases"], measured["cases"])
