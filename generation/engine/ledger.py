"""The ledger in the database: costs, budgets, and replies that were already paid for.

Functions handle the requests of several rows at once, so that one transaction serves them all.
"""

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Count, F, Min, QuerySet, Sum
from django.utils import timezone

from generation.images.files import open_image
from generation.jobs.life_cycle import lock_job
from generation.llm.errors import LLMError
from generation.llm.ledger_interface import PaidReply
from generation.llm.request_body import Format, format_of, image_parts, usage_of, with_image_data
from generation.llm.types import DIGEST_PREFIX, Attempt, Reply, Usage, decode_data_url
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
from generation.models.sent_texts import SentText, digests_of, store_requests

MIN_REST = timedelta(seconds=1)  # of a job that waits for room in its budget
# Of a call whose texts were forgotten: without its identity, its reply is not used again.
NO_CONTENT = {"request": b"", "text": "", "reasoning": "", "detail": "", "identity": ""}
MAX_PAID_REPLIES = 5  # per identity: more than one, as a reply may turn out to be broken


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """An attempt and what it was made for. `repeated`: see `Call.repeated`."""

    attempt: Attempt
    endpoint: Endpoint
    subject: str
    repeated: bool = False


def without_content(attempt: Attempt, error: LLMError) -> Attempt:
    """Strip the content of an attempt that cannot be stored whole; its cost stays."""
    reply = attempt.reply and Reply("", usage=attempt.reply.usage, simulated=attempt.reply.simulated)
    request = replace(attempt.request, prompt="")
    return replace(attempt, request=request, sent={}, reply=reply, error=error.kind, detail=error.detail)


def write(job: Job | None, lines: Sequence[LedgerLine], *, lane: int | None = None, again: bool = False) -> list[Call]:
    """Write attempts and hits, and add them to the totals of the job and of the endpoints' days.

    Runs in the caller's transaction. `job`: None for attempts that belong to no job. `again`: this
    was tried before and the connection was lost before the commit was confirmed; lines that exist
    already are then neither written nor counted again. Without `again`, the unique attempt id
    rejects them.

    The calls that `lane` had reserved for these attempts are no longer in flight. An endpoint that
    answers as a simulator is marked as simulated, whatever its name.
    """
    store_images(line.attempt.sent for line in lines)
    bodies = [without_images(line.attempt.sent) for line in lines]
    calls = []
    for line, body, request in zip(lines, bodies, store_requests(bodies), strict=True):
        call = _call(job, line)
        call.request, call.sent = request, body
        calls.append(call)
    new = _insert(calls, again)
    if new:
        counted = [(line, call) for line, call in zip(lines, calls, strict=True) if call.attempt_id in new]
        _count(job, counted, lane)
    return calls


def _insert(calls: Sequence[Call], again: bool) -> Collection[UUID | None]:
    """Insert the calls that do not exist yet and set all primary keys; returns the new attempts.

    On PostgreSQL the statement is written out, with all rows in one JSON parameter: adapting thirty
    columns per row took the client longer than all the rest of a call (python -m bench.engine).
    """
    numbers: dict[UUID | None, int] = {}
    if again:
        ids = [call.attempt_id for call in calls]
        numbers = dict(Call.objects.filter(attempt_id__in=ids).values_list("attempt_id", "pk"))
    new = [call for call in calls if call.attempt_id not in numbers]
    if new and connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_INSERT_SQL, [json.dumps([_row(call) for call in new])])
            numbers.update(cursor.fetchall())
    elif new:
        numbers.update((call.attempt_id, call.pk) for call in Call.objects.bulk_create(new))
    for call in calls:
        call.pk = numbers[call.attempt_id]
    return {call.attempt_id for call in new}


_FIELDS = [field for field in Call._meta.concrete_fields if not field.primary_key]
_COLUMNS = ", ".join(str(field.column) for field in _FIELDS)
_INSERT_SQL = (
    f"INSERT INTO {Call._meta.db_table} ({_COLUMNS}) SELECT {_COLUMNS}"  # noqa: S608
    f" FROM json_populate_recordset(NULL::{Call._meta.db_table}, %s::json)"
    " RETURNING attempt_id, id"
)


def _row(call: Call) -> dict[str, Any]:
    """The columns of a call as JSON values."""
    row = {str(field.column): getattr(call, field.attname) for field in _FIELDS}
    return {
        **row,
        "request": f"\\x{call.request.hex()}",
        "cost": str(call.cost),
        "attempt_id": str(call.attempt_id),
        "started_at": call.started_at.isoformat(),
    }


def _count(job: Job | None, written: Sequence[tuple[LedgerLine, Call]], lane: int | None = None) -> None:
    calls = [call for _, call in written]
    attempts = [call for call in calls if call.hit_of_id is None]
    # The job first, then what it shares with others, in a fixed order: two writers cannot deadlock.
    if job is not None:
        Job.objects.filter(pk=job.pk).update(**_increments(calls))
        _count_errors(job.pk, attempts)
    _count_days(calls)
    if lane is not None and attempts:
        Lane.objects.filter(pk=lane).update(in_flight=F("in_flight") - len(attempts))
    for line, call in written:
        if call.simulated and not line.endpoint.simulated:
            Endpoint.objects.filter(pk=line.endpoint.pk).update(simulated=True)
            line.endpoint.simulated = True


