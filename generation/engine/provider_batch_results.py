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

from generation.engine import ledger as books
from generation.engine.group_commit import with_database_retries
from generation.engine.task_queue import lease
from generation.llm.batch_protocol import BatchClient, LineResult, ProviderState
from generation.llm.errors import BrokenReply, LLMError
from generation.llm.types import Attempt, Reply, Request
from generation.models import Endpoint, ProviderBatch, ProviderLine
from generation.models.jobs import Job
from generation.models.work import Work

log = logging.getLogger(__name__)

CHUNK = 200  # lines that are written into the ledger in one transaction
CHUNK_TEXT = 16 * 2**20  # characters of them
Status = Work.Status


class BatchGone(Exception):
    """Somebody else holds this provider batch by now, or the rows that were to go into it."""


def note_progress(batch: ProviderBatch, /, **fields: Any) -> None:
    """Write down what is known of a provider batch that is still ours. Raises BatchGone."""
    ours = ProviderBatch.objects.filter(pk=batch.pk, token=batch.token, status=Status.RUNNING)
    if not ours.update(lease_until=timezone.now() + lease(), **fields):
        raise BatchGone
    for name, value in fields.items():
        setattr(batch, name, value)


async def collect(
    door: BatchClient, endpoint: Endpoint, job: Job, batch: ProviderBatch, found: ProviderState, file: str
) -> int:
    """Write the results in a file into the ledger; returns how many lines of it could not be read."""
    chunk: list[LineResult] = []
    unread = size = 0

    async def keep(results: list[LineResult]) -> None:
        try:
            await sync_to_async(with_database_retries)(_keep, endpoint, job, batch, found, results)
        except (BatchGone, OperationalError, InterfaceError):
            raise
        except Exception as failure:  # one that cannot be written is no reason to lose the others
            if len(results) == 1:
                log.exception("provider batch %s: a result could not be written", batch.pk)
                broken = BrokenReply(f"This result cannot be kept ({type(failure).__name__}).")
                results = [replace(results[0], outcome=broken)]
                await sync_to_async(with_database_retries)(_keep, endpoint, job, batch, found, results)
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
    note_progress(batch)
    began = batch.submitted_at or batch.created_at
    now = timezone.now()
    took = max(0.0, (min(found.ended_at or now, now) - began).total_seconds())
    by_name = {name: result for result in reversed(results) if (name := _uuid(result.custom_id))}
    waiting = ProviderLine.objects.filter(batch=batch, custom_id__in=by_name, call__isnull=True).order_by("pk")
    done: list[ProviderLine] = []
    lines: list[books.LedgerLine] = []
    for line in waiting:
        result = by_name[line.custom_id]
        if result.outcome is None:
            continue
        attempt = _attempt(line, endpoint, result, began, took)
        done.append(line)
        lines.append(books.LedgerLine(attempt, endpoint, line.subject))
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


def line_counts(batch: ProviderBatch) -> dict[str, int]:
    """What became of its lines so far."""
    return batch.lines.aggregate(
        answered=Count("call", filter=Q(call__error="")),
        refused=Count("call", filter=~Q(call__error="")),
        missing=Count("pk", filter=Q(call__isnull=True)),
    )
