"""Merges drafts and undoes merges: an admin's decision against the barrier's step.

The decision is recorded as an event.

A draft past a barrier is made from one of the drafts that arrived, its lead; the others merged into
it are named in its data. Taking one of them out gives it a draft of its own from there on, and the
sample of the group says so: its content no longer names it, and `made` says that a person changed
merges. Merging two drafts ends the second one: its unfinished drafts are
dropped, and samples made from it are withdrawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Q
from django.utils import timezone

from generation import errors
from generation.batches import queries as batches_queries
from generation.batches import rounds
from generation.common.reasons import checked_reason
from generation.jobs import life_cycle
from generation.merges import queries
from generation.models import Draft, Job, MergeEvent, Sample, SampleVersion
from generation.models.work import Work
from generation.recipes import registry
from generation.samples import errata, merge_trail
from review.audit.trail import recording_events
from review.cases import services as cases_services
from review.models import User
from review.rules.permissions import Can, require

Status = Work.Status
Kind = MergeEvent.Kind
MERGED = "Merged"  # stored in place of an error name


@recording_events()
def undo_merge(draft_id: int, *, actor: User | None, reason: str) -> MergeEvent:
    """Take a draft out of the one that it was merged into; it goes on by itself.

    `actor`: None for the operator. Raises NotMerged, LeadOfGroup, ReasonMissing, TooLong,
    JobOver (the batch was cancelled).
    """
    row, reason_text = _lock_draft(draft_id, actor, reason)
    merged_draft = row.onward
    if merged_draft is None:
        raise errors.NotMerged
    if merged_draft.parent_id == row.pk:
        if merged_draft.arrivals.count() > 1:
            raise errors.LeadOfGroup
        raise errors.NotMerged
    [value] = batches_queries.draft_values([row])
    own_draft = rounds.onward_draft(row.batch, row.step, row, value, [])
    own_draft.save()
    _set_onward([row], own_draft)
    _update_merged_data(merged_draft)
    event = MergeEvent.objects.create(
        draft=row, into=own_draft, kind=Kind.UNDONE, actor=actor, reason=reason_text, at=timezone.now()
    )
    merge_trail.record_decisions([event], _lock_descendants(merged_draft)[1])
    life_cycle.settle(life_cycle.lock_job(row.batch_id), is_open=True)
    life_cycle.wake_workers()
    return event


@recording_events()
def merge_drafts(
    draft_id: int, other_id: int, *, actor: User | None, reason: str, batch_id: int | None = None
) -> list[MergeEvent]:
    """Merge the second draft, with everything merged into it, into the first one.

    Either is named as it arrived or as it goes on. `batch_id`: the batch of which both must be, if
    given. Raises NotMerged (one of them has not met others yet), OtherBarrier, SameGroup,
    UnknownDraft, ReasonMissing, TooLong, JobOver.
    """
    row, reason_text = _lock_draft(draft_id, actor, reason)
    other, _reason = _lock_draft(other_id, actor, reason)
    onward, ending = _onward_draft(row), _onward_draft(other)
    if onward.pk == ending.pk:
        raise errors.SameGroup
    arrivals, ending_arrivals = list(onward.arrivals.order_by("pk")), list(ending.arrivals.order_by("pk"))
    place = (arrivals[0].batch_id, arrivals[0].step)
    ending_place = (ending_arrivals[0].batch_id, ending_arrivals[0].step)
    if place != ending_place or batch_id not in (None, row.batch_id):
        raise errors.OtherBarrier
    descendants = _lock_descendants(ending)
    withdrawn = _end_descendants(*descendants, onward, actor, reason_text)
    _set_onward(ending_arrivals, onward)
    _update_merged_data(onward)
    now = timezone.now()
    decided: dict[str, Any] = {"actor": actor, "reason": reason_text, "withdrawn": withdrawn, "at": now}
    events = MergeEvent.objects.bulk_create(
        MergeEvent(draft=draft, into=onward, kind=Kind.MERGED, **decided) for draft in ending_arrivals
    )
    merge_trail.record_decisions(events, [*_lock_descendants(onward)[1], *descendants[1]])
    return events


def _lock_draft(draft_id: int, actor: User | None, reason: str) -> tuple[Draft, str]:
    """Lock the draft's batch; return the draft and the trimmed reason."""
    if actor is not None:
        require(actor, Can.PRODUCE)
    reason = checked_reason(reason)
    batch = Draft.objects.filter(id=draft_id).values_list("batch", flat=True).first()
    if batch is None:
        raise errors.UnknownDraft(str(draft_id))
    if life_cycle.lock_job(batch).status == Job.Status.CANCELLED:
        raise errors.JobOver
    return Draft.objects.select_related("batch", "onward").get(pk=draft_id), reason


