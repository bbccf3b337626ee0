"""The ledger in the database: what calls cost, what may still be spent, what has been paid for already.

Each function takes what several rows want at the same moment, so that one transaction does for all of them.
"""

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, F, Min, QuerySet, Sum
from django.utils import timezone

from generation.images.files import open_image
from generation.jobs.life_cycle import locked
from generation.llm.errors import LLMError
from generation.llm.ledger_interface import PaidReply
from generation.llm.request_body import Format, form_of, image_parts, with_image_data
from generation.llm.types import DIGEST, Attempt, Reply, Usage, image_of
from generation.models import (
    Call,
    Endpoint,
    EndpointDay,
    JobError,
    Lane,
    ProviderBatch,
    ProviderLine,
    SentImage,
    StoredImage,
)
from generation.models.jobs import Job

MOST_TOKENS = 10**8  # in or out of one call; an endpoint that reports more reports nonsense
A_MOMENT = timedelta(seconds=1)  # that a job rests at least
KNOWN = 5  # of the replies paid for under one identity, so many are looked at: a broken one is none


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """An attempt, and what it was made for. `repeated`: the row had been lost with a worker before."""

    attempt: Attempt
    endpoint: Endpoint
    subject: str
    repeated: bool = False


def bare(attempt: Attempt, error: LLMError) -> Attempt:
    """An attempt without anything that was sent or said, but with what it cost: where the whole of it cannot be stored."""
    reply = attempt.reply and Reply("", usage=attempt.reply.usage, simulated=attempt.reply.simulated)
    request = replace(attempt.request, prompt="")
    return replace(attempt, request=request, sent={}, reply=reply, error=error.kind, detail=error.detail)


def write(job: Job, lines: Sequence[LedgerLine], *, lane: int | None = None, again: bool = False) -> list[Call]:
    """Write attempts and hits into the ledger, and count them in the totals of the job and of the endpoints' days.

    The caller's transaction holds all of it. `again`: this was tried before, and the database went away before it confirmed.
    Lines that are already there are neither written nor counted again. Without `again`, the unique id refuses them.

    What `lane` had reserved for these attempts is not in flight any more. An endpoint that answers as a simulator is marked
    so, whatever it was called when it was made.
    """
    keep_images(line.attempt.sent for line in lines)
    calls = [_call(job.pk, line) for line in lines]
    new = _insert(calls, again)
    if new:
        _count(job, [(line, call) for line, call in zip(lines, calls, strict=True) if call.attempt_id in new], lane)
    return calls


def _insert(calls: Sequence[Call], again: bool) -> Collection[UUID | None]:
    """Write what is not there yet, and give each call its number. Returns the attempts that were new.

    On PostgreSQL written out, all rows in one JSON parameter: to adapt thirty columns of each took the client longer than all
    the rest of a call (python -m bench.engine).
    """
    numbers: dict[UUID | None, int] = {}
    if again:
        ids = [call.attempt_id for call in calls]
        numbers = dict(Call.objects.filter(attempt_id__in=ids).values_list("attempt_id", "pk"))
    new = [call for call in calls if call.attempt_id not in numbers]
    if new and connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, [json.dumps([_row(call) for call in new])])
            numbers.update(cursor.fetchall())
    elif new:
        numbers.update((call.attempt_id, call.pk) for call in Call.objects.bulk_create(new))
    for call in calls:
        call.pk = numbers[call.attempt_id]
    return {call.attempt_id for call in new}


_FIELDS = [field for field in Call._meta.concrete_fields if not field.primary_key]
_COLUMNS = ", ".join(str(field.column) for field in _FIELDS)
_INSERT = (
    f"INSERT INTO {Call._meta.db_table} ({_COLUMNS}) SELECT {_COLUMNS}"  # noqa: S608
    f" FROM json_populate_recordset(NULL::{Call._meta.db_table}, %s::json)"
    " RETURNING attempt_id, id"
)


def _row(call: Call) -> dict[str, Any]:
    """The columns of a call, as JSON has them."""
    row = {str(field.column): getattr(call, field.attname) for field in _FIELDS}
    return {
        **row,
        "cost": str(call.cost),
        "attempt_id": str(call.attempt_id),
        "started_at": call.started_at.isoformat(),
    }


def _count(job: Job, written: Sequence[tuple[LedgerLine, Call]], lane: int | None) -> None:
    lines, calls = [line for line, _ in written], [call for _, call in written]
    attempts = [call for call in calls if call.hit_of_id is None]
    # The job first, then what it shares with others, in an order: two that write at once wait for one another once.
    Job.objects.filter(pk=job.pk).update(**_added(calls))
    _count_errors(job.pk, attempts)
    _count_days(calls)
    if lane is not None and attempts:
        Lane.objects.filter(pk=lane).update(flying=F("flying") - len(attempts))
    _note_simulated(lines, calls)


