"""Everything that changes a run."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from evaluation import benchmarks, errors, queries
from evaluation.models import Judgment, Response, Run, RunEndpoint
from evaluation.protocol import Protocol
from generation.llm.errors import BrokenReply, LLMError
from generation.llm.gateway import Gateway
from generation.llm.types import Attempt, Request
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.services import BoundModels, record_attempt
from generation.work import Work, check_tries, finish, give_back_expired, lane_is_free, lease, run_lane, take
from review.models import User

Status = Work.Status
CHUNK = 500
NO_RESPONSE = "NoResponse"  # the error of judgments whose response failed


@transaction.atomic
def launch_run(
    release: Release,
    endpoints: Sequence[Endpoint],
    judge: Endpoint,
    *,
    judge_temperature: float | None = None,
    actor: User | None = None,
) -> Run:
    """Queue one response per sample, endpoint and variant.

    `judge_temperature` defaults to the judge's own, and where it has none to the published setting; the run keeps it.
    Raises NoEndpoints.
    """
    if not endpoints:
        raise errors.NoEndpoints
    protocol = benchmarks.protocol(release.benchmark)
    temperatures = (judge_temperature, judge.temperature, protocol.judge_temperature)
    run = Run.objects.create(
        release=release,
        judge=judge,
        judge_temperature=next((setting for setting in temperatures if setting is not None), None),
        created_by=actor,
        created_at=timezone.now(),
    )
    RunEndpoint.objects.bulk_create(RunEndpoint(run=run, endpoint=endpoint) for endpoint in dict.fromkeys(endpoints))
    rows = _responses(run, list(dict.fromkeys(endpoints)), protocol)
    while chunk := list(islice(rows, CHUNK)):
        Response.objects.bulk_create(chunk)
    return run


def _responses(run: Run, endpoints: list[Endpoint], protocol: Protocol) -> Iterator[Response]:
    samples = ReleasedSample.objects.filter(release=run.release).order_by("position")
    for sample in samples.iterator(chunk_size=CHUNK):
        for ask in protocol.ask(queries.sample_value(sample)):
            for endpoint in endpoints:
                yield Response(run=run, endpoint=endpoint, sample=sample, variant=ask.variant)


def work_on_run(run_id: int) -> int:
    """Work on a run's responses and judgments until none is queued; returns how many. One lane at a time, as a batch."""
    free = Run.objects.filter(lane_is_free(), pk=run_id, status=Run.Status.RUNNING)
    if not free.update(lane_until=timezone.now() + lease()):
        return 0
    done: int = async_to_sync(_lane)(Run.objects.select_related("release", "judge").get(pk=run_id))
    Run.objects.filter(pk=run_id).update(lane_until=None)  # its rows that come back are to be taken at once
    settle_run(run_id)
    return done


async def _lane(run: Run) -> int:
    protocol = benchmarks.protocol(run.release.benchmark)
    endpoints = {row.endpoint_id: row.endpoint async for row in run.tested.select_related("endpoint")}
    slots = sum(endpoint.concurrency for endpoint in endpoints.values()) + run.judge.concurrency

    async def on_attempt(_attempt: Attempt) -> None:
        raise AssertionError("every call of a run names its own ledger")

    async with Gateway(on_attempt=on_attempt) as gateway:

        def take_rows(count: int) -> list[tuple[Work, Callable[[], Awaitable[None]]]]:
            if not Run.objects.filter(pk=run.pk, status=Run.Status.RUNNING).exists():
                return []
            # Judgments first: what has been paid for is brought to its end before more is asked.
            judgments = take(Judgment.objects.filter(run=run).order_by("pk"), count)
            found: list[tuple[Work, Callable[[], Awaitable[None]]]] = [
                (row, partial(_judge, row, run, protocol, gateway)) for row in judgments
            ]
            if len(found) < count:
                responses = take(Response.objects.filter(run=run).order_by("pk"), count - len(found))
                found += [(row, partial(_ask, row, run, protocol, gateway, endpoints)) for row in responses]
            return found

        return await run_lane(take_rows, slots=slots, alive=partial(_run_alive, run.pk))


def _run_alive(run_id: int) -> None:
    Run.objects.filter(pk=run_id).update(lane_until=timezone.now() + lease())


