"""Two sets of prompts side by side."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import comb
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum

from generation.models import Batch, BatchRole, Call, Comparison, Draft, Sample, SampleVersion, SourceRecord
from generation.models.work import Work
from review.labels import GROUNDS
from review.rules.state_machine import Ground, shown_status

Status = Work.Status

APPROVED, NOT_APPROVED, OPEN = "approved", "not-approved", "open"
OUTCOMES = (APPROVED, NOT_APPROVED, OPEN)


def comparisons() -> QuerySet[Comparison]:
    """All comparisons, newest first, with how many records each is over."""
    first = Q(batches__arm="A", batches__drafts__parent__isnull=True, batches__drafts__version=1)
    return Comparison.objects.select_related("source", "created_by").annotate(
        records_count=Count("batches__drafts", filter=first)
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
    """Both batches, and the records by what became of them in each.

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
    tail: int = sum(comb(n, k) for k in range(min(one, other) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**n)))  # a fraction: 2**n is beyond a float from n = 1,024 on


def compare_arms(comparison: Comparison) -> ComparisonResult:
    """Both arms and their paired counts: a few queries, the outcomes streamed."""
    batches = list(comparison.batches.order_by("arm").select_related("source"))
    outcomes = [_outcomes(batch) for batch in batches]
    pairs: Counter[tuple[str, str]] = Counter()
    for record, outcome in outcomes[0].items():
        pairs[outcome, outcomes[1].get(record, OPEN)] += 1
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


def _outcomes(batch: Batch) -> dict[int, str]:
    """Record -> what became of it in a batch. What nobody was to review stays open: it says nothing about the prompts."""
    first = Draft.objects.filter(batch=batch, parent__isnull=True, sample__isnull=True)
    found = {
        record: OPEN if status in (Status.QUEUED, Status.RUNNING) or gate == Draft.Gate.STOPPED else NOT_APPROVED
        for record, status, gate in first.values_list("record", "status", "gate").iterator()
    }
    unreviewed = SampleVersion.objects.filter(sample=OuterRef("pk"), case__ground=Ground.UNREVIEWED)
    standing = Sample.objects.filter(batch=batch).order_by("-pk").values_list("record", "status", Exists(unreviewed))
    for record, status, nobody in standing.iterator():  # where a record made several samples, the first one counts
        found[record] = (
            APPROVED
            if status == Sample.Status.APPROVED and not nobody
            else OPEN
            if nobody or status in (Sample.Status.IN_REVIEW, Sample.Status.REGENERATING)
            else NOT_APPROVED
        )
    return found


@dataclass(frozen=True, slots=True)
class Side:
    """What one arm has made of a record: `version` is its newest, None where there is no sample."""

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
    """A record, and what each arm has made of it."""

    record: SourceRecord
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


def records_of(comparison: Comparison) -> QuerySet[SourceRecord]:
    """The records that a comparison is over."""
    first = Draft.objects.filter(batch__comparison=comparison, batch__arm="A", parent__isnull=True, version=1)
    return SourceRecord.objects.filter(pk__in=first.values("record")).defer("content", "private")


def pairs(comparison: Comparison, records: Sequence[SourceRecord]) -> list[Pair]:
    """What both arms made of these records: three queries however many there are."""
    batches = list(comparison.batches.order_by("arm"))
    rows = Draft.objects.filter(batch__in=batches, record__in=records, parent__isnull=True, sample__isnull=True)
    drafts = {(row.batch_id, row.record_id): row for row in rows.defer("data")}
    versions: dict[tuple[int, int], SampleVersion] = {}
    made = SampleVersion.objects.filter(sample__batch__in=batches, sample__record__in=records).select_related(
        "sample", "case"
    )
    for version in made.defer("content", "case__spec").order_by(F("sample").desc(), "number"):
        versions[version.sample.batch_id, version.sample.record_id] = version

    def side(batch: Batch, record: SourceRecord) -> Side:
        place = (batch.pk, record.pk)
        return Side(batch, drafts.get(place), versions.get(place))

    return [Pair(record, (side(batches[0], record), side(batches[1], record))) for record in records]