TOKEN_COLUMNS = ("tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning")


def _increments(calls: Sequence[Call]) -> dict[str, Any]:
    """The increments to the totals of a job or of an endpoint's day; a hit costs nothing."""
    totals: dict[str, Any] = dict.fromkeys(("calls", "hits", "failed", "estimated", *TOKEN_COLUMNS), 0)
    totals["cost"] = Decimal(0)
    for call in calls:
        if call.hit_of_id is not None:
            totals["hits"] += 1
            continue
        totals["calls"] += 1
        totals["failed"] += bool(call.error)
        totals["estimated"] += call.estimated
        totals["cost"] += Decimal(call.cost)
        for name in TOKEN_COLUMNS:
            totals[name] += getattr(call, name)
    return {name: F(name) + total for name, total in totals.items() if total}


def count_without_job(lines: Sequence[LedgerLine]) -> None:
    """Add attempts that are in no ledger to the usage of their endpoints."""
    _count(None, [(line, _call(None, line)) for line in lines])


def _count_errors(job: int, attempts: Sequence[Call]) -> None:
    counts = Counter(call.error for call in attempts if call.error)
    for error, n in sorted(counts.items()):
        known = JobError.objects.filter(job=job, error=error)
        if not known.update(calls=F("calls") + n):
            JobError.objects.bulk_create([JobError(job_id=job, error=error)], ignore_conflicts=True)
            known.update(calls=F("calls") + n)


def _count_days(calls: Sequence[Call]) -> None:
    by_day: dict[tuple[int, date], list[Call]] = {}
    for call in calls:
        by_day.setdefault((call.endpoint_id, call.started_at.astimezone(UTC).date()), []).append(call)
    for (endpoint_id, day), lines in sorted(by_day.items(), key=lambda item: item[0]):
        known, increments = EndpointDay.objects.filter(endpoint=endpoint_id, day=day), _increments(lines)
        if not known.update(**increments):
            EndpointDay.objects.bulk_create([EndpointDay(endpoint_id=endpoint_id, day=day)], ignore_conflicts=True)
            known.update(**increments)


def _call(job: Job | None, line: LedgerLine) -> Call:
    attempt, reply = line.attempt, line.attempt.reply or Reply("")
    usage = usage_of(attempt)
    job_id = None
    if job is not None:
        job_id = job.pk
    return Call(
        job_id=job_id,
        subject=line.subject,
        endpoint=line.endpoint,
        model=reply.model or attempt.settings.model,
        prompt=attempt.request.prompt,
        text=reply.text,
        reasoning=reply.reasoning,
        finish_reason=reply.finish_reason,
        **asdict(usage),
        cost=usage.cost(attempt.settings),
        seconds=attempt.seconds,
        attempt=attempt.number,
        error=attempt.error,
        detail=attempt.detail,
        http_status=attempt.http_status,
        simulated=reply.simulated,
        fingerprint=reply.fingerprint,
        identity=attempt.identity,
        hit_of_id=attempt.hit_of,
        repeated=line.repeated and attempt.hit_of is None,
        attempt_id=attempt.id,
        started_at=attempt.started_at,
    )


def reserve(job: Job, count: int, *, lane: int, now: datetime) -> int | None:
    """Let `lane` start up to `count` calls.

    Returns how many, or None if the job or the lane is over.

    Runs under a lock on the job; granted calls count as in flight until they are in the ledger. So
    written calls and calls in flight of all lanes together never exceed `budget_calls`, and none
    starts once the cost, plus what is set aside for the lines of open provider batches, has reached
    `budget_money`.

    Calls in flight elsewhere may yet leave room: their lane may have died, or a line may never
    reach the model. If only they stand in the way, the job rests until more is known and is not
    paused (`life_cycle.pause`).
    """
    fresh = lock_job(job.pk)
    if fresh.status != Job.Status.RUNNING:
        return None
    granted = count
    if fresh.budget_money is not None or fresh.budget_calls is not None:
        lines = outstanding(job).aggregate(n=Count("pk"), cost=Sum("estimate"), next_at=Min("batch__next_at"))
        live_lanes = Lane.objects.filter(job=job.pk, until__gt=now).values_list("pk", "in_flight", "until")
        own_calls, others = 0, []
        for pk, calls, until in live_lanes:
            if pk == lane:
                own_calls = calls
            elif calls:
                others.append((calls, until))
        set_aside, elsewhere = lines["cost"] or 0, lines["n"] + sum(calls for calls, _until in others)
        if fresh.budget_money is not None and fresh.cost + set_aside >= fresh.budget_money:
            granted = 0
        if fresh.budget_calls is not None:
            granted = max(0, min(granted, fresh.budget_calls - fresh.calls - own_calls - elsewhere))
        spent = fresh.money_budget_spent or (
            fresh.budget_calls is not None and fresh.calls + own_calls + granted >= fresh.budget_calls
        )
        if granted < count and not spent:
            news_at = [until for _calls, until in others]
            if lines["n"]:
                news_at.append(lines["next_at"])
            Job.objects.filter(pk=job.pk).update(rests_until=max(min(news_at), now + MIN_REST))
    held = Lane.objects.filter(pk=lane, until__gt=now)
    if held.update(in_flight=F("in_flight") + granted):
        return granted
    return None


