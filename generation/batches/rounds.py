"""Runs barriers: a round runs the step once over all waiting drafts, and sends them on.

A round opens when no draft can still arrive.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from generation.batches import queries
from generation.engine import worker_lane
from generation.engine.bound_models import BoundModels
from generation.engine.task_queue import check_tries, finish
from generation.jobs import life_cycle
from generation.llm.errors import LLMError
from generation.models import BarrierRound, Batch, Draft, Job, MergeEvent, NearMatch
from generation.models.work import Work
from generation.recipes import registry
from generation.recipes.recipe import Barrier, DraftGroup, Dropped, NearDraft, Step
from generation.recipes.recipe import Draft as DraftValue

Status = Work.Status
OPEN = (Status.QUEUED, Status.RUNNING)
STREAMED = 100  # drafts that the engine has in memory at a time; a recipe's step may keep more


def next_step(recipe_steps: Sequence[Step | Barrier], step: int, outputs: Sequence[DraftValue]) -> int:
    """The index of the next step that applies to any output; the number of steps if none does."""
    following = step + 1
    while following < len(recipe_steps) and not any(map(recipe_steps[following].applies, outputs)):
        following += 1
    return following


def is_barrier(recipe_steps: Sequence[Step | Barrier], step: int) -> bool:
    """Whether drafts wait for one another at this step."""
    return step < len(recipe_steps) and isinstance(recipe_steps[step], Barrier)


def has_barrier(batch: Batch) -> bool:
    """Whether drafts of this batch may have to wait for one another."""
    return any(isinstance(step, Barrier) for step in registry.recipe(batch.benchmark).steps)


def repeats_step(recipe_steps: Sequence[Step | Barrier], step: int, output: DraftValue) -> bool:
    """Whether to run the step once more over its own output."""
    current = None
    if step < len(recipe_steps):
        current = recipe_steps[step]
    return isinstance(current, Step) and current.applies(output) and current.again(output)


def following_draft(recipe_steps: Sequence[Step | Barrier], parent: Draft, step: int, data: Mapping[str, Any]) -> Draft:
    """The unsaved draft that goes on from another one at a step."""
    return Draft(
        batch_id=parent.batch_id,
        record_id=parent.record_id,
        parent=parent,
        sample_id=parent.sample_id,
        version=parent.version,
        step=step,
        data=data,
        preferred=parent.preferred,
        endpoint_id=parent.endpoint_id,
        at_barrier=is_barrier(recipe_steps, step),
    )


def waiting_drafts(batch_id: int) -> QuerySet[Draft]:
    """The drafts to open a round for: waiting at a barrier that no open draft has yet to reach."""
    drafts = Draft.objects.filter(batch=batch_id)
    first = drafts.filter(status__in=OPEN).order_by("step").values_list("step", flat=True).first()
    step = -1
    if first is not None:
        step = first
    return drafts.filter(status=Status.QUEUED, at_barrier=True, round=None, step=step)


@transaction.atomic
def open_round(batch_id: int) -> BarrierRound | None:
    """Open a round for the drafts waiting at the first barrier; None if one can still arrive.

    Failed drafts cannot arrive. If they are retried later, they get a round of their own.
    """
    if not waiting_drafts(batch_id).exists():
        return None
    life_cycle.lock_job(batch_id)
    waiting = waiting_drafts(batch_id)
    step = waiting.values_list("step", flat=True).first()
    if step is None:  # another lane was faster
        return None
    rounds = BarrierRound.objects.filter(batch=batch_id, step=step)
    number = (rounds.aggregate(last=Max("number"))["last"] or 0) + 1
    opened = BarrierRound.objects.create(batch_id=batch_id, step=step, number=number, created_at=timezone.now())
    waiting.update(round=opened)
    return opened


class StoredArrivals:
    """`recipes.recipe.Arrivals` over stored drafts, read in chunks and anew for each iteration."""

    def __init__(self, drafts: QuerySet[Draft]) -> None:
        self._drafts = drafts

    async def __aiter__(self) -> AsyncIterator[tuple[int, DraftValue]]:
        last = 0
        while chunk := await sync_to_async(self._after)(last):
            for number, value in chunk:
                yield number, value
            last = chunk[-1][0]

    def _after(self, last: int) -> list[tuple[int, DraftValue]]:
        rows = list(self._drafts.filter(pk__gt=last).order_by("pk")[:STREAMED])
        pks = [row.pk for row in rows]
        return list(zip(pks, queries.draft_values(rows), strict=True))


async def work_on_round(row: BarrierRound, batch: Batch, models: BoundModels) -> None:
    """Run a barrier's step over the drafts of a round, and send them on."""
    try:
        check_tries(row)
        barrier = registry.recipe(batch.benchmark).steps[row.step]
        if not isinstance(barrier, Barrier):  # the recipe was changed in the meantime
            raise Dropped(f"Step {row.step} of the recipe is no longer a barrier.")
        groups = await barrier.run(StoredArrivals(row.drafts.all()), models, batch.settings)
        near = await _find_near_drafts(row, batch, barrier, models)
    except Dropped as reason:
        await sync_to_async(_end_round)(row, Status.DROPPED, "Dropped", str(reason))
    except worker_lane.REQUEUE_ERRORS:
        raise
    except LLMError as error:
        await sync_to_async(_end_round)(row, Status.FAILED, error.kind, str(error))
    else:
        await sync_to_async(_send_on)(row, batch, groups, near)


