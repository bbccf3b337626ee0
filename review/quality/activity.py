"""Active time: the stretches in which a physician had a case before the eyes, as the page measured them.

Pages may send a stretch again, longer, or from two windows at once. What is stored never overlaps, for one person, whatever
was sent and in whatever order: the sum of the rows is time that went by once.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet, Sum
from django.utils import timezone

from review import errors
from review.models import ActiveInterval, Assignment, Event, User
from review.rules.permissions import Can, require

Stretch = tuple[datetime, datetime]
MOST = 500  # stretches in one message


@transaction.atomic
def record(physician: User, assignment_id: int, stretches: Iterable[Stretch]) -> timedelta:
    """Keep when `physician` worked on an assignment; returns how much of it was new.

    What lies before the claim or in the future is cut off, what is known already (from this or another window, on this or
    another case) counts once. Repeating a message changes nothing.

    Raises:
        NotYours: the physician neither holds the assignment nor has held it.
    """
    require(physician, Can.REVIEW)
    User.objects.select_for_update(no_key=True).get(pk=physician.pk)  # two windows send at once
    assignment = Assignment.objects.filter(pk=assignment_id).first()
    if assignment is None:
        raise errors.NotYours
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
        for began, ended in _without(stretch, [(row.began_at, row.ended_at) for row in known]):
            new += ended - began
            row = next((r for r in known if r.ended_at == began and r.assignment_id == assignment.pk), None)
            if row is None:
                known.append(
                    ActiveInterval.objects.create(
                        assignment=assignment, physician=physician, began_at=began, ended_at=ended
                    )
                )
            else:  # the same stretch, gone on
                row.ended_at = ended
                row.save(update_fields=["ended_at"])
    return new


def parse_stretches(pairs: object) -> list[Stretch]:
    """Stretches from what a page sent: pairs of milliseconds since 1970. Anything else in it is left out."""
    found: list[Stretch] = []
    for pair in pairs[:MOST] if isinstance(pairs, list) else []:
        match pair:
            case [int() | float() as began, int() | float() as ended] if 0 <= began < ended <= _LATEST:
                found.append((_at(began), _at(ended)))
    return found


_LATEST = 4_102_444_800_000  # the year 2100


def _at(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _held_since(physician: User, assignment: Assignment) -> datetime:
    """Since when time on this assignment can be this physician's: from the first claim on. Raises NotYours."""
    taken = Event.objects.filter(
        case_id=assignment.case_id,
        actor=physician,
        kind__in=[Event.Kind.CLAIMED, Event.Kind.TAKEN_OVER],
        data__role=assignment.role,
    )
    first = taken.order_by("id").values_list("at", flat=True).first()
    if first is None and assignment.physician_id != physician.pk:
        raise errors.NotYours
    return first or assignment.opened_at


def _without(stretch: Stretch, known: Iterable[Stretch]) -> list[Stretch]:
    """What is left of `stretch` when everything in `known` is taken out."""
    left = [stretch]
    for other in known:
        left = [
            piece
            for began, ended in left
            for piece in ((began, min(ended, other[0])), (max(began, other[1]), ended))
            if piece[0] < piece[1]
        ]
    return left


def _spent(rows: QuerySet[ActiveInterval]) -> QuerySet[ActiveInterval]:
    return rows.annotate(spent=ExpressionWrapper(F("ended_at") - F("began_at"), output_field=DurationField()))


def active_time(physician: User, *, since: datetime | None = None) -> timedelta:
    """All active time of a physician, or that of the stretches that began at `since` or later."""
    rows = ActiveInterval.objects.filter(physician=physician)
    total = _spent(rows.filter(began_at__gte=since) if since else rows).aggregate(total=Sum("spent"))["total"]
    return total or timedelta()


def minutes_by_assignment(physician: User) -> dict[int, float]:
    """Active minutes of a physician on each assignment; one without measured time is not named."""
    rows = _spent(ActiveInterval.objects.filter(physician=physician)).values("assignment").order_by()
    return {row["assignment"]: row["total"].total_seconds() / 60 for row in rows.annotate(total=Sum("spent"))}
