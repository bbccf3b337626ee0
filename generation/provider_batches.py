"""Provider batches: requests of a job that go to an endpoint in one file, are answered within a day, and cost less.

What comes back is written into the ledger and nothing else: the rows go back to the queue, are taken by a lane and find
their replies there as paid for. So a reply is read, refused and repaired by the one code path there is. A line that
failed or was never put to the model finds nothing, and is asked live.
"""

import asyncio
import contextlib
import json
import logging
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Count, F, Min, Q, QuerySet, Sum
from django.utils import timezone

from generation import jobs
from generation import ledger as books
from generation.errors import JobOver
from generation.estimates import tokens_back
from generation.jobs import OVER, Job
from generation.lanes import patiently
from generation.llm.batches import PATH, Door, LineResult, ProviderState
from generation.llm.errors import BadRequest, BatchLost, BatchRefused, BrokenReply, GivenUp, LLMError, UnexpectedError
from generation.llm.gateway import Format, Gateway, body, estimate, identity
from generation.llm.types import Attempt, ModelSettings, Reply, Request, Usage
from generation.models import Endpoint, Lane, ProviderBatch, ProviderLine
from generation.work import Work, check_tries, finish, lease, renew, take

log = logging.getLogger(__name__)

MAX_LINES = 2_000  # in one provider batch: the rows of one are taken, prepared and released together
MAX_BYTES = 50 * 2**20  # of its file; providers allow 100 to 200 MB
GONE = 404
MAX_WAIT = 3_600.0  # seconds that an endpoint may put us off for
CHUNK = 200  # lines that are written into the ledger in one transaction
CHUNK_TEXT = 16 * 2**20  # characters of them
AGE = timedelta(
    days=30
)  # after which no more is expected of a batch that was submitted: providers keep results as long
A_DAY = timedelta(days=1)
State = ProviderBatch.State
Status = Work.Status

# Of rows with `via` and `live` (see `evaluation.models.Asked`): those whose request has been in a provider batch.
COLLECTED = Q(via__state=State.COLLECTED)
NOT_YET_SENT = Q(live=False) & (Q(via__isnull=True) | Q(via__state=State.DROPPED))


class _Lost(Exception):
    """Somebody else holds this provider batch by now, or the rows that were to go into it."""


@dataclass(frozen=True, slots=True)
class Want:
    """What is to be asked for a row that the caller has taken."""

    row: Any  # Work with `via` and `live`
    request: Request

    @property
    def subject(self) -> str:
        return f"{self.row._meta.model_name}:{self.row.pk}"


# ---------------------------------------------------------------------------------------------------------- preparing


def prepare(job: Job, endpoint: Endpoint, wants: Sequence[Want]) -> bool:
    """Put taken rows (all under one token) into a provider batch, in one transaction; it is submitted by `follow`.

    A row whose reply is in the ledger already goes to the lanes; one whose request is in an open provider batch waits for
    that one. What the budget has no room for goes back to the queue, and all of it where the job
    does not run any more: then the answer is False.
    """
    try:
        return patiently(_prepare, job, endpoint, list(wants))
    except _Lost:  # the rows' lease: they are with somebody else
        return True


@transaction.atomic
def _prepare(job: Job, endpoint: Endpoint, wants: list[Want]) -> bool:
    fresh = type(job)._default_manager.select_for_update(of=("self",), no_key=True).get(pk=job.pk)
    if fresh.status != Job.Status.RUNNING:
        _place([want.row for want in wants])
        return False
    asked, cheaper = endpoint.settings, endpoint.batch_settings
    names = [identity(asked, want.request) for want in wants]
    known = books.find(job, [(name, want.subject) for want, name in zip(wants, names, strict=True)])
    elsewhere = {} if job.fresh else _open_lines(job, names)
    calls, money = _room(fresh)
    forms = {
        prompt: books.form(endpoint, prompt)
        for prompt in {want.request.prompt for want in wants if want.request.schema}
    }
    back = {prompt: tokens_back(endpoint, prompt) for prompt in {want.request.prompt for want in wants}}
    lines: dict[str, ProviderLine] = {}  # by identity; of a job that asks anew, by row
    cached, ours, left = [], [], []
    theirs: dict[int, list[Work]] = {}
    size, enough = 0, True
    for want, name in zip(wants, names, strict=True):
        own_name = want.subject if job.fresh else name
        if any(paid.reply.text.strip() for paid in known[name, want.subject]):
            cached.append(want.row)
        elif name in elsewhere:
            theirs.setdefault(elsewhere[name], []).append(want.row)
        elif own_name in lines:
            ours.append(want.row)
        else:
            sent = body(asked, want.request, forms.get(want.request.prompt, Format.JSON_SCHEMA))
            cost = _estimate(asked, want.request, back[want.request.prompt]).cost(cheaper)
            size += len(json.dumps(sent))
            fits = (calls is None or len(lines) < calls) and (money is None or cost <= money)
            enough = enough and fits
            if not fits or (lines and size > MAX_BYTES):
                left.append(want.row)
                continue
            if money is not None:
                money -= cost
            books.keep_images([sent])
            lines[own_name] = ProviderLine(
                subject=want.subject,
                identity=name,
                prompt=want.request.prompt,
                sent=books.without_images(sent),
                estimate=cost,
            )
            ours.append(want.row)
    if lines:
        now = timezone.now()
        made = ProviderBatch.objects.create(
            job=job.job, endpoint=endpoint, next_at=now, created_at=now, lines_count=len(lines)
        )
        for line in lines.values():
            line.batch = made
        ProviderLine.objects.bulk_create(lines.values())
        _place(ours, via=made)
    for pk, rows in theirs.items():
        _place(rows, via=pk)
    _place(cached, live=True)
    _place(left)
    return enough