def _onward_draft(row: Draft) -> Draft:
    """The draft that goes on for one that arrived; the same draft if it is one that goes on.

    Raises NotMerged.
    """
    if row.onward is not None:
        return row.onward
    if not row.arrivals.exists():
        raise errors.NotMerged
    return row


def _set_onward(rows: Iterable[Draft], onward: Draft) -> None:
    Draft.objects.filter(pk__in=[row.pk for row in rows]).update(onward=onward)


def _update_merged_data(onward: Draft) -> None:
    """Update what a draft's data says of the drafts merged into it.

    A lane that is working on the draft would not know of the change, so its lease is revoked.
    """
    arrivals = list(onward.arrivals.select_related("batch").order_by("pk"))
    lead = next(row for row in arrivals if row.pk == onward.parent_id)
    others = [row for row in arrivals if row.pk != lead.pk]
    value, *other_values = batches_queries.draft_values([lead, *others])
    barrier = queries.barrier_of(lead.batch, lead.step)
    row = Draft.objects.select_for_update(of=("self",), no_key=True).get(pk=onward.pk)
    before = row.data
    row.data = {**row.data, **barrier.join(value, other_values)}
    if row.status == Status.RUNNING:
        row.status, row.token, row.lease_until = Status.QUEUED, None, None
    row.save(update_fields=["data", "status", "token", "lease_until"])
    _update_samples(row, before)


def _update_samples(row: Draft, before: Mapping[str, Any]) -> None:
    """Let the samples of a draft say what is merged in them, and that a person changed it.

    Released samples stay as they are; the next release has the change.
    """
    changed = {name: value for name, value in row.data.items() if before.get(name) != value}
    if not changed:
        return
    [value] = batches_queries.draft_values([row])
    samples = Sample.objects.filter(versions__draft=row)
    for version in SampleVersion.objects.filter(sample__in=samples):
        update = {name: new for name, new in changed.items() if version.content.get(name) == before.get(name)}
        version.content = {**version.content, **update}
        if version.draft_id == row.pk:
            provenance = registry.recipe(row.batch.benchmark).sample(value).provenance
            known = {name: provenance[name] for name in version.provenance if name in provenance}
            version.provenance = {**version.provenance, **known}
        version.provenance = {**version.provenance, "merges": "changed by a person"}
        version.save(update_fields=["content", "provenance"])


def _lock_descendants(onward: Draft) -> tuple[set[int], list[Sample]]:
    """A draft with all its descendants, and the samples made from them, locked."""
    family = {onward.pk}
    while children := set(Draft.objects.filter(parent__in=family).values_list("pk", flat=True)) - family:
        family |= children
    sample_ids = Sample.objects.filter(Q(versions__draft__in=family) | Q(drafts__in=family)).values("pk")
    return family, list(Sample.objects.filter(pk__in=sample_ids).select_for_update(no_key=True).order_by("pk"))


def _end_descendants(
    family: set[int], samples: Sequence[Sample], onward: Draft, actor: User | None, reason: str
) -> str:
    """End all descendants of a draft (see `_lock_descendants`).

    Returns the keys of the samples withdrawn.
    """
    withdrawn = [sample.key for sample in samples if _withdraw_sample(sample, actor, reason)]
    unfinished = Draft.objects.filter(
        Q(pk__in=family) | Q(sample__in=samples),
        status__in=[Status.QUEUED, Status.RUNNING, Status.FAILED],
    )
    unfinished.update(
        status=Status.DROPPED, token=None, lease_until=None, error=MERGED, detail=f"Merged into draft {onward.pk}."
    )
    return ", ".join(withdrawn)


def _withdraw_sample(sample: Sample, actor: User | None, reason: str) -> bool:
    """Withdraw a sample from review, regeneration or later releases.

    Returns whether there was something to withdraw.
    """
    if sample.status == Sample.Status.APPROVED:
        errata.withdraw(sample.pk, actor=actor, reason=reason)
    elif sample.status == Sample.Status.REGENERATING:
        Sample.objects.filter(pk=sample.pk).update(status=Sample.Status.WITHDRAWN)
    elif sample.status == Sample.Status.IN_REVIEW:
        versions = SampleVersion.objects.filter(sample=sample, status=SampleVersion.Status.IN_REVIEW)
        for version in versions.select_related("case"):
            if version.case.closed_at is None:
                cases_services.withdraw(version.case_id, actor=actor, reason=reason)
        versions.update(status=SampleVersion.Status.WITHDRAWN)
        Sample.objects.filter(pk=sample.pk).update(status=Sample.Status.WITHDRAWN)
    else:
        return False
    return True
