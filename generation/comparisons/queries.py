"""Two prompt sets side by side.

Pairs are made of first drafts: one for each record, or one for each record and endpoint where
several endpoints play a role (`Recipe.multiple_role`).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum

from generation import errors
from generation.models import Batch, BatchRole, Call, Comparison, Draft, Endpoint, Sample, SampleVersion, SourceRecord
from generation.models.work import Work
from review.labels import GROUNDS
from review.rules.shown_fields import Hidden, Shown, shown
from review.rules.state_machine import Ground, shown_status

Status = Work.Status

PairKey = tuple[int, int | None]  # a record, and the endpoint in the role that several may play
APPROVED, NOT_APPROVED, OPEN = "approved", "not-approved", "open"
OUTCOMES = (APPROVED, NOT_APPROVED, OPEN)


def comparisons() -> QuerySet[Comparison]:
    """All comparisons, newest first, with the number of records of each."""
    first = Q(batches__arm="A", batches__drafts__parent__isnull=True, batches__drafts__version=1)
    return Comparison.objects.select_related("source", "created_by").annotate(
        records_count=Count("batches__drafts__record", filter=first, distinct=True)
    )


def comparison(pk: int) -> Comparison:
    """One comparison. Raises UnknownComparison."""
    row = comparisons().filter(id=pk).first()
    if row is None:
        raise errors.UnknownComparison(str(pk))
    return row


@dataclass(frozen=True, slots=True)
class Arm:
    """The results of one batch of a comparison."""

    batch: Hidden[Batch]
    endpoints: Hidden[str]
    samples: int
    approved: int
    at_once: int
    stopped: int
    failed: int
    calls: int
    cost: Decimal

    @property
    @shown
    def arm(self) -> str:
        return self.batch.arm

    @property
    @Shown("batch")
    def number(self) -> int:
        return self.batch.pk

    @property
    @shown
    def prompts(self) -> str:
        return self.batch.prompts


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Both batches, and the number of pairs of drafts by their outcome with A and with B.

    `only_a` and `only_b` are the discordant pairs; `chance` is the two-sided exact probability of a
    split at least as uneven as theirs if both prompt sets were equally good (McNemar 1947, exact
    form), None if there are none.
    """

    arms: tuple[Arm, Arm]
    pairs: Counter[tuple[str, str]]

    @property
    def table(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """A row for each outcome with A, containing a count for each outcome with B."""
        rows = []
        for outcome in OUTCOMES:
            counts = tuple(self.pairs[outcome, with_b] for with_b in OUTCOMES)
            rows.append((outcome, counts))
        return tuple(rows)

    @property
    def only_a(self) -> int:
        return self.pairs[APPROVED, NOT_APPROVED]

    @property
    def only_b(self) -> int:
        return self.pairs[NOT_APPROVED, APPROVED]

    @property
    def chance(self) -> float | None:
        return sign_test(self.only_a, self.only_b)


def sign_test(one: int, other: int) -> float | None:
    """The two-sided exact binomial probability of a split at least as uneven as `one` to `other`.

    It is the probability if both are equally likely.
    """
    from scipy.special import bdtr  # takes long to import

    n = one + other
    if n:
        return min(1.0, 2 * float(bdtr(min(one, other), n, 0.5)))
    return None


def compare_arms(comparison: Comparison) -> ComparisonResult:
    """Both arms and their paired counts: a few queries, the outcomes streamed."""
    batches = list(comparison.batches.order_by("arm").select_related("source"))
    outcomes = [_outcomes(batch) for batch in batches]
    pairs: Counter[tuple[str, str]] = Counter()
    for key, outcome in outcomes[0].items():
        pairs[outcome, outcomes[1].get(key, OPEN)] += 1
    first, second = (_arm(batch) for batch in batches)
    return ComparisonResult((first, second), pairs)


def _arm(batch: Batch) -> Arm:
    versions = SampleVersion.objects.filter(sample__batch=batch, status=SampleVersion.Status.APPROVED)
    versions = versions.exclude(case__ground=Ground.UNREVIEWED)
    bound = BatchRole.objects.filter(batch=batch).order_by("pk").values_list("role", "endpoint__name")
    return Arm(
        batch=batch,
        endpoints=", ".join(f"{role}: {name}" for role, name in bound),
        samples=Sample.objects.filter(batch=batch).count(),
        **versions.aggregate(approved=Count("pk"), at_once=Count("pk", filter=Q(number=1))),
        **Draft.objects.filter(batch=batch).aggregate(
            stopped=Count("pk", filter=Q(gate__in=[Draft.Gate.STOPPED, Draft.Gate.DISCARDED])),
            failed=Count("pk", filter=Q(status=Status.FAILED)),
        ),
        **Call.objects.filter(job=batch).aggregate(calls=Count("pk"), cost=Sum("cost", default=Decimal(0))),
    )


_FIRST = Q(parent=None)


def _first_drafts(**filters: Any) -> QuerySet[Draft]:
    return Draft.objects.filter(_FIRST, sample=None, version=1, **filters)


def _outcomes(batch: Batch) -> dict[PairKey, str]:
    """The outcome of each pair key in a batch.

    Samples not sampled for review stay open: they say nothing about the prompts. If a first draft
    led to several samples, the first one counts; if it was merged into another draft, that draft's
    sample counts; if a check sent it back to the generator, the draft that followed it counts.
    """
    outcomes: dict[PairKey, str] = {}
    drafts = Draft.objects.filter(_FIRST | ~Q(returned=[]), batch=batch, sample=None, version=1).order_by("pk")
    for record, endpoint, status, gate in drafts.values_list("record", "endpoint", "status", "gate").iterator():
        outcomes[record, endpoint] = NOT_APPROVED
        if status in (Status.QUEUED, Status.RUNNING) or gate == Draft.Gate.STOPPED:
            outcomes[record, endpoint] = OPEN
    unreviewed = Exists(SampleVersion.objects.filter(sample=OuterRef("sample"), case__ground=Ground.UNREVIEWED))
    for _batch, record, endpoint, status, is_unreviewed in _first_samples([batch], "sample__status", unreviewed):
        if (record, endpoint) in outcomes:  # a control has no endpoint
            outcomes[record, endpoint] = _outcome(status, is_unreviewed)
    return outcomes


def _first_samples(
    batches: Sequence[Batch], *columns: Any, records: Collection[int] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Batch, record, endpoint and columns of the samples of first drafts.

    Of several for one pair, the last counts: earlier samples come after later ones, and a draft's
    own samples after merged ones.
    """
    first = SampleVersion.objects.filter(sample__batch__in=batches, number=1).order_by("-sample")
    for record, endpoint in (
        ("draft__arrivals__record", "draft__arrivals__endpoint"),
        ("sample__record", "draft__endpoint"),
    ):
        rows = first.filter(**{f"{record}__isnull": False})
        if records is not None:
            rows = first.filter(**{f"{record}__in": records})
        yield from rows.values_list("sample__batch", record, endpoint, *columns).iterator()


def _outcome(status: str, unreviewed: bool) -> str:
    if unreviewed or status in (Sample.Status.IN_REVIEW, Sample.Status.REGENERATING):
        return OPEN
    if status == Sample.Status.APPROVED:
        return APPROVED
    return NOT_APPROVED


@dataclass(frozen=True, slots=True)
class RecordSide:
    """One arm's result for a pair. `version` is the newest one, None if there is no sample."""

    batch: Hidden[Batch]
    draft: Hidden[Draft | None]
    version: Hidden[SampleVersion | None]

    @property
    @shown
    def status(self) -> str:
        """The sample's status; without a sample, the draft's gate or status."""
        if self.version is not None:
            return shown_status(self.version.sample.status, self.version.case.ground)
        if self.draft:
            return self.draft.gate or self.draft.status
        return ""

    @property
    def label(self) -> Any:
        """The status in words."""
        if self.version is not None:
            unreviewed = self.version.case.ground == Ground.UNREVIEWED
            if unreviewed:
                return GROUNDS[Ground.UNREVIEWED]
            return self.version.sample.get_status_display()
        if self.draft is None:
            return ""
        if self.draft.gate:
            return self.draft.get_gate_display()
        return self.draft.get_status_display()

    @property
    @shown
    def sample(self) -> int | None:
        if self.version:
            return self.version.sample_id
        return None

    @property
    @Shown("version")
    def number(self) -> int | None:
        if self.version:
            return self.version.number
        return None

    @property
    @shown
    def traps(self) -> Sequence[str]:
        if self.version is None:
            return ()
        return list(self.version.traps)


@dataclass(frozen=True, slots=True)
class RecordPair:
    """A record and what each arm made of it.

    `endpoint` played the role that several may play; None if there is no such role.
    """

    record: Hidden[SourceRecord]
    endpoint: Hidden[Endpoint | None]
    a: RecordSide
    b: RecordSide

    @property
    def sides(self) -> tuple[RecordSide, RecordSide]:
        return self.a, self.b

    @property
    @shown
    def differs(self) -> bool:
        """Whether the outcomes or the planted traps differ."""
        return self.a.status != self.b.status or set(self.a.traps) != set(self.b.traps)

    @property
    @Shown("record")
    def record_id(self) -> str:
        return self.record.external_id

    @property
    @Shown("endpoint")
    def model(self) -> str | None:
        if self.endpoint:
            return self.endpoint.name
        return None


def paired_drafts(comparison: Comparison) -> QuerySet[Draft]:
    """The first drafts of arm A, with record and endpoint: one for each pair of a comparison."""
    drafts = _first_drafts(batch__comparison=comparison, batch__arm="A").select_related("record", "endpoint")
    return drafts.defer("data", "record__content", "record__private")


def pairs(comparison: Comparison, first_drafts: Sequence[Draft]) -> list[RecordPair]:
    """The pairs of these drafts of arm A. The number of queries does not depend on their number."""
    batches = list(comparison.batches.order_by("arm"))
    records = {draft.record_id for draft in first_drafts}
    both_arms = _first_drafts(batch__in=batches, record__in=records).defer("data")
    drafts = {(row.batch_id, row.record_id, row.endpoint_id): row for row in both_arms}
    samples: dict[tuple[int, int, int | None], int] = {}
    for batch_id, record, endpoint, sample in _first_samples(batches, "sample", records=records):
        samples[batch_id, record, endpoint] = sample
    versions = SampleVersion.objects.filter(sample__in=set(samples.values())).select_related("sample", "case")
    newest = {version.sample_id: version for version in versions.defer("content", "case__spec").order_by("number")}

    def side(batch: Batch, draft: Draft) -> RecordSide:
        key = (batch.pk, draft.record_id, draft.endpoint_id)
        return RecordSide(batch, drafts.get(key), newest.get(samples.get(key, 0)))

    found = []
    for draft in first_drafts:
        a, b = side(batches[0], draft), side(batches[1], draft)
        found.append(RecordPair(draft.record, draft.endpoint, a, b))
    return found
