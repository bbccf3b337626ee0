"""Records people's decisions on merges in the audit trail of the samples concerned (docs/audit.md).

A decision made before there is a sample follows the opening of the sample's first case.
"""

from collections.abc import Collection, Iterable

from generation.models import Draft, MergeEvent, Sample, SampleVersion
from generation.recipes import registry
from generation.recipes.recipe import Barrier
from review.audit.trail import record_at
from review.models import Case, Event

KINDS = {MergeEvent.Kind.MERGED: Event.Kind.MERGED, MergeEvent.Kind.UNDONE: Event.Kind.UNMERGED}


def record_decisions(decisions: Iterable[MergeEvent], samples: Collection[Sample]) -> None:
    """Record decisions in the trail of each sample, with the case of its newest version."""
    versions = SampleVersion.objects.filter(sample__in=samples).select_related("case").defer("content", "case__spec")
    newest = {version.sample_id: version.case for version in versions.order_by("number")}
    for decision in decisions:
        for case in newest.values():
            _record(decision, case)


def record_earlier_decisions(row: Draft, case: Case) -> None:
    """Record decisions on a draft that precede its sample, with the sample's first case."""
    if not any(isinstance(step, Barrier) for step in registry.recipe(case.benchmark).steps):
        return
    onward, parent = {row.pk}, row.parent_id
    while parent is not None:
        onward.add(parent)
        parent = Draft.objects.values_list("parent", flat=True).get(pk=parent)
    for decision in _decisions(onward):
        _record(decision, case)


def _decisions(onward: Collection[int]) -> list[MergeEvent]:
    """People's decisions on the drafts that are or were merged into these ones, in order."""
    merged_drafts = MergeEvent.objects.filter(into__in=onward).values("draft")
    into: dict[int, int] = {}
    decisions = []
    for event in MergeEvent.objects.filter(draft__in=merged_drafts).select_related("actor").order_by("pk"):
        previous = into.get(event.draft_id)
        into[event.draft_id] = event.into_id
        if event.distance is None and (event.into_id in onward or previous in onward):
            decisions.append(event)
    return decisions


def _record(decision: MergeEvent, case: Case) -> None:
    record_at(
        decision.at,
        case,
        KINDS[MergeEvent.Kind(decision.kind)],
        decision.actor,
        merge=decision.pk,
        draft=decision.draft_id,
        into=decision.into_id,
        reason=decision.reason,
    )
