"""Changes batches and their drafts: the work of a lane, and decisions on stopped drafts."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction

from generation import errors
from generation.batches import bulk_samples, queries, rounds
from generation.drafts import review_gate
from generation.engine import worker_lane
from generation.engine.bound_models import BoundModels, by_prompt
from generation.engine.task_queue import check_tries, finish, take
from generation.engine.watchdog import computing_for
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
    Sample,
    SampleVersion,
)
from generation.models.work import Work
from generation.prompts import queries as prompts_queries
from generation.recipes import registry, text_similarity
from generation.recipes.recipe import CheckFinding as CheckFinding
from generation.recipes.recipe import Draft as DraftValue
from generation.recipes.recipe import Dropped, NewSample, Recipe, Step
from generation.samples.services import make_control, make_version
from review.audit.trail import recording_events
from review.models import User

Status = Work.Status


def work_on_batch(batch_id: int) -> int:
    """Work on a batch's drafts in a lane until none is queued or its time is up.

    Returns how many were processed.
    """
    batch = Batch.objects.select_related("prompt_set").get(pk=batch_id)
    with prompts_queries.using(batch.benchmark, batch.prompt_set):
        return _work_on_batch(batch)


def _work_on_batch(batch: Batch) -> int:
    queue = _DraftQueue(batch)
    started_at = time.monotonic()
    done = bulk_samples.make_finished_samples(batch)
    # Out of time, leave the remaining published records to the next lane, which makes them in bulk:
    # the work below would make them one by one.
    if not done or time.monotonic() - started_at < settings.MHB_LANE_SECONDS:
        is_waiting = queue.drafts.filter(status=Status.QUEUED).exists
        done += worker_lane.work_in_lane(batch, queue.endpoints.values(), queue.take, is_waiting)
    life_cycle.pause_if_spent(batch.pk)
    if queue.first is not None:
        undone = Draft.objects.filter(batch=batch, status__in=(Status.QUEUED, Status.RUNNING))
        is_open = undone.filter(record=queue.first, at_barrier=False).exists()
        life_cycle.pause_after_first(batch, is_open=is_open, others=undone.exists())
    bulk_samples.make_waiting_samples(batch)
    settle(batch.pk)
    return done


class _DraftQueue:
    """The drafts of a batch that wait for a lane, and its models.

    `endpoints`: by primary key, with the settings of the launch. `first`: the only record to work
    on, if the batch pauses after it.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._several = registry.recipe(batch.benchmark).multiple_role
        self.drafts = Draft.objects.filter(batch=batch, at_barrier=False)  # those at a barrier belong to a round
        self.endpoints: dict[int, Endpoint] = {}
        self._bound: dict[str, Endpoint] = {}
        for role in BatchRole.objects.filter(batch=batch).select_related("endpoint"):
            launch_settings = batch.endpoint_settings.get(str(role.endpoint_id), {})
            self.endpoints[role.endpoint_id] = role.endpoint.with_launch_settings(launch_settings)
            self._bound[role.role] = self.endpoints[role.endpoint_id]
        self.first = None
        if batch.first_only:
            self.first = queries.first_record(batch)

    def take(self, lane: RunningLane, count: int) -> worker_lane.Rows:
        """Up to `count` drafts and rounds of drafts for a lane, each with the work on it."""
        batch, bound, several = self._batch, self._bound, self._several
        away = {pk for pk, endpoint in self.endpoints.items() if lane.is_away(endpoint)}
        shared = {endpoint.pk for role, endpoint in bound.items() if role != several}
        if not life_cycle.is_running(batch.pk) or away & shared or (away and away == self.endpoints.keys()):
            return []
        queue = self.drafts
        if away:
            queue = queue.exclude(endpoint__in=away)
        if self.first is not None:
            queue = queue.filter(record=self.first)
        if several in bound and bound[several].pk in away:  # who plays for drafts that name nobody
            queue = queue.exclude(endpoint=None)
        taken: worker_lane.Rows = []
        for row in take(queue.order_by("pk"), count, lane.claim):
            models = lane.bind_models(self._endpoints_for(row), row, by_prompt)
            taken.append((row, partial(_work_on_draft, row, batch, lane, models)))
        if self.first is None and len(taken) < count and rounds.has_barrier(batch):
            rounds.open_round(batch.pk)
            for round_row in take(BarrierRound.objects.filter(batch=batch), count - len(taken), lane.claim):
                models = lane.bind_models(bound, round_row, by_prompt)
                taken.append((round_row, partial(rounds.work_on_round, round_row, batch, models)))
        return taken

    def _endpoints_for(self, row: Draft) -> dict[str, Endpoint]:
        if row.endpoint_id is None:
            return self._bound
        return {**self._bound, self._several: self.endpoints[row.endpoint_id]}