def _estimate(asked: ModelSettings, request: Request, back: int | None) -> Usage:
    """What a line may use. `back`: the tokens that came back of such lines; else all that it may say, if that is limited."""
    used = estimate(asked, request)
    limit = asked.max_tokens if request.max_tokens is None else request.max_tokens
    found = limit or used.tokens_out if back is None else min(back, limit or back)
    return replace(used, tokens_out=found)


def _place(rows: Sequence[Work], **fields: Any) -> None:
    """Give taken rows back to the queue, as if they had not been taken."""
    if not rows:
        return
    ours = type(rows[0])._default_manager.filter(pk__in=[row.pk for row in rows], status=Status.RUNNING)
    back = {"status": Status.QUEUED, "token": None, "lease_until": None, "tries": F("tries") - 1}
    if ours.filter(token=rows[0].token).update(**back, **fields) != len(rows):
        raise _Lost


def _open_lines(job: Job, names: Sequence[str]) -> dict[str, int]:
    """Identity -> the open provider batch in which it is asked already, of whatever job.

    Not one that may never be submitted, as its job does not run.
    """
    there = ProviderLine.objects.filter(identity__in=names, batch__state__in=ProviderBatch.OPEN, call__isnull=True)
    prepared = there.filter(batch__state=State.PREPARED).order_by().values_list("batch__job", flat=True).distinct()
    there = there.exclude(batch__state=State.PREPARED, batch__job__in=stopped(type(job), prepared))
    return dict(there.values_list("identity", "batch"))


def stopped(kind: type[Job], names: Iterable[str]) -> set[str]:
    """Of the names of jobs of one kind, those of jobs that do not run."""
    pks = [name.partition(":")[2] for name in names]
    return {job.job for job in kind._default_manager.filter(pk__in=pks).exclude(status=Job.Status.RUNNING)}


def held_up(kind: type[Job]) -> QuerySet[ProviderBatch]:
    """Provider batches that nobody submits at present, as their job does not run: no other job is to wait for them."""
    prepared = ProviderBatch.objects.filter(state=State.PREPARED, asked_at__isnull=True)
    return prepared.filter(job__in=stopped(kind, prepared.values_list("job", flat=True)))


def _room(job: Job) -> tuple[int | None, Decimal | None]:
    """How many more lines may be submitted, and for how much by the estimate; None: no limit. The caller holds the job."""
    flying = Lane.objects.filter(job=job.job, until__gt=timezone.now()).aggregate(n=Sum("flying"))["n"] or 0
    waiting = books.outstanding(job).aggregate(n=Count("pk"), cost=Sum("estimate"))
    return (
        None if job.budget_calls is None else max(0, job.budget_calls - job.calls - flying - waiting["n"]),
        None if job.budget_money is None else job.budget_money - job.cost - (waiting["cost"] or 0),
    )


def is_open(job: Job) -> bool:
    """Whether a provider batch of this job has not come to its end."""
    return ProviderBatch.objects.filter(job=job.job, state__in=ProviderBatch.OPEN).exists()


def wait(job: Job) -> None:
    """Let a job rest until its next provider batch is looked at: there is nothing else to do."""
    until = ProviderBatch.objects.filter(job=job.job, state__in=ProviderBatch.OPEN).aggregate(at=Min("next_at"))["at"]
    if until is not None:
        jobs.rest(type(job), job.pk, until)


# ---------------------------------------------------------------------------------------------------------- following


