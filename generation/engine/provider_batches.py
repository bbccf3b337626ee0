"""Provider batches: requests of a job that go to an endpoint in one file, are answered within a day, and cost less."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Min, Q, QuerySet
from django.utils import timezone

from generation.engine import ledger as books
from generation.engine.group_commit import with_database_retries
from generation.engine.provider_batch_results import BatchGone, collect, line_counts, note_progress
from generation.engine.task_queue import check_tries, finish, lease, renew, take
from generation.errors import JobOver
from generation.images.files import NoImage
from generation.jobs import life_cycle
from generation.jobs.life_cycle import OVER
from generation.llm.batch_protocol import PATH, BatchClient, ProviderState
from generation.llm.errors import BadRequest, BatchLost, BatchRefused, BrokenReply, GivenUp, LLMError, UnexpectedError
from generation.llm.gateway import Gateway
from generation.models import Endpoint, ProviderBatch
from generation.models.jobs import Job
from generation.models.work import Work

log = logging.getLogger(__name__)

MAX_LINES = 2_000  # in one provider batch: the rows of one are taken, prepared and released together
GONE = 404
MAX_WAIT = 3_600.0  # seconds that an endpoint may put us off for
AGE = timedelta(
    days=30
)  # after which no more is expected of a batch that was submitted: providers keep results as long
A_DAY = timedelta(days=1)
State = ProviderBatch.State
Status = Work.Status

# Of rows with `via` and `live` (see `evaluation.models.Asked`): those whose request has been in a provider batch.
COLLECTED = Q(via__state=State.COLLECTED)
NOT_YET_SENT = Q(live=False) & (Q(via__isnull=True) | Q(via__state=State.DROPPED))


def blocked_batches() -> QuerySet[ProviderBatch]:
    """Provider batches that nobody submits at present, as their job does not run: no other job is to wait for them."""
    prepared = ProviderBatch.objects.filter(state=State.PREPARED, asked_at__isnull=True)
    return prepared.exclude(job__status=Job.Status.RUNNING)


def is_open(job: Job) -> bool:
    """Whether a provider batch of this job has not come to its end."""
    return ProviderBatch.objects.filter(job=job.pk, state__in=ProviderBatch.OPEN).exists()


def wait(job: Job) -> None:
    """Let a job rest until its next provider batch is looked at: there is nothing else to do."""
    until = ProviderBatch.objects.filter(job=job.pk, state__in=ProviderBatch.OPEN).aggregate(at=Min("next_at"))["at"]
    if until is not None:
        life_cycle.rest(job.pk, until)


def due_batches(job: Job) -> QuerySet[ProviderBatch]:
    """The provider batches of a job that want to be brought a step further now.

    None is submitted for a job that is paused; but what was, or may have been, is followed to its end whatever becomes
    of the job: it is being paid for.
    """
    found = ProviderBatch.objects.filter(
        job=job.pk, state__in=ProviderBatch.OPEN, status=Status.QUEUED, next_at__lte=timezone.now()
    )
    if job.status == Job.Status.PAUSED:
        found = found.filter(Q(state=State.SUBMITTED) | Q(asked_at__isnull=False))
    return found.order_by("pk")


def jobs_due() -> list[int]:
    """The numbers of the jobs that may have a provider batch to be followed."""
    waiting = ProviderBatch.objects.filter(
        state__in=ProviderBatch.OPEN, status=Status.QUEUED, next_at__lte=timezone.now()
    )
    return list(waiting.order_by("job_id").values_list("job_id", flat=True).distinct())


def advance_batches(job: Job) -> None:
    """Bring each provider batch of a job that is due one step further: submit it, look at it, or collect its results."""
    fresh = Job.objects.get(pk=job.pk)
    for pk in due_batches(fresh).values_list("pk", flat=True):
        for batch in take(ProviderBatch.objects.filter(pk=pk), 1):
            _step(job, batch)


def _step(job: Job, batch: ProviderBatch) -> None:
    try:
        check_tries(batch)
        if batch.asked_at and timezone.now() - batch.asked_at > AGE:
            raise BatchLost(f"It did not end within {AGE.days} days.")
        async_to_sync(_advance)(job, batch)
    except BatchGone:
        log.warning("provider batch %s was taken over by another worker", batch.pk)
    except LLMError as error:
        log.warning("provider batch %s: %s", batch.pk, error)
        said = {"error": error.kind, "detail": str(error)}
        refused = isinstance(error, BadRequest) and (batch.state == State.PREPARED or not batch.endpoint.batches)
        with transaction.atomic():
            if error.permanent:  # first: nobody may put the rows into another batch unless a person says so
                _pause(job, error)
            if refused or isinstance(error, (BatchLost, GivenUp)):
                _drop(job, batch, said)
            else:
                _later(batch, wait=error.retry_after, **said)
    except (OperationalError, InterfaceError):  # the lease runs out, and it is tried again
        raise
    except Exception as failure:  # a fault of ours: neither the job's rows nor its other batches wait for it
        log.exception("provider batch %s: a step failed", batch.pk)
        _later(batch, tries=batch.tries, error=UnexpectedError.__name__, detail=type(failure).__name__)


def _pause(job: Job, error: LLMError) -> None:
    with contextlib.suppress(JobOver):
        life_cycle.pause(job.pk, because=error.kind, detail=str(error))


def _drop(job: Job, batch: ProviderBatch, said: dict[str, Any]) -> None:
    """Close a provider batch that was not made, or of which no more will be heard; its rows are free for a new one."""
    finish(batch, Status.DONE, state=State.DROPPED, ended_at=timezone.now(), **said, **line_counts(batch))
    life_cycle.rest(job.pk, None)


def _later(batch: ProviderBatch, /, *, wait: float | None = None, **fields: Any) -> None:
    """Give a provider batch back until it is looked at again. It got on, unless its `tries` are among the fields."""
    seconds = max(settings.MHB_BATCH_POLL_SECONDS, min(wait or 0.0, MAX_WAIT))
    again = timezone.now() + timedelta(seconds=seconds)
    finish(batch, Status.QUEUED, next_at=again, **{"tries": 0, "error": "", "detail": "", **fields})


@contextlib.asynccontextmanager
async def _kept(batch: ProviderBatch) -> AsyncIterator[None]:
    """Keep the lease of a provider batch while it is worked on: a file may take longer than that."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(lease().total_seconds() / 3)
            await sync_to_async(renew)(ProviderBatch, [batch.token])

    task = asyncio.ensure_future(keep())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _advance(job: Job, batch: ProviderBatch) -> None:
    connection = Gateway(max_reply=settings.MHB_MAX_REPLY_BYTES, access=settings.MHB_ENDPOINT_ACCESS)
    async with connection as gateway, _kept(batch):
        endpoint = await Endpoint.objects.aget(pk=batch.endpoint_id)
        if batch.state == State.PREPARED:
            found = await _submitted(gateway, endpoint, job, batch)
            if found is None:
                return
        else:
            found = await _known(BatchClient(gateway, endpoint.settings), batch)
        over = await Job.objects.filter(pk=job.pk, status__in=OVER).aexists()
        door = BatchClient(gateway, endpoint.settings)
        if over and not found.ended and found.status != "cancelling":
            found = await door.cancel(batch.batch)
        if not found.ended:
            await sync_to_async(_later)(batch, said=found.status)
            return
        gone, unread = [], 0
        for file in found.files:
            try:
                unread += await collect(door, endpoint, job, batch, found, file)
            except BadRequest as error:
                if error.http_status != GONE:
                    raise
                gone.append(file)
        if gone:
            raise BatchLost(f"Its file there: {', '.join(gone)}.")
        await sync_to_async(with_database_retries)(_end, job, batch, found, unread)