SUMS = ("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning")


def _added(calls: Sequence[Call]) -> dict[str, Any]:
    """What these lines add to the totals of a job or of an endpoint's day; a hit costs nothing."""
    attempts = [call for call in calls if call.hit_of_id is None]
    adds: dict[str, Any] = {
        "calls": len(attempts),
        "hits": len(calls) - len(attempts),
        "failed": sum(bool(call.error) for call in attempts),
        **{name: sum(getattr(call, name) for call in attempts) for name in SUMS},
        "cost": sum((Decimal(call.cost) for call in attempts), Decimal(0)),
    }
    return {name: F(name) + value for name, value in adds.items() if value}


def count_apart(lines: Sequence[LedgerLine]) -> None:
    """Add attempts that no job made to the usage of their endpoints."""
    calls = [_call(0, line) for line in lines]
    _count_days(calls)
    _note_simulated(lines, calls)


def _note_simulated(lines: Sequence[LedgerLine], calls: Sequence[Call]) -> None:
    unknown = [line.endpoint for line, call in zip(lines, calls, strict=True) if call.simulated]
    for endpoint in unknown:
        if not endpoint.simulated:
            Endpoint.objects.filter(pk=endpoint.pk).update(simulated=True)
            endpoint.simulated = True


def _count_errors(job: int, attempts: Sequence[Call]) -> None:
    for error, n in sorted(Counter(call.error for call in attempts if call.error).items()):
        known = JobError.objects.filter(job=job, error=error)
        if not known.update(calls=F("calls") + n):
            JobError.objects.bulk_create([JobError(job_id=job, error=error)], ignore_conflicts=True)
            known.update(calls=F("calls") + n)


def _count_days(calls: Sequence[Call]) -> None:
    by_day: dict[tuple[int, date], list[Call]] = {}
    for call in calls:
        by_day.setdefault((call.endpoint_id, call.started_at.astimezone(UTC).date()), []).append(call)
    for (endpoint_id, day), lines in sorted(by_day.items(), key=lambda item: item[0]):
        known, adds = EndpointDay.objects.filter(endpoint=endpoint_id, day=day), _added(lines)
        if not known.update(**adds):
            EndpointDay.objects.bulk_create([EndpointDay(endpoint_id=endpoint_id, day=day)], ignore_conflicts=True)
            known.update(**adds)


def _call(job: int, line: LedgerLine) -> Call:
    attempt, reply = line.attempt, line.attempt.reply
    usage = reply.usage if reply and attempt.hit_of is None else Usage()  # a hit costs nothing
    detail = attempt.detail
    if (most := max(usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.tokens_reasoning)) > MOST_TOKENS:
        usage = Usage()
        detail = f"{detail} The endpoint reports {most} tokens: they are not counted.".lstrip()
    return Call(
        job_id=job,
        subject=line.subject,
        endpoint=line.endpoint,
        model=(reply.model if reply and reply.model else attempt.settings.model),
        prompt=attempt.request.prompt,
        sent=without_images(attempt.sent),
        text=reply.text if reply else "",
        reasoning=reply.reasoning if reply else "",
        finish_reason=reply.finish_reason[:40] if reply else "",
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_cached=usage.tokens_cached,
        tokens_reasoning=usage.tokens_reasoning,
        cost=usage.cost(attempt.settings),
        seconds=attempt.seconds,
        attempt=attempt.number,
        error=attempt.error,
        detail=detail,
        http_status=attempt.http_status,
        simulated=bool(reply and reply.simulated),
        identity=attempt.identity,
        hit_of_id=attempt.hit_of,
        repeated=line.repeated and attempt.hit_of is None,
        attempt_id=attempt.id,
        started_at=attempt.started_at,
    )


