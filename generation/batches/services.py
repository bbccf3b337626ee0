"""Changes batches and their drafts: the work of a lane, decisions on held drafts."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from generation import errors
from generation.batches import making_together, queries, rounds
from generation.drafts import pre_review_checks
from generation.engine import worker_lane
from generation.engine.bound_models import BoundModels
from generation.engine.task_queue import check_tries, finish, take
from generation.engine.worker_lane import RunningLane
from generation.jobs import life_cycle
from generation.jobs.services import settle
from generation.llm.errors import LLMError
from generation.models import (
    BarrierRound,
    Batch,
    BatchRole,
    Draft,
    Endpoint,
    Import,
    ImportStatus,
    Sample,
    SampleVersion,
)
from generation.models.work import Work
from generation.recipes import registry, text_similarity
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Dropped, NewSample, Step
from generation.samples.services import make_control, make_version
from generation.sources import queries as sources_queries
from review.audit.trail import recording_events
from review.models import User

Status = Work.Status


def cancel_import(import_id: int) -> Import:
    """Read no further; the records that were added stay. The worker that reads the file notices at its next records.

    May be said twice. Raises UnknownImport, ImportOver.
    """
    open_now = Import.objects.filter(pk=import_id, status__in=(ImportStatus.QUEUED, ImportStatus.RUNNING))
    cancelled = open_now.update(status=ImportStatus.CANCELLED, token=None, lease_until=None, finished_at=timezone.now())
    run = sources_queries.imports().filter(pk=import_id).first()
    if run is None:
        raise errors.UnknownImport
    if not cancelled and run.status != ImportStatus.CANCELLED:
        raise errors.ImportOver
    if cancelled and run.uploaded:
        transaction.on_commit(partial(Path(run.path).unlink, missing_ok=True))
    return run


def work_on_batch(batch_id: int) -> int:
    """Work on a batch's drafts in a lane until none is queued or its time is up; returns how many were worked on."""
    batch = Batch.objects.get(pk=batch_id)
    roles = BatchRole.objects.filter(batch=batch).select_related("endpoint")
    launched = batch.endpoint_settings
    playing = {role.endpoint_id: role.endpoint.freeze(launched.get(str(role.endpoint_id), {})) for role in roles}
    bound = {role.role: playing[role.endpoint_id] for role in roles}
    several = registry.recipe(batch.benchmark).several
    drafts = rounds.takeable(batch.pk)

    def cast(row: Draft) -> dict[str, Endpoint]:
        return bound if row.endpoint_id is None else {**bound, several: playing[row.endpoint_id]}

    def take_rows(lane: RunningLane, count: int) -> worker_lane.Rows:
        if not life_cycle.is_running(batch.pk) or any(lane.away(endpoint) for endpoint in playing.values()):
            return []
        taken: worker_lane.Rows = [
            (row, partial(_work_on_draft, row, batch, lane, lane.models(cast(row), row)))
            for row in take(drafts.order_by("pk"), count, lane.claim)
        ]
        if len(taken) < count and rounds.has_barrier(batch):
            rounds.open_round(batch.pk)
            taken += [
                (row, partial(rounds.work_on_round, row, batch, lane.models(bound, row)))
                for row in take(BarrierRound.objects.filter(batch=batch), count - len(taken), lane.claim)
            ]
        return taken

    began = time.monotonic()
    done = making_together.take_over(batch)
    if not done or time.monotonic() - began < settings.MHB_LANE_SECONDS:
        # Else the next lane goes on taking over: this one would work on the published records one by one.
        done += worker_lane.work_in_lane(batch, playing.values(), take_rows, drafts.filter(status=Status.QUEUED).exists)
    life_cycle.pause_if_spent(batch_id)
    making_together.gather(batch)
    settle(batch_id)
    return done


async def _work_on_draft(row: Draft, batch: Batch, lane: RunningLane, models: BoundModels) -> None:
    recipe = registry.recipe(batch.benchmark)
    try:
        check_tries(row)
        value: DraftValue = await lane.do_together(queries.draft_values, row)
        step = recipe.steps[row.step] if row.step < len(recipe.steps) else None  # past a barrier that was the last
        outputs = await step.run(value, models) if isinstance(step, Step) and step.applies(value) else [value]
    except Dropped as reason:
        await sync_to_async(_drop)(row, str(reason), reason.data)
    except worker_lane.NOT_ITS_FAULT:
        raise
    except LLMError as error:
        await sync_to_async(finish)(row, Status.FAILED, error=error.kind, detail=str(error))
    else:
        await sync_to_async(_keep)(row, batch, list(outputs))