def due(job: Job) -> QuerySet[ProviderBatch]:
    """The provider batches of a job that want to be brought a step further now.

    None is submitted for a job that is paused; but what was, or may have been, is followed to its end whatever becomes
    of the job: it is being paid for.
    """
    found = ProviderBatch.objects.filter(
        job=job.job, state__in=ProviderBatch.OPEN, status=Status.QUEUED, next_at__lte=timezone.now()
    )
    if job.status == Job.Status.PAUSED:
        found = found.filter(Q(state=State.SUBMITTED) | Q(asked_at__isnull=False))
    return found.order_by("pk")


def jobs_due() -> list[str]:
    """The names of the jobs that may have a provider batch to be followed."""
    waiting = ProviderBatch.objects.filter(
        state__in=ProviderBatch.OPEN, status=Status.QUEUED, next_at__lte=timezone.now()
    )
    return list(waiting.order_by("job").values_list("job", flat=True).distinct())


def follow(job: Job) -> None:
    """Bring each provider batch of a job that is due one step further: submit it, look at it, or collect its results."""
    fresh = type(job)._default_manager.get(pk=job.pk)
    for pk in due(fresh).values_list("pk", flat=True):
        for batch in take(ProviderBatch.objects.filter(pk=pk), 1):
            _step(job, batch)


def _step(job: Job, batch: ProviderBatch) -> None:
    try:
        check_tries(batch)
        if batch.asked_at and timezone.now() - batch.asked_at > AGE:
            raise BatchLost(f"It did not end within {AGE.days} days.")
        async_to_sync(_advance)(job, batch)
    except _Lost:
        log.warning("provider batch %s was lost to another worker", batch.pk)
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
        jobs.pause(type(job), job.pk, because=error.kind, detail=str(error))


def _drop(job: Job, batch: ProviderBatch, said: dict[str, Any]) -> None:
    """Close a provider batch that was not made, or of which no more will be heard; its rows are free for a new one."""
    finish(batch, Status.DONE, state=State.DROPPED, ended_at=timezone.now(), **said, **_counts(batch))
    type(job)._default_manager.filter(pk=job.pk).update(rests_until=None)


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
            found = await _known(Door(gateway, endpoint.settings), batch)
        over = await type(job)._default_manager.filter(pk=job.pk, status__in=OVER).aexists()
        door = Door(gateway, endpoint.settings)
        if over and not found.ended and found.status != "cancelling":
            found = await door.cancel(batch.batch)
        if not found.ended:
            await sync_to_async(_later)(batch, said=found.status)
            return
        gone, unread = [], 0
        for file in found.files:
            try:
                unread += await _collect(door, endpoint, job, batch, found, file)
            except BadRequest as error:
                if error.http_status != GONE:
                    raise
                gone.append(file)
        if gone:
            raise BatchLost(f"Its file there: {', '.join(gone)}.")
        await sync_to_async(patiently)(_end, job, batch, found, unread)


async def _known(door: Door, batch: ProviderBatch) -> ProviderState:
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
        found = await Door(gateway, endpoint.settings).look_up(str(batch.mark), batch.asked_at, batch.file)
    if found is None:
        if not await sync_to_async(patiently)(_may_submit, job, batch):
            return None
        door = Door(gateway, endpoint.settings)
        file = await door.upload(str(batch.mark), await sync_to_async(_file)(batch))
        # From here on nobody submits it again without having looked for it.
        asked = {"file": file, "asked_at": batch.asked_at or timezone.now()}
        await sync_to_async(patiently)(partial(_note, batch, **asked))
        found = await door.create(file, str(batch.mark))
    submitted = {
        "state": State.SUBMITTED,
        "batch": found.id,
        "said": found.status,
        "submitted_at": _submitted_at(batch, found),
        "expires_at": found.expires_at,
    }
    await sync_to_async(patiently)(partial(_note, batch, **submitted))
    return found


def _submitted_at(batch: ProviderBatch, found: ProviderState) -> datetime:
    """When it was made there, where that can be: the ledger's days are counted by it."""
    now = timezone.now()
    made = found.created_at
    return made if made and (batch.asked_at or now) - A_DAY < made < now + A_DAY else now


@transaction.atomic
def _may_submit(job: Job, batch: ProviderBatch) -> bool:
    """Whether its job still runs; a provider batch of one that is over is dropped."""
    status = type(job)._default_manager.select_for_update(of=("self",), no_key=True).get(pk=job.pk).status
    if status in OVER:
        finish(batch, Status.DONE, state=State.DROPPED, ended_at=timezone.now())
    elif status != Job.Status.RUNNING:
        _later(batch)
    return status == Job.Status.RUNNING


def _file(batch: ProviderBatch) -> bytes:
    """The provider batch as JSON Lines."""
    lines = []
    for line in batch.lines.order_by("pk"):
        asked = {"custom_id": line.custom_id.hex, "method": "POST", "url": PATH, "body": books.with_images(line.sent)}
        lines.append(json.dumps(asked))
    return "\n".join(lines).encode()


