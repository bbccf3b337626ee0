"""Writes the results of a provider batch into the ledger."""

import contextlib
import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Count, Q
from django.utils import timezone

from generation.engine import ledger
from generation.engine.group_commit import with_database_retries
from generation.engine.task_queue import keep
from generation.llm.batch_protocol import BatchClient, LineResult, ProviderState
from generation.llm.errors import BrokenReply, LLMError
from generation.llm.types import Attempt, Reply, Request
from generation.models import Endpoint, ProviderBatch, ProviderLine
from generation.models.jobs import Job
from generation.models.work import Work

log = logging.getLogger(__name__)

CHUNK = 200  # lines written into the ledger in one transaction
CHUNK_CHARS = 16 * 2**20  # characters of these lines
Status = Work.Status


class BatchGone(Exception):
    """Another worker has taken over this provider batch, or the rows meant for it."""


def note_progress(batch: ProviderBatch, /, **fields: Any) -> None:
    """Update a provider batch that is still ours and renew its lease. Raises BatchGone."""
    if not keep(batch, **fields):
        raise BatchGone
    for name, value in fields.items():
        setattr(batch, name, value)


async def collect(
    client: BatchClient, endpoint: Endpoint, job: Job, batch: ProviderBatch, remote: ProviderState, file: str
) -> int:
    """Write the results of a file into the ledger; returns how many of its lines are unreadable."""
    chunk: list[LineResult] = []
    unread = size = 0

    async def store(results: list[LineResult]) -> None:
        try:
            await sync_to_async(with_database_retries)(_store_results, endpoint, job, batch, remote, results)
        except (BatchGone, OperationalError, InterfaceError):
            raise
        except Exception as failure:  # one unwritable result must not lose the others
            if len(results) == 1:
                log.exception("provider batch %s: a result could not be written", batch.pk)
                broken = BrokenReply(f"This result cannot be kept ({type(failure).__name__}).")
                results = [replace(results[0], outcome=broken)]
                await sync_to_async(with_database_retries)(_store_results, endpoint, job, batch, remote, results)
            else:
                for result in results:
                    await store([result])

    async with contextlib.aclosing(client.results(file, batch.lines_count)) as results:
        async for result in results:
            if result is None:
                unread += 1
                continue
            chunk.append(result)
            size += _size(result)
            if len(chunk) == CHUNK or size > CHUNK_CHARS:
                await store(chunk)
                chunk, size = [], 0
    await store(chunk)
    return unread


def _size(result: LineResult) -> int:
    if isinstance(result.outcome, LLMError):
        reply = result.outcome.reply
    else:
        reply = result.outcome
    if reply:
        return len(reply.text) + len(reply.reasoning)
    return 0


@transaction.atomic
def _store_results(
    endpoint: Endpoint, job: Job, batch: ProviderBatch, remote: ProviderState, results: Sequence[LineResult]
) -> None:
    """Write results into the ledger, each once: lines that are there already are skipped."""
    note_progress(batch)
    started_at = batch.submitted_at or batch.created_at
    now = timezone.now()
    seconds = max(0.0, (min(remote.ended_at or now, now) - started_at).total_seconds())
    by_name: dict[uuid.UUID, LineResult] = {}
    for result in reversed(results):
        with contextlib.suppress(ValueError):  # not one of our names
            by_name[uuid.UUID(hex=result.custom_id)] = result
    open_lines = ProviderLine.objects.filter(batch=batch, custom_id__in=by_name, call__isnull=True).order_by("pk")
    written: list[ProviderLine] = []
    lines: list[ledger.LedgerLine] = []
    for line in open_lines:
        result = by_name[line.custom_id]
        if result.outcome is None:
            continue
        attempt = _attempt(line, endpoint, result, started_at, seconds)
        written.append(line)
        lines.append(ledger.LedgerLine(attempt, endpoint, line.subject))
    for line, call in zip(written, ledger.write(job, lines), strict=True):
        line.call, line.sent = call, {}
    ProviderLine.objects.bulk_update(written, ["call", "sent"])


def _attempt(
    line: ProviderLine, endpoint: Endpoint, result: LineResult, started_at: datetime, seconds: float
) -> Attempt:
    outcome = result.outcome
    reply, kind, detail = None, "", ""
    if isinstance(outcome, Reply):
        reply = outcome
    if isinstance(outcome, LLMError):
        kind, detail = outcome.kind, outcome.detail
        reply = outcome.reply  # of an answer that was paid for and cannot be used
    return Attempt(
        endpoint.batch_settings,
        Request((), prompt=line.prompt),
        line.sent,
        1,
        started_at,
        seconds,
        reply=reply,
        error=kind,
        detail=detail,
        http_status=result.http_status,
        identity=line.identity,
        id=line.custom_id,
    )


def line_counts(batch: ProviderBatch) -> dict[str, int]:
    """How many lines of the batch were answered, refused or never asked, so far."""
    return batch.lines.aggregate(
        answered=Count("call", filter=Q(call__error="")),
        refused=Count("call", filter=~Q(call__error="")),
        missing=Count("pk", filter=Q(call__isnull=True)),
    )
