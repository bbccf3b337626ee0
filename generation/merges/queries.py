"""Reads merges: which drafts go on as one, why, and who changed it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, F, Max, QuerySet

from generation import errors
from generation.batches import rounds
from generation.batches.kind import BATCHES
from generation.models import BarrierRound, Batch, Draft, MergeEvent, NearMatch, SampleVersion
from generation.recipes import registry
from generation.recipes.recipe import Barrier
from review.rules.shown_fields import Hidden, Shown, shown


@dataclass(frozen=True, slots=True)
class MergedRow:
    """A draft that was merged into another one, or is its lead, with its title and text.

    `event` has the distance, the reason and the person (None: the recipe).
    """

    draft: Hidden[Draft]
    title: str
    text: Hidden[str]
    event: Hidden[MergeEvent | None]

    @property
    @Shown("draft")
    def number(self) -> int:
        return self.draft.pk

    @property
    @shown
    def into(self) -> int | None:
        return self.draft.onward_id

    @property
    @Shown("lead")
    def lead_number(self) -> int | None:
        if self.draft.onward:
            return self.draft.onward.parent_id
        return None

    @property
    @shown
    def distance(self) -> float | None:
        if self.event:
            return self.event.distance
        return None

    @property
    @shown
    def reason(self) -> str:
        if self.event:
            return self.event.reason
        return ""

    @property
    @shown
    def by(self) -> str | None:
        if self.event and self.event.actor:
            return self.event.actor.username
        return None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A draft past a barrier, its lead, and the drafts merged into it.

    `sample`: the key of its sample.
    """

    onward: Draft
    lead: MergedRow
    merged: tuple[MergedRow, ...]
    sample: str


def barrier_of(batch: Batch, step: int) -> Barrier:
    """The barrier at a step of a batch's recipe. Raises NoBarrier."""
    steps = registry.recipe(batch.benchmark).steps
    barrier = None
    if step < len(steps):
        barrier = steps[step]
    if not isinstance(barrier, Barrier):
        raise errors.NoBarrier
    return barrier


def merging_batch(pk: int) -> Batch:
    """A batch whose drafts meet at some step. Raises NoBarrier, UnknownBatch."""
    batch = BATCHES.get(pk)
    if not rounds.has_barrier(batch):
        raise errors.NoBarrier
    return batch


def onward_drafts(batch: Batch, *, merged_only: bool = True) -> QuerySet[Draft]:
    """The drafts past a barrier; with `merged_only` just those into which others were merged."""
    drafts = Draft.objects.filter(batch=batch).annotate(arrived=Count("arrivals")).filter(arrived__gt=int(merged_only))
    return drafts.select_related("parent").defer("parent__data")


def groups(batch: Batch, onward: Sequence[Draft]) -> list[GroupRow]:
    """The groups behind these drafts, with a constant number of queries."""
    rows = Draft.objects.filter(onward__in=onward).select_related("record", "endpoint").order_by("pk")
    arrivals: dict[int | None, list[MergedRow]] = {}
    for row in merged_rows(batch, rows.defer("record__content", "record__private")):
        arrivals.setdefault(row.draft.onward_id, []).append(row)
    versions = SampleVersion.objects.filter(draft__in=onward).select_related("sample")
    samples = {version.draft_id: version.sample.key for version in versions.only("draft", "sample")}
    group_rows = []
    for draft in onward:
        arrived = arrivals[draft.pk]
        lead = arrived[0]
        for row in arrived:
            if row.draft.pk == draft.parent_id:
                lead = row
        others = tuple(row for row in arrived if row is not lead)
        group_rows.append(GroupRow(draft, lead, others, samples.get(draft.pk, "")))
    return group_rows


def merged_rows(batch: Batch, rows: Iterable[Draft]) -> list[MergedRow]:
    """Drafts that arrived at a barrier, each with its latest event, which says where it is now."""
    drafts = list(rows)
    latest = MergeEvent.objects.filter(draft__in=drafts).values("draft").annotate(last=Max("pk")).values("last")
    events = {event.draft_id: event for event in MergeEvent.objects.filter(pk__in=latest).select_related("actor")}
    return [MergedRow(row, *_describe(batch, row), events.get(row.pk)) for row in drafts]


def _describe(batch: Batch, row: Draft) -> tuple[str, str]:
    return barrier_of(batch, row.step).describe(row.data)


def merges(batch: Batch) -> QuerySet[Draft]:
    """The drafts of a batch that are currently merged into another one."""
    return Draft.objects.filter(batch=batch, onward__isnull=False).exclude(pk=F("onward__parent")).order_by("pk")


def decisions(batch: Batch) -> QuerySet[MergeEvent]:
    """The merges that people made or undid in a batch, newest first."""
    events = MergeEvent.objects.filter(draft__batch=batch, distance__isnull=True)  # the recipe's merges have a distance
    return events.select_related("actor").order_by("-pk")


@dataclass(frozen=True, slots=True)
class NearRow:
    """A draft of a later round and a similar earlier one, each with title and text."""

    draft: Hidden[Draft]
    earlier: Hidden[Draft]
    title: str
    text: Hidden[str]
    earlier_title: str
    earlier_text: Hidden[str]
    distance: float
    reason: Hidden[str]

    @property
    @Shown("draft")
    def number(self) -> int:
        return self.draft.pk

    @property
    @Shown("earlier")
    def earlier_number(self) -> int:
        return self.earlier.pk

    @property
    @shown
    def earlier_batch(self) -> int:
        return int(self.earlier.batch_id)


def near_matches(batch: Batch) -> QuerySet[NearMatch]:
    """Drafts that resemble those of earlier rounds and batches, and are not merged with them."""
    matches = NearMatch.objects.filter(draft__batch=batch, draft__onward__isnull=False, earlier__onward__isnull=False)
    matches = matches.exclude(draft__onward=F("earlier__onward")).select_related("draft__record", "earlier__record")
    for draft in ("draft", "earlier"):
        matches = matches.defer(f"{draft}__record__content", f"{draft}__record__private")
    return matches.order_by("pk")


def near_rows(batch: Batch, matches: Iterable[NearMatch]) -> list[NearRow]:
    """Near matches with the texts that people compare."""
    rows = []
    for match in matches:
        text, earlier_text = _describe(batch, match.draft), _describe(batch, match.earlier)
        rows.append(NearRow(match.draft, match.earlier, *text, *earlier_text, match.distance, match.reason))
    return rows


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """How many drafts reached a batch's barriers, as how many they went on, how many still wait."""

    arrived: int
    onward: int
    waiting: int
    rounds: int


def merge_counts(batch: Batch) -> MergeCounts:
    """The counts of a batch."""
    drafts = Draft.objects.filter(batch=batch)
    joined = drafts.filter(onward__isnull=False).aggregate(arrived=Count("pk"), onward=Count("onward", distinct=True))
    return MergeCounts(
        **joined,
        waiting=drafts.filter(at_barrier=True, status=Draft.Status.QUEUED).count(),
        rounds=BarrierRound.objects.filter(batch=batch).count(),
    )