async def _find_near_drafts(
    row: BarrierRound, batch: Batch, barrier: Barrier, models: BoundModels
) -> Sequence[NearDraft]:
    """Find drafts that resemble one which an earlier round sent on, of this batch or of another."""
    if barrier.similar is None:
        return []
    before = Q(batch=batch, round__number__lt=row.number) | Q(batch__lt=batch.pk, batch__benchmark=batch.benchmark)
    leads = Draft.objects.filter(before, onward__parent=F("pk"), round__step=row.step)
    leads = leads.exclude(batch__status=Job.Status.CANCELLED)
    if not await leads.aexists():
        return []
    return await barrier.similar(StoredArrivals(row.drafts.all()), StoredArrivals(leads), models, batch.settings)


@transaction.atomic
def _end_round(row: BarrierRound, status: Work.Status, error: str, detail: str) -> None:
    """End a failed or dropped round and its drafts. A retry puts them in a new round."""
    if finish(row, status, error=error, detail=detail, ended_at=timezone.now()):
        row.drafts.filter(status=Status.QUEUED).update(status=status, error=error, detail=detail)


@transaction.atomic
def _send_on(row: BarrierRound, batch: Batch, groups: Sequence[DraftGroup], near: Sequence[NearDraft] = ()) -> None:
    """Create the draft that goes on for each group, and record the merges.

    One transaction, so a kill leaves all of it or nothing.
    """
    if not finish(row, Status.DONE, ended_at=timezone.now()):
        return
    for start in range(0, len(groups), STREAMED):
        chunk = groups[start : start + STREAMED]
        numbers = []
        for group in chunk:
            numbers += _draft_numbers(group)
        rows = row.drafts.filter(status=Status.QUEUED, pk__in=numbers).in_bulk()
        values = dict(zip(rows, queries.draft_values(list(rows.values())), strict=True))
        onward_drafts = []
        for group in chunk:
            others = [values[other.number] for other in group.others]
            onward_drafts.append(onward_draft(batch, row.step, rows[group.lead], values[group.lead], others))
        Draft.objects.bulk_create(onward_drafts)
        now = timezone.now()
        merges = []
        for group, onward in zip(chunk, onward_drafts, strict=True):
            for other in group.others:
                merge = MergeEvent(
                    draft_id=other.number,
                    into=onward,
                    kind=MergeEvent.Kind.MERGED,
                    distance=other.distance,
                    reason=other.reason,
                    at=now,
                )
                merges.append(merge)
        MergeEvent.objects.bulk_create(merges)
        for group, onward in zip(chunk, onward_drafts, strict=True):
            numbers = _draft_numbers(group)
            arrived = Draft.objects.filter(pk__in=numbers, onward=None)
            if arrived.update(status=Status.DONE, onward=onward, at_barrier=False) != len(numbers):
                raise ValueError("a barrier's step named a draft twice")
    leads = {group.lead for group in groups}
    near_matches = []
    for match in near:
        if match.number in leads:
            near_match = NearMatch(
                draft_id=match.number, earlier_id=match.earlier, distance=match.distance, reason=match.reason
            )
            near_matches.append(near_match)
    NearMatch.objects.bulk_create(near_matches)
    ungrouped = row.drafts.filter(status=Status.QUEUED)
    name = registry.recipe(batch.benchmark).steps[row.step].name
    ungrouped.update(status=Status.DROPPED, error="Dropped", detail=name, at_barrier=False)


def _draft_numbers(group: DraftGroup) -> list[int]:
    return [group.lead, *(other.number for other in group.others)]


def onward_draft(batch: Batch, step: int, lead: Draft, value: DraftValue, others: Sequence[DraftValue]) -> Draft:
    """The unsaved draft that goes on for a lead and the drafts merged into it."""
    steps = registry.recipe(batch.benchmark).steps
    barrier = steps[step]
    if not isinstance(barrier, Barrier):
        raise TypeError(f"step {step} is not a barrier")
    data = dict(barrier.join(value, others))
    return following_draft(steps, lead, next_step(steps, step, [replace(value, data=data)]), data)
