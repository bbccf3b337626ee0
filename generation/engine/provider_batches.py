"""Provider batches: requests of a job sent in one file, answered within a day at a lower price."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Min, Q, QuerySet
from django.utils import timezone

from generation.engine import ledger
from generation.engine.group_commit import with_database_retries
from generation.engine.provider_batch_results import BatchGone, collect, line_counts, note_progress
from generation.engine.task_queue import check_tries, finish, lease, renew, take
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

MAX_LINES = 2_000  # per provider batch: its rows are taken, prepared and released together
NOT_FOUND = 404
MAX_WAIT = 3_600.0  # seconds: the longest wait that an endpoint may ask for
# After this time a submitted batch is given up: providers keep results for as long.
MAX_AGE = timedelta(days=30)
ONE_DAY = timedelta(days=1)
State = ProviderBatch.State
Status = Work.Status

# Filters on rows with `via` and `live` (see `evaluation.models.ModelWork`): rows whose request has
# been in a provider batch, and rows that may be put into one.
COLLECTED = Q(via__state=State.COLLECTED)
NOT_YET_SENT = Q(live=False) & (Q(via__isnull=True) | Q(via__state=State.DROPPED))


def blocked_batches() -> QuerySet[ProviderBatch]:
    """Provider batches that nobody submits, as their job does not run.

    No other job should wait for them.
    """
    prepared = ProviderBatch.objects.filter(state=State.PREPARED, asked_at__isnull=True)
    return prepared.exclude(job__status=Job.Status.RUNNING)


def rest_until_due(job: Job) -> bool:
    """Let a job rest until its next provider batch is due; returns whether it has an open one."""
    until = ProviderBatch.objects.filter(job=job.pk, state__in=ProviderBatch.OPEN).aggregate(at=Min("next_at"))["at"]
    if until is not None:
        life_cycle.rest(job.pk, until)
    return until is not None


def due_batches(job: Job) -> QuerySet[ProviderBatch]:
    """The provider batches of a job that are due for their next step.

    A paused job submits none; but a batch that was, or may have been, submitted is followed to its
    end whatever happens to the job, as it is being paid for.
    """
    due = ProviderBatch.objects.filter(
        job=job.pk, state__in=ProviderBatch.OPEN, status=Status.QUEUED, next_at__lte=timezone.now()
    )
    if job.status == Job.Status.PAUSED:
        due = due.filter(Q(state=State.SUBMITTED) | Q(asked_at__isnull=False))
    return due.order_by("pk")


def jobs_due() -> list[int]:
    """The keys of the jobs that may have a due provider batch."""
    waiting = ProviderBatch.objects.filter(
        state__in=ProviderBatch.OPEN, status=Status.QUEUED, next_at__lte=timezone.now()
    )
    return list(waiting.order_by("job_id").values_list("job_id", flat=True).distinct())


def advance_batches(job: Job) -> None:
    """Advance each due provider batch of a job: submit it, poll it, or collect its results."""
    fresh = Job.objects.get(pk=job.pk)
    for pk in due_batches(fresh).values_list("pk", flat=True):
        for batch in take(ProviderBatch.objects.filter(pk=pk), 1):
            _step(job, batch)


def _step(job: Job, batch: ProviderBatch) -> None:
    try:
        check_tries(batch)
        if batch.asked_at and timezone.now() - batch.asked_at > MAX_AGE:
            raise BatchLost(f"It did not end within {MAX_AGE.days} days.")
        async_to_sync(_advance)(job, batch)
    except BatchGone:
        log.warning("provider batch %s was taken over by another worker", batch.pk)
    except LLMError as error:
        log.warning("provider batch %s: %s", batch.pk, error)
        outcome = {"error": error.kind, "detail": str(error)}
        refused = isinstance(error, BadRequest) and (batch.state == State.PREPARED or not batch.endpoint.batches)
        with transaction.atomic():
            if error.permanent:  # first, so that the rows enter another batch only if a person resumes the job
                life_cycle.pause_unless_over(job.pk, error.kind, str(error))
            if refused or isinstance(error, (BatchLost, GivenUp)):
                closed = {"state": State.DROPPED, "ended_at": timezone.now()}
                finish(batch, Status.DONE, **closed, **outcome, **line_counts(batch))
                life_cycle.rest(job.pk, None)  # its rows are free for a new one
            else:
                _postpone(batch, wait=error.retry_after, **outcome)
    except (OperationalError, InterfaceError):  # the lease expires, and the step is tried again
        raise
    except Exception as failure:  # a bug of ours must not hold up the job's rows or its other batches
        log.exception("provider batch %s: a step failed", batch.pk)
        _postpone(batch, tries=batch.tries, error=UnexpectedError.__name__, detail=type(failure).__name__)


def _postpone(batch: ProviderBatch, /, *, wait: float | None = None, **fields: Any) -> None:
    """Requeue a provider batch until its next step.

    This resets `tries`, unless the fields set it.
    """
    seconds = max(settings.MHB_BATCH_POLL_SECONDS, min(wait or 0.0, MAX_WAIT))
    again = timezone.now() + timedelta(seconds=seconds)
    finish(batch, Status.QUEUED, next_at=again, **{"tries": 0, "error": "", "detail": "", **fields})


@contextlib.asynccontextmanager
async def _renewing_lease(batch: ProviderBatch) -> AsyncIterator[None]:
    """Keep renewing the lease of a provider batch: a file transfer may outlast it."""

    async def renew_repeatedly() -> None:
        while True:
            await asyncio.sleep(lease().total_seconds() / 3)
            await sync_to_async(renew)(ProviderBatch, [batch.token])

    task = asyncio.ensure_future(renew_repeatedly())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _advance(job: Job, batch: ProviderBatch) -> None:
    connection = Gateway(max_reply=settings.MHB_MAX_REPLY_BYTES, access=settings.MHB_ENDPOINT_ACCESS)
    async with connection as gateway, _renewing_lease(batch):
        endpoint = await Endpoint.objects.aget(pk=batch.endpoint_id)
        if batch.state == State.PREPARED:
            remote = await _submit(gateway, endpoint, job, batch)
            if remote is None:
                return
        else:
            remote = await _fetch_state(BatchClient(gateway, endpoint.settings), batch)
        job_over = await Job.objects.filter(pk=job.pk, status__in=OVER).aexists()
        client = BatchClient(gateway, endpoint.settings)
        if job_over and not remote.ended and remote.status != "cancelling":
            remote = await client.cancel(batch.batch)
        if not remote.ended:
            await sync_to_async(_postpone)(batch, remote_status=remote.status)
            return
        missing_files, unread = [], 0
        for file in remote.files:
            try:
                unread += await collect(client, endpoint, job, batch, remote, file)
            except BadRequest as error:
                if error.http_status != NOT_FOUND:
                    raise
                missing_files.append(file)
        if missing_files or (remote.status == "completed" and not remote.files):
            raise BatchLost(f"Its file there: {', '.join(missing_files) or 'none'}.")
        await sync_to_async(with_database_retries)(_close, job, batch, remote, unread)


async def _fetch_state(client: BatchClient, batch: ProviderBatch) -> ProviderState:
    """Fetch the state of a submitted batch.

    Raises BatchLost if the endpoint knows it neither by its id nor by our name.
    """
    try:
        return await client.state(batch.batch)
    except BadRequest as error:
        if error.http_status != NOT_FOUND:
            raise
    remote = await client.look_up(str(batch.mark), batch.asked_at or batch.created_at, batch.file)
    if remote is None:
        raise BatchLost(f"Its id there: {batch.batch}.")
    return remote


async def _submit(gateway: Gateway, endpoint: Endpoint, job: Job, batch: ProviderBatch) -> ProviderState | None:
    """Submit a provider batch, unless a worker that was lost has done so; returns its remote state.

    Returns None if it must not be submitted.
    """
    remote = None
    if batch.asked_at is not None:
        remote = await BatchClient(gateway, endpoint.settings).look_up(str(batch.mark), batch.asked_at, batch.file)
    if remote is None:
        if not await sync_to_async(with_database_retries)(_may_submit, job, batch):
            return None
        client = BatchClient(gateway, endpoint.settings)
        file = await client.upload(str(batch.mark), await sync_to_async(_input_file)(batch))
        # From here on it is not submitted again without looking for it first.
        progress = {"file": file, "asked_at": batch.asked_at or timezone.now()}
        await sync_to_async(with_database_retries)(partial(note_progress, batch, **progress))
        remote = await client.create(file, str(batch.mark))
    # The ledger counts days by the time at which the endpoint created it, if that is plausible.
    now, submitted_at = timezone.now(), remote.created_at
    if not submitted_at or not (batch.asked_at or now) - ONE_DAY < submitted_at < now + ONE_DAY:
        submitted_at = now
    submitted = {
        "state": State.SUBMITTED,
        "batch": remote.id,
        "remote_status": remote.status,
        "submitted_at": submitted_at,
        "expires_at": remote.expires_at,
    }
    await sync_to_async(with_database_retries)(partial(note_progress, batch, **submitted))
    return remote


@transaction.atomic
def _may_submit(job: Job, batch: ProviderBatch) -> bool:
    """Whether the job of a batch runs; else postpone the batch, or drop it if the job is over."""
    status = life_cycle.lock_job(job.pk).status
    if status in OVER:
        finish(batch, Status.DONE, state=State.DROPPED, ended_at=timezone.now())
    elif status != Job.Status.RUNNING:
        _postpone(batch)
    return status == Job.Status.RUNNING


def _input_file(batch: ProviderBatch) -> bytes:
    """The input file of a provider batch (JSON Lines)."""
    lines = []
    for line in batch.lines.order_by("pk"):
        try:
            body = ledger.with_images(line.sent)
        except NoImage:  # the endpoint refuses only this line, which then goes to a lane that says why
            body = line.sent
        lines.append(json.dumps({"custom_id": line.custom_id.hex, "method": "POST", "url": PATH, "body": body}))
    return "\n".join(lines).encode()


@transaction.atomic
def _close(job: Job, batch: ProviderBatch, remote: ProviderState, unread: int) -> None:
    """Close a provider batch: its rows go to the lanes.

    One that was refused as a whole pauses the job.

    `unread`: how many lines of its results could not be read. They may have been paid for, so this
    is recorded.
    """
    counts = line_counts(batch)
    refused = remote.status == "failed" and counts["missing"] == batch.lines_count
    details, error, state = [remote.detail], "", State.COLLECTED
    if unread:
        details.append(f"{unread} lines of its results could not be read.")
        error = BrokenReply.__name__
    if refused:
        error, state = BatchRefused.__name__, State.DROPPED
    finish(
        batch,
        Status.DONE,
        state=state,
        remote_status=remote.status,
        ended_at=remote.ended_at or timezone.now(),
        error=error,
        detail=" ".join(filter(None, details)),
        **counts,
    )
    life_cycle.rest(job.pk, None)
    if refused:
        life_cycle.pause_unless_over(job.pk, BatchRefused.__name__, str(BatchRefused(remote.detail)))