def outstanding(job: Job) -> QuerySet[ProviderLine]:
    """The lines of a job's open provider batches that are not in the ledger yet, so in flight."""
    return ProviderLine.objects.filter(batch__job=job.pk, batch__state__in=ProviderBatch.OPEN, call__isnull=True)


def store_images(bodies: Iterable[Mapping[str, Any]]) -> None:
    """Store the images in request bodies that are about to be written, each once."""
    urls: set[str] = set()
    for sent in bodies:
        urls.update(part["url"] for part in image_parts(sent) if not part["url"].startswith(DIGEST_PREFIX))
    images = []
    for url in urls:
        media_type, data = decode_data_url(url)
        images.append(SentImage(digest=hashlib.sha256(data).hexdigest(), media_type=media_type, data=data))
    if images:
        SentImage.objects.bulk_create(images, ignore_conflicts=True)


def without_images(sent: Mapping[str, Any]) -> dict[str, Any]:
    """A request body as it is stored: with the digests of its images."""
    if not image_parts(sent):
        return dict(sent)
    stored: dict[str, Any] = copy.deepcopy(dict(sent))
    for part in image_parts(stored):
        if not part["url"].startswith(DIGEST_PREFIX):
            part["url"] = DIGEST_PREFIX + hashlib.sha256(decode_data_url(part["url"])[1]).hexdigest()
    return stored


def with_images(sent: Mapping[str, Any]) -> dict[str, Any]:
    """A stored request body as it is sent. Raises files.NoImage."""

    def image_bytes(digest: str) -> tuple[str, bytes]:
        image = SentImage.objects.filter(digest=digest).first()
        if image:
            return (image.media_type, bytes(image.data))
        return open_image(digest)

    return with_image_data(sent, image_bytes)


def stored_image_bytes(sent: Mapping[str, Any]) -> int:
    """The bytes of the stored images that a request body refers to by digest."""
    counts: Counter[str] = Counter()
    for part in image_parts(sent):
        if part["url"].startswith(DIGEST_PREFIX):
            counts[part["url"].removeprefix(DIGEST_PREFIX)] += 1
    if not counts:
        return 0
    sizes = StoredImage.objects.filter(sha256__in=counts).values_list("sha256", "size")
    return sum(counts[sha256] * size for sha256, size in sizes)


def paid_replies(job: Job, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[PaidReply]]:
    """The replies paid for under each (identity, subject), newest first.

    A job that ignores cached replies still finds those it paid for itself for the same row: they
    are there if a worker was lost between reply and result.
    """
    pairs = list(keys)
    identities = {identity for identity, _subject in pairs}
    lines = Call.objects.filter(identity__in=identities, hit_of__isnull=True, error="", job__isnull=False)
    if job.fresh:
        lines = lines.filter(job=job.pk, subject__in={subject for _identity, subject in pairs})
    replies: dict[tuple[str, str], list[PaidReply]] = {pair: [] for pair in pairs}
    for line in lines.defer("request").order_by("-pk"):
        for (identity, subject), paid in replies.items():
            if (
                identity == line.identity
                and len(paid) < MAX_PAID_REPLIES
                and (not job.fresh or subject == line.subject)
            ):
                paid.append(PaidReply(line.pk, _reply_of(line)))
    return replies


def erase_contents(calls: QuerySet[Call]) -> None:
    """Erase what was sent and answered in calls, for good.

    Reads the requests of all other calls, as only what none of them contains is erased.
    """
    digests: set[bytes] = set()
    for request in calls.values_list("request", flat=True).iterator():
        digests.update(digests_of(bytes(request)))
    calls.update(**NO_CONTENT)
    if not digests:
        return
    others = Call.objects.exclude(request=b"").values_list("request", flat=True)
    for request in others.iterator():
        digests.difference_update(digests_of(bytes(request)))
    SentText.objects.filter(digest__in=list(digests)).delete()


def last_format(endpoint: Endpoint, prompt: str) -> Format:
    """The output format in which an endpoint last answered this prompt, which requires a schema.

    Only the last day counts, as the endpoint may have learnt a stricter format since.
    """
    lines = Call.objects.filter(endpoint=endpoint, prompt=prompt, hit_of__isnull=True).exclude(text="")
    recent = lines.filter(started_at__gt=timezone.now() - timedelta(days=1))
    last = recent.order_by("-started_at").only("request").first()
    if last is None:
        return Format.JSON_SCHEMA
    return format_of(last.sent)


def _reply_of(line: Call) -> Reply:
    usage = Usage(**{field.name: getattr(line, field.name) for field in fields(Usage)})
    words = line.text, line.reasoning, line.finish_reason, line.model
    return Reply(*words, line.simulated, usage, fingerprint=line.fingerprint)