async def _known(door: BatchClient, batch: ProviderBatch) -> ProviderState:
    """A submitted batch as its endpoint tells of it. Raises BatchLost where that knows it neither by its id nor by our name."""
    try:
        return await door.state(batch.batch)
    except BadRequest as error:
        if error.http_status != GONE:
            raise
    found = await door.look_up(str(batch.mark), batch.asked_at or batch.created_at, batch.file)
    if found is None:
        raise BatchLost(f"Its id there: {batch.batch}.")
    return found


async def _submitted(gateway: Gateway, endpoint: Endpoint, job: Job, batch: ProviderBatch) -> ProviderState | None:
    """The provider batch as it was submitted, just now or by a worker that was lost; None where it is not to be."""
    found = None
    if batch.asked_at is not None:
        found = await BatchClient(gateway, endpoint.settings).look_up(str(batch.mark), batch.asked_at, batch.file)
    if found is None:
        if not await sync_to_async(with_database_retries)(_may_submit, job, batch):
            return None
        door = BatchClient(gateway, endpoint.settings)
        file = await door.upload(str(batch.mark), await sync_to_async(_file)(batch))
        # From here on nobody submits it again without having looked for it.
        asked = {"file": file, "asked_at": batch.asked_at or timezone.now()}
        await sync_to_async(with_database_retries)(partial(note_progress, batch, **asked))
        found = await door.create(file, str(batch.mark))
    submitted = {
        "state": State.SUBMITTED,
        "batch": found.id,
        "said": found.status,
        "submitted_at": _submitted_at(batch, found),
        "expires_at": found.expires_at,
    }
    await sync_to_async(with_database_retries)(partial(note_progress, batch, **submitted))
    return found