def _note(batch: ProviderBatch, /, **fields: Any) -> None:
    """Write down what is known of a provider batch that is still ours. Raises _Lost."""
    ours = ProviderBatch.objects.filter(pk=batch.pk, token=batch.token, status=Status.RUNNING)
    if not ours.update(lease_until=timezone.now() + lease(), **fields):
        raise _Lost
    for name, value in fields.items():
        setattr(batch, name, value)


async def _collect(
    door: Door, endpoint: Endpoint, job: Job, batch: ProviderBatch, found: ProviderState, file: str
) -> int:
    """Write the results in a file into the ledger; returns how many lines of it could not be read."""
    chunk: list[LineResult] = []
    unread = size = 0

    async def keep(results: list[LineResult]) -> None:
        try:
            await sync_to_async(patiently)(_keep, endpoint, job, batch, found, results)
        except (_Lost, OperationalError, InterfaceError):
            raise
        except Exception as failure:  # one that cannot be written is no reason to lose the others
            if len(results) == 1:
                log.exception("provider batch %s: a result cannot be written", batch.pk)
                broken = BrokenReply(f"This result cannot be kept ({type(failure).__name__}).")
                results = [replace(results[0], outcome=broken)]
                await sync_to_async(patiently)(_keep, endpoint, job, batch, found, results)
            else:
                for each in results:
                    await keep([each])

    async with contextlib.aclosing(door.results(file, batch.lines_count)) as results:
        async for result in results:
            if result is None:
                unread += 1
                continue
            chunk.append(result)
            size += _size(result)
            if len(chunk) == CHUNK or size > CHUNK_TEXT:
                await keep(chunk)
                chunk, size = [], 0
    await keep(chunk)
    return unread


def _size(result: LineResult) -> int:
    reply = result.outcome.reply if isinstance(result.outcome, LLMError) else result.outcome
    return len(reply.text) + len(reply.reasoning) if reply else 0


@transaction.atomic
def _keep(
    endpoint: Endpoint, job: Job, batch: ProviderBatch, found: ProviderState, results: Sequence[LineResult]
) -> None:
    """Write results into the ledger, each once: a line that has its own there already is left alone."""
    _note(batch)
    began = batch.submitted_at or batch.created_at
    now = timezone.now()
    took = max(0.0, (min(found.ended_at or now, now) - began).total_seconds())
    by_name = {name: result for result in reversed(results) if (name := _uuid(result.custom_id))}
    waiting = ProviderLine.objects.filter(batch=batch, custom_id__in=by_name, call__isnull=True).order_by("pk")
    done: list[ProviderLine] = []
    lines: list[books.Line] = []
    for line in waiting:
        result = by_name[line.custom_id]
        if result.outcome is None:
            continue
        attempt = _attempt(line, endpoint, result, began, took)
        done.append(line)
        lines.append(books.Line(attempt, endpoint, line.subject))
    for line, call in zip(done, books.write(job, lines), strict=True):
        line.call, line.sent = call, {}
    ProviderLine.objects.bulk_update(done, ["call", "sent"])


def _attempt(line: ProviderLine, endpoint: Endpoint, result: LineResult, began: datetime, took: float) -> Attempt:
    outcome = result.outcome
    error = outcome if isinstance(outcome, LLMError) else None
    return Attempt(
        endpoint.batch_settings,
        Request((), prompt=line.prompt),
        line.sent,
        1,
        began,
        took,
        reply=outcome if isinstance(outcome, Reply) else error.reply if error else None,
        error=error.kind if error else "",
        detail=error.detail if error else "",
        http_status=result.http_status,
        identity=line.identity,
        id=line.custom_id,
    )


def _uuid(name: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(hex=name)
    except ValueError:
        return None


def _counts(batch: ProviderBatch) -> dict[str, int]:
    """What became of its lines so far."""
    return batch.lines.aggregate(
        answered=Count("call", filter=Q(call__error="")),
        refused=Count("call", filter=~Q(call__error="")),
        missing=Count("pk", filter=Q(call__isnull=True)),
    )


@transaction.atomic
def _end(job: Job, batch: ProviderBatch, found: ProviderState, unread: int) -> None:
    """Close a provider batch: its rows go to the lanes. One that was refused as a whole pauses the job.

    `unread`: lines of its results that made no sense. They may have been paid for, so that is said.
    """
    counts = _counts(batch)
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
    type(job)._default_manager.filter(pk=job.pk).update(rests_until=None)
    if whole:
        _pause(job, BatchRefused(found.detail))
