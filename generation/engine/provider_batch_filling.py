"""Fills provider batches with the lines of a job."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, partial
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from generation.engine import ledger
from generation.engine.group_commit import with_database_retries
from generation.engine.provider_batch_results import BatchGone
from generation.jobs.estimate import mean_reply_tokens
from generation.jobs.life_cycle import lock_job
from generation.llm.request_body import Format, build_body, estimate, identity
from generation.llm.types import ModelSettings, Request, Usage
from generation.models import Endpoint, Lane, ProviderBatch, ProviderLine
from generation.models.jobs import Job
from generation.models.work import Work

MAX_BYTES = 50 * 2**20  # of an input file; providers allow 100 to 200 MB
State = ProviderBatch.State
Status = Work.Status


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """The request of a row that the caller has taken."""

    row: Any  # Work with `via` and `live`
    request: Request


def prepare(job: Job, endpoint: Endpoint, requests: Sequence[BatchRequest]) -> bool:
    """Put taken rows (all under one token) into a provider batch, in one transaction.

    The batch is submitted later (`provider_batches.advance_batches`). A row whose reply is in the
    ledger already is left to the lanes; one whose request is in an open provider batch waits
    for that batch. Rows beyond the budget are requeued, and all rows if the job does not run any
    more. Returns False if the budget had no room for all of them or the job does not run.
    """
    try:
        return with_database_retries(_prepare, job, endpoint, list(requests))
    except BatchGone:  # the rows' lease was lost: another worker has them
        return True


@transaction.atomic
def _prepare(job: Job, endpoint: Endpoint, requests: list[BatchRequest]) -> bool:
    fresh = lock_job(job.pk)
    if fresh.status != Job.Status.RUNNING:
        _requeue([item.row for item in requests])
        return False
    settings, batch_settings = endpoint.settings, endpoint.batch_settings
    names = [identity(settings, item.request) for item in requests]
    subjects = [item.row.subject for item in requests]
    known = ledger.paid_replies(job, zip(names, subjects, strict=True))
    if job.fresh:
        elsewhere = {}
    else:
        elsewhere = _open_lines(names)
    calls, money = _room(fresh)
    format_for, mean_reply_to = (
        cache(partial(ledger.last_format, endpoint)),
        cache(partial(mean_reply_tokens, endpoint)),
    )
    lines: dict[str, ProviderLine] = {}  # by identity; by row for a job that ignores cached replies
    cached, own_rows, left_over = [], [], []
    elsewhere_rows: dict[int, list[Work]] = {}
    size, all_fit = 0, True
    for item, name in zip(requests, names, strict=True):
        line_key = name
        if job.fresh:
            line_key = item.row.subject
        if any(paid.reply.text.strip() for paid in known[name, item.row.subject]):
            cached.append(item.row)
        elif name in elsewhere:
            elsewhere_rows.setdefault(elsewhere[name], []).append(item.row)
        elif line_key in lines:
            own_rows.append(item.row)
        else:
            prompt = item.request.prompt
            output_format = Format.JSON_SCHEMA
            if item.request.schema:
                output_format = format_for(prompt)
            sent = build_body(settings, item.request, output_format)
            cost = _estimate(settings, item.request, mean_reply_to(prompt)).cost(batch_settings)
            size += len(json.dumps(sent)) + ledger.stored_image_bytes(sent) * 4 // 3  # in base64
            fits = (calls is None or len(lines) < calls) and (money is None or cost <= money)
            all_fit = all_fit and fits
            if not fits or (lines and size > MAX_BYTES):
                left_over.append(item.row)
                continue
            if money is not None:
                money -= cost
            ledger.store_images([sent])
            lines[line_key] = ProviderLine(
                subject=item.row.subject,
                identity=name,
                prompt=prompt,
                sent=ledger.without_images(sent),
                estimate=cost,
            )
            own_rows.append(item.row)
    if lines:
        now = timezone.now()
        batch = ProviderBatch.objects.create(
            job_id=job.pk, endpoint=endpoint, next_at=now, created_at=now, lines_count=len(lines)
        )
        for line in lines.values():
            line.batch = batch
        ProviderLine.objects.bulk_create(lines.values())
        _requeue(own_rows, via=batch)
    for pk, rows in elsewhere_rows.items():
        _requeue(rows, via=pk)
    _requeue(cached, live=True)
    _requeue(left_over)
    return all_fit


def _estimate(settings: ModelSettings, request: Request, mean_reply: int | None) -> Usage:
    """The estimated usage of a line.

    `mean_reply`: the mean reply tokens of such lines; without it, the token limit counts, if there
    is one.
    """
    used = estimate(settings, request)
    if request.max_tokens is None:
        limit = settings.max_tokens
    else:
        limit = request.max_tokens
    if mean_reply is None:
        tokens_out = limit or used.tokens_out
    else:
        tokens_out = min(mean_reply, limit or mean_reply)
    return replace(used, tokens_out=tokens_out)


def _requeue(rows: Sequence[Work], **fields: Any) -> None:
    """Requeue taken rows, as if they had not been taken, with these fields. Raises BatchGone."""
    if not rows:
        return
    held = type(rows[0])._default_manager.filter(pk__in=[row.pk for row in rows], status=Status.RUNNING)
    requeued = {"status": Status.QUEUED, "token": None, "lease_until": None, "tries": F("tries") - 1}
    if held.filter(token=rows[0].token).update(**requeued, **fields) != len(rows):
        raise BatchGone


def _open_lines(names: Sequence[str]) -> dict[str, int]:
    """The open provider batches of any job that contain these requests: identity -> batch.

    Prepared batches of jobs that do not run are left out, as they may never be submitted.
    """
    lines = ProviderLine.objects.filter(identity__in=names, batch__state__in=ProviderBatch.OPEN, call__isnull=True)
    lines = lines.exclude(~Q(batch__job__status=Job.Status.RUNNING), batch__state=State.PREPARED)
    return dict(lines.values_list("identity", "batch"))


def _room(job: Job) -> tuple[int | None, Decimal | None]:
    """How many more lines may be submitted, and at what estimated cost; None: no limit.

    The caller holds the lock on the job.
    """
    in_flight = Lane.objects.filter(job=job.pk, until__gt=timezone.now()).aggregate(n=Sum("in_flight"))["n"] or 0
    waiting = ledger.outstanding(job).aggregate(n=Count("pk"), cost=Sum("estimate"))
    calls_left, money_left = None, None
    if job.budget_calls is not None:
        calls_left = max(0, job.budget_calls - job.calls - in_flight - waiting["n"])
    if job.budget_money is not None:
        money_left = job.budget_money - job.cost - (waiting["cost"] or 0)
    return calls_left, money_left