@recording_events()  # opening a case is an event
def _keep(row: Draft, batch: Batch, outputs: list[DraftValue]) -> None:
    """Store what a step made of a draft: the next step of the same row, children where it became several, or samples."""
    recipe = registry.recipe(batch.benchmark)
    steps = recipe.steps
    if not outputs:
        _drop(row, steps[row.step].name)
        return
    if len(outputs) == 1 and rounds.goes_round(steps, row.step, outputs[0]):
        finish(row, Status.QUEUED, data=outputs[0].data, tries=0)
        return
    following = rounds.step_after(steps, row.step, outputs)
    at_barrier = rounds.is_barrier(steps, following)
    if following >= len(steps):
        # Of a recipe that draws samples for review, they are made once all drafts of the batch have ended.
        if finish(row, Status.DONE, data=outputs[0].data) and (recipe.drawn is None or row.sample_id is not None):
            for output in outputs:
                _admit(row, batch, output)
    elif len(outputs) == 1:
        finish(row, Status.QUEUED, data=outputs[0].data, step=following, at_barrier=at_barrier, tries=0)
    elif finish(row, Status.DONE):
        Draft.objects.bulk_create(
            Draft(
                batch=batch,
                record_id=row.record_id,
                parent=row,
                sample_id=row.sample_id,
                version=row.version,
                step=following,
                data=output.data,
                preferred=row.preferred,
                endpoint_id=row.endpoint_id,
                at_barrier=at_barrier,
            )
            for output in outputs
        )


def _admit(row: Draft, batch: Batch, value: DraftValue) -> None:
    """Put what was made before physicians, unless a check stops it, or the batch was cancelled while a model answered."""
    if row.sample_id is not None:
        sample = Sample.objects.select_for_update(no_key=True).get(pk=row.sample_id)
        if sample.status != Sample.Status.REGENERATING:
            said = {"error": "Dropped", "detail": f"The sample is {sample.status} by now."}
            Draft.objects.filter(pk=row.pk).update(status=Status.DROPPED, **said)
            return
    made = registry.recipe(batch.benchmark).sample(value)
    print_ = pre_review_checks.fingerprint_of(batch, made)
    if pre_review_checks.run_checks(row, batch, value, print_):
        pre_review_checks.stop(row)
    else:
        _make(row, batch, value, made, print_)


def _make(
    row: Draft, batch: Batch, value: DraftValue, made: NewSample, print_: text_similarity.Fingerprint | None
) -> SampleVersion:
    """The sample, and beside its first version the control where the recipe makes one."""
    version = make_version(row, batch, made)
    pre_review_checks.remember(version, print_)
    control = registry.recipe(batch.benchmark).control
    if control is not None and row.sample_id is None and (beside := control(value)) is not None:
        make_control(row, batch, beside)
    return version


@transaction.atomic
def _drop(row: Draft, reason: str, data: Mapping[str, Any] | None = None) -> None:
    """Give a draft up. The sample whose next version it was to be cannot come back to physicians: it is discarded."""
    kept = {} if data is None else {"data": dict(data)}
    if finish(row, Status.DROPPED, error="Dropped", detail=reason, **kept):
        Sample.objects.filter(drafts=row).update(status=Sample.Status.DISCARDED)


def discard_waiting(batch_id: int) -> None:
    """Discard what waited to be made again: its batch is cancelled. Records that it had not come to are free for another."""
    Sample.objects.filter(batch=batch_id, status=Sample.Status.REGENERATING).update(status=Sample.Status.DISCARDED)


@recording_events()  # opening a case is an event
def let_through(draft_id: int, *, actor: User | None, reason: str) -> SampleVersion:
    """Put before physicians what a check had stopped. Raises NotStopped, ReasonMissing, JobOver (a cancelled one's)."""
    row = pre_review_checks.stopped_draft(draft_id, reason)
    if row.sample is not None and row.sample.status != Sample.Status.REGENERATING:
        raise errors.JobOver
    value = queries.draft_value(row)
    made = registry.recipe(row.batch.benchmark).sample(value)
    pre_review_checks.decide(row, Draft.Gate.LET_THROUGH, actor, reason)
    return _make(row, row.batch, value, made, pre_review_checks.fingerprint_of(row.batch, made))


@transaction.atomic
def discard_stopped(draft_id: int, *, actor: User | None, reason: str) -> Draft:
    """Give up for good what a check had stopped; a sample that it was to be the next version of is discarded with it.

    Raises NotStopped, ReasonMissing.
    """
    row = pre_review_checks.stopped_draft(draft_id, reason)
    pre_review_checks.decide(row, Draft.Gate.DISCARDED, actor, reason)
    Sample.objects.filter(drafts=row, status=Sample.Status.REGENERATING).update(status=Sample.Status.DISCARDED)
    return row
