"""How often two physicians came to the same blind verdict, pair by pair, and on which cases not."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery

from review.access.visibility import counted_reviews
from review.common.figures import figure
from review.models import Case, User
from review.rules.state_machine import Phase, Role


@dataclass(frozen=True, slots=True)
class PhysicianPair:
    """A first and a second reviewer: the cases that both judged blind, and those with one verdict.

    `key`: names the pair in an address.
    """

    first: User
    second: User
    cases: int
    agreed: int

    @property
    def key(self) -> str:
        return f"{self.first.pk}-{self.second.pk}"

    @property
    def differed(self) -> int:
        return self.cases - self.agreed

    @property
    def share(self) -> float:
        return self.agreed / self.cases


def physician_pairs(benchmark: str = "") -> list[PhysicianPair]:
    """The pairs of physicians with a case in common, the most cases first: two queries."""
    counts = _pair_counts(benchmark)
    keys: set[int] = set()
    for first, second, _cases, _agreed in counts:
        keys |= {first, second}
    people = User.objects.in_bulk(keys)
    pairs = [PhysicianPair(people[first], people[second], cases, agreed) for first, second, cases, agreed in counts]
    return sorted(pairs, key=lambda pair: (-pair.cases, str(pair.first), str(pair.second)))


@figure(("",))
def _pair_counts(benchmark: str) -> list[tuple[int, int, int, int]]:
    """First and second physician, the cases that both judged blind, and those with one verdict."""
    rows = _both_verdicts(benchmark).order_by().values_list("physician", "other")
    return list(rows.annotate(cases=Count("pk"), agreed=Count("pk", filter=Q(verdict=F("other_verdict")))))


def cases_of_pair(first: int, second: int, benchmark: str = "", *, differed: bool) -> QuerySet[Case]:
    """The cases that two physicians judged blind, or only those on which their verdicts differ."""
    reviews = _both_verdicts(benchmark).filter(physician=first, other=second)
    if differed:
        reviews = reviews.exclude(verdict=F("other_verdict"))
    return Case.objects.filter(pk__in=reviews.values("case")).defer("spec").order_by("-pk")


def _both_verdicts(benchmark: str) -> QuerySet[Any]:
    """The first reviews of cases with a blind second one: by whom (`other`), its verdict."""
    blind = counted_reviews().filter(phase=Phase.COMMIT, case__kind=Case.Kind.WORK)
    second = blind.filter(case=OuterRef("case"), role=Role.SECONDARY)
    first = blind.filter(role=Role.PRIMARY)
    if benchmark:
        first = first.filter(case__benchmark=benchmark)
    return first.annotate(
        other=Subquery(second.values("physician")[:1]), other_verdict=Subquery(second.values("verdict")[:1])
    ).filter(other__isnull=False)