async def _ask(
    row: Response, run: Run, protocol: Protocol, gateway: Gateway, endpoints: Mapping[int, Endpoint]
) -> None:
    endpoint = endpoints[row.endpoint_id]
    calls: list[int] = []

    async def ledger(attempt: Attempt) -> None:
        call = await sync_to_async(record_attempt)(
            attempt, endpoint=endpoint, job=run.job, subject=f"response:{row.pk}"
        )
        calls.append(call.pk)

    try:
        check_tries(row)
        sample = queries.sample_value(await ReleasedSample.objects.aget(pk=row.sample_id))
        ask = next(ask for ask in protocol.ask(sample) if ask.variant == row.variant)
        reply = await gateway.ask(endpoint.settings, Request(messages=ask.messages), on_attempt=ledger)
        if not reply.text.strip():
            raise BrokenReply("The reply is empty.")
    except LLMError as error:
        await sync_to_async(_keep_response)(row, Status.FAILED, error=error.kind, detail=str(error))
    else:
        await sync_to_async(_keep_response)(
            row, Status.DONE, text=reply.text, reasoning=reply.reasoning, call_id=calls[-1]
        )


@transaction.atomic
def _keep_response(row: Response, status: Work.Status, **fields: Any) -> None:
    """Store a response together with its judgments: queued, or unjudged from the start where nothing was said."""
    if not finish(row, status, **fields):
        return
    waiting = {"status": Status.QUEUED} if status == Status.DONE else {"status": Status.FAILED, "error": NO_RESPONSE}
    Judgment.objects.bulk_create(
        Judgment(run_id=row.run_id, response=row, rubric_id=rubric_id, **waiting)
        for rubric_id in ReleasedRubric.objects.filter(sample_id=row.sample_id)
        .order_by("pk")
        .values_list("pk", flat=True)
    )


async def _judge(row: Judgment, run: Run, protocol: Protocol, gateway: Gateway) -> None:
    models = BoundModels(gateway, {"judge": run.judge}, run.job, f"judgment:{row.pk}")
    try:
        check_tries(row)
        sample, rubric, response = await sync_to_async(queries.to_be_judged)(row)
        request = protocol.judge(sample, rubric, response.variant, response.text)
        if request.temperature is None:
            request = queries.at_temperature(request, run.judge_temperature)
        said = await models.ask_structured("judge", request, protocol.shape)
    except LLMError as error:
        await sync_to_async(finish)(row, Status.FAILED, error=error.kind, detail=str(error))
    else:
        decision = protocol.decide(said)
        await sync_to_async(finish)(row, Status.DONE, verdict=decision.verdict, explanation=decision.explanation)


@transaction.atomic
def settle_run(run_id: int) -> None:
    """Mark a run finished when nothing of it is open any more, and running again when something is."""
    run = Run.objects.select_for_update().get(pk=run_id)
    if run.status == Run.Status.CANCELLED:
        return
    if queries.is_open(run):
        run.status, run.finished_at = Run.Status.RUNNING, None
    else:
        run.finished_at = run.finished_at or timezone.now()
        run.status, run.lane_until = Run.Status.FINISHED, None
    run.save(update_fields=["status", "finished_at", "lane_until"])


@transaction.atomic
def cancel_run(run_id: int) -> Run:
    """Take nothing further of this run; what was said and judged stays. Raises RunOver when it has ended."""
    run = Run.objects.select_for_update().get(pk=run_id)
    if run.status != Run.Status.RUNNING:
        raise errors.RunOver
    run.status, run.finished_at, run.lane_until = Run.Status.CANCELLED, timezone.now(), None
    run.save(update_fields=["status", "finished_at", "lane_until"])
    return run


@transaction.atomic
def retry_failed(run_id: int) -> int:
    """Queue again what failed: responses that said nothing, and judgments that stayed unjudged; returns how many rows.

    Raises RunOver for a cancelled run.
    """
    if Run.objects.filter(pk=run_id, status=Run.Status.CANCELLED).exists():
        raise errors.RunOver
    failed = {"status": Status.FAILED}
    Judgment.objects.filter(run_id=run_id, error=NO_RESPONSE, **failed).delete()  # made anew with the response
    again = {"status": Status.QUEUED, "error": "", "detail": "", "tries": 0}
    count = Response.objects.filter(run_id=run_id, **failed).update(**again)
    count += Judgment.objects.filter(run_id=run_id, **failed).update(**again)
    settle_run(run_id)
    return count


def sweep() -> list[int]:
    """Give back what died with its holder, and say which runs have work that no worker is on."""
    give_back_expired(Response)
    give_back_expired(Judgment)
    for run_id in queries.runs_to_settle():
        settle_run(run_id)
    queued = [Exists(model.objects.filter(run=OuterRef("pk"), status=Status.QUEUED)) for model in (Response, Judgment)]
    idle = Run.objects.filter(lane_is_free(), queued[0] | queued[1], status=Run.Status.RUNNING)
    return list(idle.values_list("pk", flat=True))