async def _work_on_draft(row: Draft, batch: Batch, lane: RunningLane, models: BoundModels) -> None:
    recipe = registry.recipe(batch.benchmark)
    try:
        check_tries(row)
        value: DraftValue = await lane.run_grouped(queries.draft_values, row)
        # None: past a final barrier.
        step = None
        if row.step < len(recipe.steps):
            step = recipe.steps[row.step]
        if isinstance(step, Step) and step.applies(value):
            outputs = await step.run(value, models)
        else:
            outputs = [value]
    except Dropped as reason:
        await sync_to_async(_drop_draft)(row, str(reason), reason.data)
    except worker_lane.REQUEUE_ERRORS:
        raise
    except LLMError as error:
        await sync_to_async(finish)(row, Status.FAILED, error=error.kind, detail=str(error))
    else:
        await sync_to_async(_store_outputs)(row, batch, list(outputs))


@dataclass(frozen=True, slots=True)
class _Finished:
    """What the recipe makes of a finished draft. `controls`: by arm. `findings`: of its checks."""

    sample: NewSample
    controls: Mapping[Sample.Arm, NewSample]
    fingerprint: text_similarity.TextFingerprint | None
    findings: Sequence[CheckFinding]


def _controls(recipe: Recipe, value: DraftValue) -> dict[Sample.Arm, NewSample]:
    """The control beside a draft's sample, and its rewording, as far as the recipe makes them."""
    made = {}
    for arm, make in ((Sample.Arm.CONTROL, recipe.control), (Sample.Arm.REWORDED, recipe.reworded)):
        if make is None:
            control = None
        else:
            control = make(value)
        if control is not None:
            made[arm] = control
    return made


def _finished(row: Draft, batch: Batch, value: DraftValue) -> _Finished:
    """Make the sample of a finished draft. Stores nothing: call it before the transaction."""
    recipe = registry.recipe(batch.benchmark)
    with prompts_queries.using(batch.benchmark, batch.prompt_set), computing_for(row):
        sample = recipe.sample(value)
        controls = {}
        if row.sample_id is None:
            controls = _controls(recipe, value)
        return _Finished(
            sample=sample,
            controls=controls,
            fingerprint=review_gate.fingerprint_of(batch, sample),
            findings=review_gate.findings_of(batch, value),
        )


def _store_outputs(row: Draft, batch: Batch, outputs: list[DraftValue]) -> None:
    """Store a step's outputs: the same draft at its next step, several as children, or samples."""
    recipe = registry.recipe(batch.benchmark)
    steps = recipe.steps
    if not outputs:
        _drop_draft(row, steps[row.step].name)
        return
    if len(outputs) == 1 and rounds.repeats_step(steps, row.step, outputs[0]):
        finish(row, Status.QUEUED, data=outputs[0].data, tries=0)
        return
    following = rounds.next_step(steps, row.step, outputs)
    if following >= len(steps):
        # A recipe that draws samples for review makes them once all drafts of the batch have ended.
        makes_samples = recipe.review_draw is None or row.sample_id is not None
        finished = []
        if makes_samples:
            finished = [_finished(row, batch, output) for output in outputs]
        with recording_events():  # opening a case is an event
            if finish(row, Status.DONE, data=outputs[0].data):
                for made in finished:
                    _submit_for_review(row, batch, made)
    elif len(outputs) == 1:
        at_barrier = rounds.is_barrier(steps, following)
        finish(row, Status.QUEUED, data=outputs[0].data, step=following, at_barrier=at_barrier, tries=0)
    else:  # each goes on as a draft of its own
        with transaction.atomic():
            if finish(row, Status.DONE):
                drafts = [rounds.following_draft(steps, row, following, output.data) for output in outputs]
                Draft.objects.bulk_create(drafts)


