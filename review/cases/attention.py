"""What needs an admin's attention: stuck cases, physicians whose judgment or care changed."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, F, Min, Q, QuerySet
from django.utils import timezone

from review.access.visibility import counted_reviews
from review.cases.care import Care, careless_physicians
from review.cases.queries import IDLE_AFTER, idle, languages_missing
from review.common.figures import figure
from review.models import Case, User
from review.rules.state_machine import ADJUDICATORS, Phase, State, Verdict

RECENT_PERIOD = timedelta(days=28)
MAX_LISTED = 5  # of each kind
MIN_CASES = 10  # closed cases needed in the recent period and before it to report a physician
MIN_DROP = 0.2  # reported drop of the share of verdicts that match the outcome


@dataclass(frozen=True, slots=True)
class DriftingPhysician:
    """A physician whose blind verdicts match the outcomes less often than before: both shares."""

    physician: User
    before: str
    lately: str


@dataclass(frozen=True, slots=True)
class Attention:
    """The first few items of each kind, the oldest first, and the total numbers of cases."""

    dissents: list[Case]
    dissents_count: int
    stuck: list[Case]
    stuck_count: int
    drifting: list[DriftingPhysician]
    careless: tuple[Care, ...]
    languages_missing: int

    def __bool__(self) -> bool:
        return bool(self.dissents or self.stuck or self.drifting or self.careless or self.languages_missing)


def attention() -> Attention:
    """Collect everything that needs attention, in as many queries however many cases there are."""
    before = timezone.now() - IDLE_AFTER
    work = Case.objects.filter(kind=Case.Kind.WORK).defer("spec")
    dissents = (
        work.filter(state=State.ADJUDICATION)
        .annotate(since=Min("assignments__opened_at", filter=Q(assignments__role__in=ADJUDICATORS)))
        .filter(since__lt=before)
        .order_by("since")
    )
    stuck = idle(work).annotate(since=F("opened_at")).order_by("opened_at")
    return Attention(*_first(dissents), *_first(stuck), _drifting(), careless_physicians(), languages_missing())


def _first(cases: QuerySet[Case]) -> tuple[list[Case], int]:
    """The first cases, and the total number; counts in the database only if there are more."""
    first = list(cases[: MAX_LISTED + 1])
    return first[:MAX_LISTED], cases.order_by().count() if len(first) > MAX_LISTED else len(first)


def _drifting() -> list[DriftingPhysician]:
    """The physicians with a drift, by name."""
    dropped = _drifts()
    physicians = User.objects.filter(pk__in=dropped).order_by("username") if dropped else []
    return [DriftingPhysician(physician, *dropped[physician.pk]) for physician in physicians]


@figure(())
def _drifts() -> dict[int, tuple[str, str]]:
    """Physician -> shares of their blind verdicts that match the outcome, before and lately."""
    recent = Q(submitted_at__gte=timezone.now() - RECENT_PERIOD)
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
            old=Count("pk", filter=~recent),
            old_right=Count("pk", filter=~recent & right),
            new=Count("pk", filter=recent),
            new_right=Count("pk", filter=recent & right),
        )
        .filter(old__gte=MIN_CASES, new__gte=MIN_CASES)
    )
    dropped = {}
    for row in rows:
        before, lately = row["old_right"] / row["old"], row["new_right"] / row["new"]
        if before - lately >= MIN_DROP:
            dropped[int(row["physician"])] = (f"{before:.0%}", f"{lately:.0%}")
    return dropped
