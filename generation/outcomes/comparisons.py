"""Two sets of prompts side by side.

Paired are the first drafts: one a record, or one a record and endpoint where several endpoints play a role (`Recipe.several`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum

from generation.models import Batch, BatchRole, Call, Comparison, Draft, Endpoint, Sample, SampleVersion, SourceRecord
from generation.models.work import Work
from review.labels import GROUNDS
from review.rules.state_machine import Ground, shown_status

Status = Work.Status

Place = tuple[int, int | None]  # a record, and the endpoint that plays the role of several
APPROVED, NOT_APPROVED, OPEN = "approved", "not-approved", "open"
OUTCOMES = (APPROVED, NOT_APPROVED, OPEN)


def comparisons() -> QuerySet[Comparison]:
    """All comparisons, newest first, with how many records each is over."""
    first = Q(batches__arm="A", batches__drafts__parent__isnull=True, batches__drafts__version=1)
    return Comparison.objects.select_related("source", "created_by").annotate(
        records_count=Count("batches__drafts__record", filter=first, distinct=True)
    )


@dataclass(frozen=True, slots=True)
class Arm:
    """One batch of a comparison: what it came to."""

    batch: Batch
    endpoints: str
    samples: int
    approved: int
    at_once: int
    stopped: int
    failed: int
    calls: int
    cost: Decimal


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Both batches, and the pairs of drafts by what became of them in each.

    `table`: a line for each outcome with A, in it a number for each outcome with B. `only_a` and `only_b` are the discordant
    pairs; `chance` is the two-sided exact probability of a split as uneven as theirs if both sets were equally good (McNemar
    1947, exact form), None where there is none.
    """

    arms: tuple[Arm, Arm]
    table: tuple[tuple[str, tuple[int, ...]], ...]

    def _count(self, a: str, b: str) -> int:
        return dict(self.table)[a][OUTCOMES.index(b)]

    @property
    def only_a(self) -> int:
        return self._count(APPROVED, NOT_APPROVED)

    @property
    def only_b(self) -> int:
        return self._count(NOT_APPROVED, APPROVED)

    @property
    def chance(self) -> float | None:
        return sign_test(self.only_a, self.only_b)


def sign_test(one: int, other: int) -> float | None:
    """The two-sided exact binomial probability of a split at least as uneven as `one` to `other` when both are as likely."""
    n = one + other
    if not n:
        return None
    tail, ways = 0, 1
    for k in range(min(one, other) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)  # to choose k + 1 of n
    return min(1.0, float(Fraction(2 * tail, 2**n)))  # a fraction: 2**n is beyond a float from n = 1,024 on


def compare_arms(comparison: Comparison) -> ComparisonResult:
    """Both arms and their paired counts: a few queries, the outcomes streamed."""
    batches = list(comparison.batches.order_by("arm").select_related("source"))
    outcomes = [_outcomes(batch) for batch in batches]
    pairs: Counter[tuple[str, str]] = Counter()
    for place, outcome in outcomes[0].items():
        pairs[outcome, outcomes[1].get(place, OPEN)] += 1
    first, second = (_arm(batch) for batch in batches)
    table = tuple((a, tuple(pairs[a, b] for b in OUTCOMES)) for a in OUTCOMES)
    return ComparisonResult((first, second), table)


def _arm(batch: Batch) -> Arm:
    versions = SampleVersion.objects.filter(sample__batch=batch, status=SampleVersion.Status.APPROVED)
    versions = versions.exclude(case__ground=Ground.UNREVIEWED)
    approved = versions.aggregate(all=Count("pk"), at_once=Count("pk", filter=Q(number=1)))
    drafts = Draft.objects.filter(batch=batch).aggregate(
        stopped=Count("pk", filter=Q(gate__in=[Draft.Gate.STOPPED, Draft.Gate.DISCARDED])),
        failed=Count("pk", filter=Q(status=Status.FAILED)),
    )
    spent = Call.objects.filter(job=batch).aggregate(calls=Count("pk"), cost=Sum("cost"))
    bound = BatchRole.objects.filter(batch=batch).order_by("pk").values_list("role", "endpoint__name")
    return Arm(
        batch=batch,
        endpoints=", ".join(f"{role}: {name}" for role, name in bound),
        samples=Sample.objects.filter(batch=batch).count(),
        approved=approved["all"],
        at_once=approved["at_once"],
        stopped=drafts["stopped"],
        failed=drafts["failed"],
        calls=spent["calls"],
        cost=spent["cost"] or Decimal(0),
    )


def _first_drafts(**of: Any) -> QuerySet[Draft]:
    return Draft.objects.filter(parent__isnull=True, sample__isnull=True, version=1, **of)