def _submit_for_review(row: Draft, batch: Batch, made: _Finished) -> None:
    """Submit a finished draft for review.

    Not if a check stops it, or if its sample is no longer being regenerated (the batch was
    cancelled while a model answered).
    """
    if row.sample_id is not None:
        sample = Sample.objects.select_for_update(no_key=True).get(pk=row.sample_id)
        if sample.status != Sample.Status.REGENERATING:
            ending = {"error": "Dropped", "detail": f"The sample is already {sample.status}."}
            Draft.objects.filter(pk=row.pk).update(status=Status.DROPPED, **ending)
            return
    if review_gate.stops(row, batch, made.findings, made.fingerprint):
        review_gate.stop_draft(row)
        if review_gate.may_return(row, batch):
            _return_to_generator(row, batch, made.sample)
    else:
        _make_sample(row, batch, made)


def _return_to_generator(row: Draft, batch: Batch, new_sample: NewSample) -> None:
    """Queue the draft that follows a stopped one, with what was found as the reasons."""
    reasons = review_gate.reasons_for_generator(row, batch)
    review_gate.record_decision(row, Draft.Gate.RETURNED, None, "\n".join(reasons))
    rubrics = []
    for rubric in new_sample.rubrics:
        rubrics.append({"key": rubric.key, "criterion": rubric.criterion, "traps": list(rubric.traps)})
    step, data = registry.recipe(batch.benchmark).restart_point(row.data)
    Draft.objects.create(
        batch=batch,
        record_id=row.record_id,
        parent=row,
        sample_id=row.sample_id,
        version=row.version,
        preferred=row.preferred,
        endpoint_id=row.endpoint_id,
        step=step,
        data=data,
        returned=[*row.returned, {"content": {**new_sample.content, "rubrics": rubrics}, "reasons": reasons}],
    )


def _make_sample(row: Draft, batch: Batch, made: _Finished) -> SampleVersion:
    """Make the sample, and beside its first version the controls that the recipe makes."""
    version = make_version(row, batch, made.sample)
    review_gate.index_text(version, made.fingerprint)
    for arm, control in made.controls.items():
        make_control(row, batch, control, arm)
    return version


@transaction.atomic
def _drop_draft(row: Draft, reason: str, data: Mapping[str, Any] | None = None) -> None:
    """Give up a draft.

    A sample that waited for it as its next version cannot return to physicians: it is discarded.
    """
    if data is None:
        changes = {}
    else:
        changes = {"data": dict(data)}
    if finish(row, Status.DROPPED, error="Dropped", detail=reason, **changes):
        Sample.objects.filter(drafts=row).update(status=Sample.Status.DISCARDED)


def discard_waiting(batch_id: int) -> None:
    """Discard the samples of a cancelled batch that wait for regeneration.

    Records that the batch had not reached can be used by another batch.
    """
    Sample.objects.filter(batch=batch_id, status=Sample.Status.REGENERATING).update(status=Sample.Status.DISCARDED)


def send_to_review(draft_id: int, *, actor: User | None, reason: str) -> SampleVersion:
    """Send a stopped draft to review.

    Raises NotStopped, ReasonMissing, JobOver (the draft's batch was cancelled).
    """
    with transaction.atomic():
        row = review_gate.stopped_draft(draft_id, reason)
    made = _finished(row, row.batch, queries.draft_value(row))  # a stopped draft does not change
    with recording_events():  # opening a case is an event
        row = review_gate.stopped_draft(draft_id, reason)
        samples = Sample.objects.select_for_update(of=("self",), no_key=True).filter(drafts=row)
        if any(sample.status != Sample.Status.REGENERATING for sample in samples):
            raise errors.JobOver
        review_gate.record_decision(row, Draft.Gate.SENT_TO_REVIEW, actor, reason)
        return _make_sample(row, row.batch, made)


@transaction.atomic
def discard_stopped(draft_id: int, *, actor: User | None, reason: str) -> Draft:
    """Give up a stopped draft for good, and the sample of which it would be the next version.

    Raises NotStopped, ReasonMissing.
    """
    row = review_gate.stopped_draft(draft_id, reason)
    review_gate.record_decision(row, Draft.Gate.DISCARDED, actor, reason)
    Sample.objects.filter(drafts=row, status=Sample.Status.REGENERATING).update(status=Sample.Status.DISCARDED)
    return row