def _submitted_at(batch: ProviderBatch, found: ProviderState) -> datetime:
    """When it was made there, where that can be: the ledger's days are counted by it."""
    now = timezone.now()
    made = found.created_at
    return made if made and (batch.asked_at or now) - A_DAY < made < now + A_DAY else now


@transaction.atomic
def _may_submit(job: Job, batch: ProviderBatch) -> bool:
    """Whether its job still runs; a provider batch of one that is over is dropped."""
    status = life_cycle.locked(job.pk).status
    if status in OVER:
        finish(batch, Status.DONE, state=State.DROPPED, ended_at=timezone.now())
    elif status != Job.Status.RUNNING:
        _later(batch)
    return status == Job.Status.RUNNING


def _file(batch: ProviderBatch) -> bytes:
    """The provider batch as JSON Lines."""
    lines = []
    for line in batch.lines.order_by("pk"):
        try:
            body = books.with_images(line.sent)
        except NoImage:  # the endpoint refuses this line alone, and it goes to a lane, which says why
            body = line.sent
        lines.append(json.dumps({"custom_id": line.custom_id.hex, "method": "POST", "url": PATH, "body": body}))
    return "\n".join(lines).encode()


@transaction.atomic
def _end(job: Job, batch: ProviderBatch, found: ProviderState, unread: int) -> None:
    """Close a provider batch: its rows go to the lanes. One that was refused as a whole pauses the job.

    `unread`: lines of its results that made no sense. They may have been paid for, so that is said.
    """
    counts = line_counts(batch)
    whole = found.status == "failed" and counts["missing"] == batch.lines_count
    said = [found.detail, f"{unread} lines of its results could not be read." if unread else ""]
    finish(
        batch,
        Status.DONE,
        state=State.DROPPED if whole else State.COLLECTED,
        said=found.status,
        ended_at=found.ended_at or timezone.now(),
        error=BatchRefused.__name__ if whole else BrokenReply.__name__ if unread else "",
        detail=" ".join(part for part in said if part),
        **counts,
    )
    life_cycle.rest(job.pk, None)
    if whole:
        _pause(job, BatchRefused(found.detail))