def reserve(job: Job, count: int, *, lane: int, now: datetime) -> int | None:
    """Let `lane` start up to `count` calls; returns how many, or None where the job or the lane is over.

    Under a lock on the job, and counted as in flight until they are in the ledger: so calls written and calls in flight, of all
    lanes together, never exceed `budget_calls`, and none is started once the cost, with what is set aside for the lines of
    open provider batches, has reached `budget_money`.

    What is in flight elsewhere may yet leave room: a lane may have died with it, a line may never be put to the model. Where
    that alone stands in the way the job rests until more is known, and is not paused (`life_cycle.pause`).
    """
    fresh = locked(job.pk)
    if fresh.status != Job.Status.RUNNING:
        return None
    granted = count
    if fresh.budget_money is not None or fresh.budget_calls is not None:
        lines = outstanding(job).aggregate(n=Count("pk"), cost=Sum("estimate"), again=Min("batch__next_at"))
        alive = Lane.objects.filter(job=job.pk, until__gt=now).values_list("pk", "flying", "until")
        others = [(flying, until) for pk, flying, until in alive if pk != lane and flying]
        mine = next((flying for pk, flying, _until in alive if pk == lane), 0)
        aside, elsewhere = lines["cost"] or 0, lines["n"] + sum(flying for flying, _until in others)
        if fresh.budget_money is not None and fresh.cost + aside >= fresh.budget_money:
            granted = 0
        if fresh.budget_calls is not None:
            granted = max(0, min(granted, fresh.budget_calls - fresh.calls - mine - elsewhere))
        spent = fresh.money_spent or (
            fresh.budget_calls is not None and fresh.calls + mine + granted >= fresh.budget_calls
        )
        if granted < count and not spent:
            known = [until for _flying, until in others] + [lines["again"]] * bool(lines["n"])
            Job.objects.filter(pk=job.pk).update(rests_until=max(min(known), now + A_MOMENT))
    held = Lane.objects.filter(pk=lane, until__gt=now)
    return granted if held.update(flying=F("flying") + granted) else None


def outstanding(job: Job) -> QuerySet[ProviderLine]:
    """The lines in a job's open provider batches that are not in the ledger yet: calls in flight, as it were."""
    return ProviderLine.objects.filter(batch__job=job.pk, batch__state__in=ProviderBatch.OPEN, call__isnull=True)


def keep_images(bodies: Iterable[Mapping[str, Any]]) -> None:
    """Store the images in bodies that are about to be written, each once."""
    urls = {each["url"] for sent in bodies for each in image_parts(sent) if not each["url"].startswith(DIGEST)}
    kept = []
    for url in urls:
        media_type, data = image_of(url)
        kept.append(SentImage(digest=hashlib.sha256(data).hexdigest(), media_type=media_type, data=data))
    if kept:
        SentImage.objects.bulk_create(kept, ignore_conflicts=True)


def without_images(sent: Mapping[str, Any]) -> dict[str, Any]:
    """A body as it is stored: images by their digest."""
    if not image_parts(sent):
        return dict(sent)
    stored: dict[str, Any] = copy.deepcopy(dict(sent))
    for each in image_parts(stored):
        if not each["url"].startswith(DIGEST):
            each["url"] = DIGEST + hashlib.sha256(image_of(each["url"])[1]).hexdigest()
    return stored


def with_images(sent: Mapping[str, Any]) -> dict[str, Any]:
    """A stored body as it is sent. Raises files.NoImage."""
    return with_image_data(sent, _image_bytes) if image_parts(sent) else dict(sent)


def kept_image_bytes(sent: Mapping[str, Any]) -> int:
    """The bytes of the kept images that a body names, which its own length does not tell."""
    named = Counter(each["url"].removeprefix(DIGEST) for each in image_parts(sent) if each["url"].startswith(DIGEST))
    sizes = StoredImage.objects.filter(sha256__in=named).values_list("sha256", "size") if named else ()
    return sum(named[sha256] * size for sha256, size in sizes)


def _image_bytes(digest: str) -> tuple[str, bytes]:
    image = SentImage.objects.filter(digest=digest).first()
    return (image.media_type, bytes(image.data)) if image else open_image(digest)


def find(job: Job, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[PaidReply]]:
    """The replies paid for under each (identity, subject), newest first.

    A job that asks anew still knows what it has paid for the very same row: a worker was lost between reply and result.
    """
    pairs = list(wanted)
    lines = Call.objects.filter(identity__in={identity for identity, _ in pairs}, hit_of__isnull=True, error="")
    if job.fresh:
        lines = lines.filter(job=job.pk, subject__in={subject for _, subject in pairs})
    found: dict[tuple[str, str], list[PaidReply]] = {pair: [] for pair in pairs}
    for line in lines.defer("sent").order_by("-pk"):
        for (identity, subject), paid in found.items():
            if identity == line.identity and len(paid) < KNOWN and (not job.fresh or subject == line.subject):
                paid.append(PaidReply(line.pk, _reply(line)))
    return found


def form(endpoint: Endpoint, prompt: str) -> Format:
    """The format in which an endpoint last answered this prompt, which asks for a schema; within a day: it may have learnt."""
    lines = Call.objects.filter(endpoint=endpoint, prompt=prompt, hit_of__isnull=True).exclude(text="")
    recent = lines.filter(started_at__gt=timezone.now() - timedelta(days=1))
    last = recent.order_by("-started_at").values_list("sent", flat=True).first()
    return Format.JSON_SCHEMA if last is None else form_of(last)


def _reply(line: Call) -> Reply:
    usage = Usage(line.tokens_in, line.tokens_out, line.tokens_cached, line.tokens_reasoning)
    return Reply(line.text, line.reasoning, line.finish_reason, line.model, line.simulated, usage)