def _outcomes(batch: Batch) -> dict[Place, str]:
    """Place -> what became of it in a batch. What nobody was to review stays open: it says nothing about the prompts.

    Where a place made several samples, the first one counts; where it was merged into another one's, that one's.
    """
    found: dict[Place, str] = {
        (record, endpoint): OPEN
        if status in (Status.QUEUED, Status.RUNNING) or gate == Draft.Gate.STOPPED
        else NOT_APPROVED
        for record, endpoint, status, gate in _first_drafts(batch=batch)
        .values_list("record", "endpoint", "status", "gate")
        .iterator()
    }
    unreviewed = SampleVersion.objects.filter(sample=OuterRef("sample"), case__ground=Ground.UNREVIEWED)
    made = SampleVersion.objects.filter(sample__batch=batch, number=1).annotate(nobody=Exists(unreviewed))
    # Later ones are overwritten by earlier ones, and those of another place by the place's own.
    merged = made.filter(draft__arrivals__isnull=False).order_by("-sample")
    for rows in (
        merged.values_list("draft__arrivals__record", "draft__arrivals__endpoint", "sample__status", "nobody"),
        made.order_by("-sample").values_list("sample__record", "draft__endpoint", "sample__status", "nobody"),
    ):
        for record, endpoint, status, nobody in rows.iterator():
            if (record, endpoint) in found:  # a control has no endpoint
                found[record, endpoint] = _outcome(status, nobody)
    return found


def _outcome(status: str, nobody: bool) -> str:
    if nobody or status in (Sample.Status.IN_REVIEW, Sample.Status.REGENERATING):
        return OPEN
    return APPROVED if status == Sample.Status.APPROVED else NOT_APPROVED


@dataclass(frozen=True, slots=True)
class Side:
    """What one arm has made of a place: `version` is its newest, None where there is no sample."""

    batch: Batch
    draft: Draft | None
    version: SampleVersion | None

    @property
    def status(self) -> str:
        """The sample's status; without a sample the draft's gate, or its status."""
        if self.version is not None:
            return shown_status(self.version.sample.status, self.version.case.ground)
        return (self.draft.gate or self.draft.status) if self.draft else ""

    @property
    def label(self) -> Any:
        """The status in words."""
        if self.version is not None:
            nobody = self.version.case.ground == Ground.UNREVIEWED
            return GROUNDS[Ground.UNREVIEWED] if nobody else self.version.sample.get_status_display()
        if self.draft is None:
            return ""
        return self.draft.get_gate_display() if self.draft.gate else self.draft.get_status_display()


@dataclass(frozen=True, slots=True)
class Pair:
    """A record, the endpoint that played the role of several (None: there is no such role), and what each arm has made."""

    record: SourceRecord
    endpoint: Endpoint | None
    sides: tuple[Side, Side]

    @property
    def a(self) -> Side:
        return self.sides[0]

    @property
    def b(self) -> Side:
        return self.sides[1]

    @property
    def differs(self) -> bool:
        """Whether the outcomes or the planted traps are not the same."""
        traps = [set(side.version.traps) if side.version else set() for side in self.sides]
        return self.a.status != self.b.status or traps[0] != traps[1]


def places_of(comparison: Comparison) -> QuerySet[Draft]:
    """The first drafts of arm A, with record and endpoint: what the pairs of a comparison are of."""
    found = _first_drafts(batch__comparison=comparison, batch__arm="A").select_related("record", "endpoint")
    return found.defer("data", "record__content", "record__private")


def pairs(comparison: Comparison, places: Sequence[Draft]) -> list[Pair]:
    """What both arms made of these places: a few queries however many there are."""
    batches = list(comparison.batches.order_by("arm"))
    records = {place.record_id for place in places}
    rows = _first_drafts(batch__in=batches, record__in=records).defer("data")
    drafts = {(row.batch_id, row.record_id, row.endpoint_id): row for row in rows}
    first = SampleVersion.objects.filter(sample__batch__in=batches, number=1).order_by("-sample")
    own = first.filter(sample__record__in=records)
    merged = first.filter(draft__arrivals__record__in=records)
    at, of_arrivals = ("sample__batch", "sample"), ("draft__arrivals__record", "draft__arrivals__endpoint")
    samples: dict[tuple[int, int, int | None], int] = {}  # as in `_outcomes`: a place's first one outweighs another's
    for batch, sample, record, endpoint in (
        *merged.values_list(*at, *of_arrivals),
        *own.values_list(*at, "sample__record", "draft__endpoint"),
    ):
        samples[batch, record, endpoint] = sample
    made = SampleVersion.objects.filter(sample__in=set(samples.values())).select_related("sample", "case")
    newest = {version.sample_id: version for version in made.defer("content", "case__spec").order_by("number")}

    def side(batch: Batch, place: Draft) -> Side:
        where = (batch.pk, place.record_id, place.endpoint_id)
        return Side(batch, drafts.get(where), newest.get(samples.get(where, 0)))

    return [Pair(place.record, place.endpoint, (side(batches[0], place), side(batches[1], place))) for place in places]
