"""What in review needs a person: cases that do not move, and physicians whose judgment has changed. Read only."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, F, Min, Q, QuerySet
from django.utils import timezone

from review.access.visibility import counted_reviews
from review.cases.queries import LONG, idle, languages_missing
from review.models import Case, User
from review.rules.state_machine import ADJUDICATORS, Phase, State, Verdict

LATELY = timedelta(days=28)
SHOWN = 5  # of each kind
FEWEST = 10  # closed cases, lately and before, below which nothing is said of a physician
DRIFT = 0.2  # a fall in the share of verdicts that the result bore out


@dataclass(frozen=True, slots=True)
class Drifting:
    """A physician whose blind verdicts match the results less than before: two shares, in words."""

    physician: User
    before: str
    lately: str


@dataclass(frozen=True, slots=True)
class Attention:
    """The first few of each kind, the oldest first, and how many there are of the cases."""

    dissents: list[Case]
    dissents_count: int
    stuck: list[Case]
    stuck_count: int
    drifting: list[Drifting]
    languages_missing: int

    def __bool__(self) -> bool:
        return bool(self.dissents or self.stuck or self.drifting or self.languages_missing)


def attention() -> Attention:
    """Six queries, however many cases there are."""
    before = timezone.now() - LONG
    work = Case.objects.filter(kind=Case.Kind.WORK).defer("spec")
    dissents = (
        work.filter(state=State.ADJUDICATION)
        .annotate(since=Min("assignments__opened_at", filter=Q(assignments__role__in=ADJUDICATORS)))
        .filter(since__lt=before)
        .order_by("since")
    )
    stuck = idle(work).annotate(since=F("opened_at")).order_by("opened_at")
    return Attention(*_first(dissents), *_first(stuck), _drifting(), languages_missing())


def _first(cases: QuerySet[Case]) -> tuple[list[Case], int]:
    found = list(cases[: SHOWN + 1])
    return found[:SHOWN], cases.order_by().count() if len(found) > SHOWN else len(found)


def _drifting() -> list[Drifting]:
    """By the blind verdicts on closed cases."""
    lately = Q(submitted_at__gte=timezone.now() - LATELY)
    right = Q(answers__verdict=Verdict.APPROVE, case__state=State.APPROVED) | Q(
        answers__verdict=Verdict.REJECT, case__state=State.REJECTED
    )
    rows = (
        counted_reviews()
        .filter(phase=Phase.COMMIT, case__kind=Case.Kind.WORK, case__state__in=[State.APPROVED, State.REJECTED])
        .exclude(role__in=ADJUDICATORS)
        .order_by()
        .values("physician")
        .annotate(
            old=Count("pk", filter=~lately),
            old_right=Count("pk", filter=~lately & right),
            new=Count("pk", filter=lately),
            new_right=Count("pk", filter=lately & right),
        )
        .filter(old__gte=FEWEST, new__gte=FEWEST)
    )
    shares = {row["physician"]: (row["old_right"] / row["old"], row["new_right"] / row["new"]) for row in rows}
    fallen = {pk: [f"{share:.0%}" for share in both] for pk, both in shares.items() if both[0] - both[1] >= DRIFT}
    people = User.objects.filter(pk__in=fallen).order_by("username") if fallen else []
    return [Drifting(physician, *fallen[physician.pk]) for physician in people]
