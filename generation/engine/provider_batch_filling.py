"""Fills provider batches with the lines of a job."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, Sum
from django.utils import timezone

from generation.engine import ledger as books
from generation.engine.group_commit import with_database_retries
from generation.engine.provider_batch_results import BatchGone
from generation.jobs.estimate import mean_reply_tokens
from generation.jobs.life_cycle import locked
from generation.llm.request_body import Format, body, estimate, identity
from generation.llm.types import ModelSettings, Request, Usage
from generation.models import Endpoint, Lane, ProviderBatch, ProviderLine
from generation.models.jobs import Job
from generation.models.work import Work

MAX_BYTES = 50 * 2**20  # of its file; providers allow 100 to 200 MB
State = ProviderBatch.State
Status = Work.Status


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What is to be asked for a row that the caller has taken."""

    row: Any  # Work with `via` and `live`
    request: Request

    @property
    def subject(self) -> str:
        return f"{self.row._meta.model_name}:{self.row.pk}"


def prepare(job: Job, endpoint: Endpoint, wants: Sequence[BatchRequest]) -> bool:
    """Put taken rows (all under one token) into a provider batch, in one transaction; it is submitted by `follow`.

    A row whose reply is in the ledger already goes to the lanes; one whose request is in an open provider batch waits for
    that one. What the budget has no room for goes back to the queue, and all of it where the job
    does not run any more: then the answer is False.
    """
    try:
        return with_database_retries(_prepare, job, endpoint, list(wants))
    except BatchGone:  # the rows' lease: they are with somebody else
        return True


@transaction.atomic
def _prepare(job: Job, endpoint: Endpoint, wants: list[BatchRequest]) -> bool:
    fresh = locked(job.pk)
    if fresh.status != Job.Status.RUNNING:
        _place([want.row for want in wants])
        return False
    asked, cheaper = endpoint.settings, endpoint.batch_settings
    names = [identity(asked, want.request) for want in wants]
    known = books.find(job, [(name, want.subject) for want, name in zip(wants, names, strict=True)])
    elsewhere = {} if job.fresh else _open_lines(names)
    calls, money = _room(fresh)
    forms = {
        prompt: books.form(endpoint, prompt)
        for prompt in {want.request.prompt for want in wants if want.request.schema}
    }
    back = {prompt: mean_reply_tokens(endpoint, prompt) for prompt in {want.request.prompt for want in wants}}
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
            size += len(json.dumps(sent)) + books.kept_image_bytes(sent) * 4 // 3  # in base64
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
            job_id=job.pk, endpoint=endpoint, next_at=now, created_at=now, lines_count=len(lines)
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
        raise BatchGone


def _open_lines(names: Sequence[str]) -> dict[str, int]:
    """Identity -> the open provider batch in which it is asked already, of whatever job.

    Not one that may never be submitted, as its job does not run.
    """
    there = ProviderLine.objects.filter(identity__in=names, batch__state__in=ProviderBatch.OPEN, call__isnull=True)
    there = there.exclude(~Q(batch__job__status=Job.Status.RUNNING), batch__state=State.PREPARED)
    return dict(there.values_list("identity", "batch"))


def _room(job: Job) -> tuple[int | None, Decimal | None]:
    """How many more lines may be submitted, and for how much by the estimate; None: no limit. The caller holds the job."""
    flying = Lane.objects.filter(job=job.pk, until__gt=timezone.now()).aggregate(n=Sum("flying"))["n"] or 0
    waiting = books.outstanding(job).aggregate(n=Count("pk"), cost=Sum("estimate"))
    return (
        None if job.budget_calls is None else max(0, job.budget_calls - job.calls - flying - waiting["n"]),
        None if job.budget_money is None else job.budget_money - job.cost - (waiting["cost"] or 0),
    )
