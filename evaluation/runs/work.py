"""A lane's work on a run: asks models, has answers judged, keeps both."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import QuerySet
from pydantic import BaseModel

from evaluation import errors, registry
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import Decision, Protocol, Rubric, Sample
from evaluation.runs import filling, queries
from evaluation.runs.services import NO_RESPONSE
from generation.engine import provider_batch_filling, provider_batches, worker_lane
from generation.engine.provider_batch_filling import BatchRequest
from generation.engine.task_queue import check_tries, finish, finish_all, join, put_back, take
from generation.engine.worker_lane import RunningLane
from generation.errors import JobOver
from generation.jobs import life_cycle
from generation.jobs.services import settle
from generation.llm.errors import BrokenReply, BudgetSpent, LLMError
from generation.llm.request_body import structured
from generation.llm.types import Request
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work

Status = Work.Status
End = tuple[Response, Work.Status, dict[str, Any]]  # of a response: how, and with what
Keep = Callable[[list[End]], list[bool]]


def work_on_run(run_id: int) -> int:
    """Work on a run's responses and judgments in a lane until none is queued or its time is up; returns how many."""
    run = Run.objects.select_related("release", "judge").get(pk=run_id)
    protocol = registry.protocol(run.release.benchmark)
    tested = run.tested.select_related("endpoint")
    endpoints = {row.endpoint_id: queries.as_launched(run, row.endpoint) for row in tested}
    if run.judge:
        queries.as_launched(run, run.judge)
    to_fill = set(queries.unfilled(run).values_list("pk", flat=True))
    keep = partial(_keep_responses, protocol)  # one for all: what is kept by the same function is kept together

    def take_rows(lane: RunningLane, count: int) -> worker_lane.Rows:
        rows = take_together(lane, count)
        # What was taken under a claim tried again is taken once: a second look would find it again.
        while to_fill and len(rows) < count and not (rows and lane.claim.again) and life_cycle.is_running(run.pk):
            if all(lane.away(endpoint) for endpoint in endpoints.values()):
                break
            if filling.fill(run):
                rows += take_together(lane, count - len(rows))
            else:
                to_fill.clear()
        return rows

    def take_together(lane: RunningLane, count: int) -> worker_lane.Rows:
        with _one_at_a_time(run):
            return take_some(lane, count)

    def take_some(lane: RunningLane, count: int) -> worker_lane.Rows:
        if not life_cycle.is_running(run.pk):
            return []
        found: worker_lane.Rows = []
        # Judgments first: what has been paid for is brought to its end before more is asked.
        if run.judge and not lane.away(run.judge):
            queued = queries.without_questions_in_flight(queries.for_lanes(queries.judgments_to_take(run), run), run)
            judgments = take(queued, count, lane.claim)
            if run.judging == Run.Judging.PER_SAMPLE:
                found += [(row, partial(_judge_sample, row, run, protocol, lane, run.judge)) for row in judgments]
            else:
                _with_what_they_are_about(judgments)
                found += [(row, partial(_judge, row, run, protocol, lane, run.judge)) for row in judgments]
        there = [pk for pk, endpoint in endpoints.items() if not lane.away(endpoint)]
        if there and len(found) < count:
            responses = queries.for_lanes(Response.objects.filter(run=run).order_by("pk"), run)
            if len(there) < len(endpoints):
                responses = responses.filter(endpoint__in=there)
            taken = take(queries.without_questions_in_flight(responses, run), count - len(found), lane.claim)
            samples = ReleasedSample.objects.in_bulk({row.sample_id for row in taken})
            for row in taken:
                row.sample = samples[row.sample_id]
            found += [(row, partial(_ask, row, run, protocol, lane, endpoints[row.endpoint_id], keep)) for row in taken]
        return found

    asked = {**endpoints, run.judge.pk: run.judge} if run.judge else endpoints
    if run.transport == Run.Transport.BATCH:
        filling.fill_all(run)  # what goes into one batch together must be there together
        _follow_batches(run, protocol, asked)
    done = worker_lane.work_in_lane(run, asked.values(), take_rows, partial(_has_work, run_id))
    if run.transport == Run.Transport.BATCH:
        _follow_batches(run, protocol, asked)
    life_cycle.pause_if_spent(run_id)
    settle(run_id)
    return done


@contextmanager
def _one_at_a_time(run: Run) -> Iterator[None]:
    """Take rows while no other run on the release does: what one of them takes, the next sees in flight."""
    with transaction.atomic():
        if not run.fresh and queries.concurrent_runs(run):
            Release.objects.select_for_update(of=("self",), no_key=True).get(pk=run.release_id)
        yield


def _has_work(run_id: int) -> bool:
    return queries.runs_with_work().filter(pk=run_id).exists()


def _follow_batches(run: Run, protocol: Protocol, asked: Mapping[int, Endpoint]) -> None:
    """Bring the provider batches of a run a step further, and put into new ones what has to wait for no other answer."""
    provider_batches.advance_batches(run)
    offers = {pk: endpoint for pk, endpoint in asked.items() if endpoint.batches}
    if life_cycle.is_running(run.pk) and offers and queries.is_batch_due(run):
        _fill_batches(run, protocol, offers)
        provider_batches.advance_batches(run)


def _fill_batches(run: Run, protocol: Protocol, offers: Mapping[int, Endpoint]) -> None:
    fill: list[tuple[Endpoint, QuerySet[Any], Callable[[Sequence[Any]], list[BatchRequest]]]] = [
        (
            endpoint,
            Response.objects.filter(run=run, endpoint=endpoint).order_by("pk"),
            partial(_questions, run=run, protocol=protocol),
        )
        for endpoint in offers.values()
    ]
    if run.judge_id is not None and run.judge_id in offers:
        judgments = queries.judgments_to_take(run)
        fill.append((offers[run.judge_id], judgments, partial(_judgings, run=run, protocol=protocol)))
    for endpoint, queue, wants in fill:
        while rows := take(queue.filter(provider_batches.NOT_YET_SENT), provider_batches.MAX_LINES):
            if provider_batch_filling.prepare(run, endpoint, wants(rows)):
                continue
            if provider_batches.is_open(run):  # what comes back may have cost less than was set aside for it
                provider_batches.wait(run)
            else:
                with suppress(JobOver):
                    spent = BudgetSpent()
                    life_cycle.pause(run.pk, because=spent.kind, detail=str(spent))
            return


def _questions(rows: Sequence[Response], *, run: Run, protocol: Protocol) -> list[BatchRequest]:
    samples = ReleasedSample.objects.in_bulk({row.sample_id for row in rows})
    asks = [queries.question(protocol, samples[row.sample_id], run.seed, row.variant) for row in rows]
    return [BatchRequest(row, queries.to_send(ask, run.sampling)) for row, ask in zip(rows, asks, strict=True)]


def _judgings(rows: Sequence[Judgment], *, run: Run, protocol: Protocol) -> list[BatchRequest]:
    wants = []
    for row in rows:
        request: Request
        if run.judging == Run.Judging.PER_SAMPLE and protocol.whole:
            # Those that a lane would take along with this one.
            queued = Judgment.objects.filter(response=row.response_id, status=Status.QUEUED)
            sample, rubrics, response = queries.joint_judgment_input([row, *queued])
            request = protocol.whole.judge(sample, list(rubrics.values()), response.variant, response.text)
            request = structured(_at_temperature(request, run), protocol.whole.shape)
        else:
            sample, rubric, response = queries.judgment_input(row)
            judge, shape, _decide = _judged_by(protocol)
            request = judge(sample, rubric, response.variant, response.text)
            request = structured(_at_temperature(request, run), shape)
        wants.append(BatchRequest(row, request))
    return wants


async def _ask(row: Response, run: Run, protocol: Protocol, lane: RunningLane, endpoint: Endpoint, keep: Keep) -> None:
    models = lane.models({"target": endpoint}, row)
    try:
        check_tries(row)
        ask = queries.question(protocol, row.sample, run.seed, row.variant)
        reply = await models.ask("target", queries.to_send(ask, run.sampling))
        # To say nothing is an answer that code can read; a judge has nothing to judge in it.
        if not reply.text.strip() and protocol.read is None:
            raise BrokenReply("The reply is empty.")
    except worker_lane.NOT_ITS_FAULT:
        raise
    except LLMError as error:
        failed = {"error": error.kind, "detail": str(error)}
        await lane.do_together(keep, (row, Status.FAILED, failed))
    else:
        said = {"text": reply.text, "reasoning": reply.reasoning, "call_id": models.lines[-1]}
        await lane.do_together(keep, (row, Status.DONE, said))


def _keep_responses(protocol: Protocol, ends: list[End]) -> list[bool]:
    """Store responses together with their judgments: queued, or decided where code reads them; unjudged from the start where
    nothing was said."""
    kept = finish_all(ends)
    told = [end for end, was_ours in zip(ends, kept, strict=True) if was_ours]
    rubrics: dict[int, list[tuple[int, Rubric]]] = defaultdict(list)
    wanted = ReleasedRubric.objects.filter(sample__in={row.sample_id for row, _, _ in told}).order_by("pk")
    for sample_id, pk, key, criterion, traps in wanted.values_list("sample_id", "pk", "key", "criterion", "traps"):
        rubrics[sample_id].append((pk, Rubric(key, criterion, tuple(traps))))
    Judgment.objects.bulk_create(
        (
            Judgment(
                run_id=row.run_id, response_id=row.pk, rubric_id=pk, **_at_once(protocol, row, status, said, rubric)
            )
            for row, status, said in told
            for pk, rubric in rubrics[row.sample_id]
        ),
        ignore_conflicts=True,  # a judgment that is there already is no reason to lose the lane
    )
    return kept


def _at_once(
    protocol: Protocol, row: Response, status: Work.Status, said: Mapping[str, Any], rubric: Rubric
) -> dict[str, str]:
    """How the judgment on a rubric begins, and where code reads the answer, ends."""
    if status == Status.FAILED:
        return {"status": Status.FAILED, "error": NO_RESPONSE}
    if protocol.read is None:
        return {"status": Status.QUEUED}
    decision = protocol.read(queries.sample_value(row.sample), rubric, row.variant, row.about, said["text"])
    return {"status": Status.DONE, "verdict": decision.verdict, "explanation": decision.explanation}


def _with_what_they_are_about(rows: Sequence[Judgment]) -> None:
    """Fetch responses and rubrics for all rows at once.

    Not `prefetch_related_objects`: it asks by a chain of ORs, which SQLite refuses to nest a thousand deep.
    """
    responses = Response.objects.in_bulk({row.response_id for row in rows})
    rubrics = ReleasedRubric.objects.select_related("sample").in_bulk({row.rubric_id for row in rows})
    for row in rows:
        row.response, row.rubric = responses[row.response_id], rubrics[row.rubric_id]


def _judged_by(
    protocol: Protocol,
) -> tuple[Callable[[Sample, Rubric, str, str], Request], type[BaseModel], Callable[[Any], Decision]]:
    """How a judge is asked, in what shape it replies, and how that is read. Raises NoJudgeNeeded."""
    if protocol.judge is None or protocol.shape is None or protocol.decide is None:
        raise errors.NoJudgeNeeded
    return protocol.judge, protocol.shape, protocol.decide


async def _judge(row: Judgment, run: Run, protocol: Protocol, lane: RunningLane, endpoint: Endpoint) -> None:
    models = lane.models({"judge": endpoint}, row)
    judge, shape, decide = _judged_by(protocol)
    try:
        check_tries(row)
        sample, rubric, response = queries.judgment_input(row)
        request = judge(sample, rubric, response.variant, response.text)
        said = await models.ask_structured("judge", _at_temperature(request, run), shape)
    except worker_lane.NOT_ITS_FAULT:
        raise
    except LLMError as error:
        await lane.do_together(finish_all, (row, Status.FAILED, {"error": error.kind, "detail": str(error)}))
    else:
        decision = decide(said)
        decided = {"verdict": decision.verdict, "explanation": decision.explanation}
        await lane.do_together(finish_all, (row, Status.DONE, decided))


def _at_temperature(request: Request, run: Run) -> Request:
    return request if request.temperature is not None else replace(request, temperature=run.judge_temperature)


async def _judge_sample(row: Judgment, run: Run, protocol: Protocol, lane: RunningLane, endpoint: Endpoint) -> None:
    """Decide all rubrics of a response that wait for it in one call; `row` is the first of them, the others come along."""
    models = lane.models({"judge": endpoint}, row)
    whole = protocol.whole
    if whole is None:
        raise errors.NotPerSample
    rows = await sync_to_async(join)(row, Judgment.objects.filter(response=row.response_id).exclude(pk=row.pk))
    rows = [row, *rows]
    try:
        check_tries(row)
        sample, rubrics, response = await sync_to_async(queries.joint_judgment_input)(rows)
        request = whole.judge(sample, list(rubrics.values()), response.variant, response.text)
        said = await models.ask_structured("judge", _at_temperature(request, run), whole.shape)
    except worker_lane.NOT_ITS_FAULT:
        await lane.do(partial(_each, [partial(put_back, other) for other in rows[1:]]))
        raise
    except LLMError as error:
        failed = {"error": error.kind, "detail": str(error)}
        await lane.do(partial(_each, [partial(finish, each, Status.FAILED, **failed) for each in rows]))
    else:
        found: dict[str, list[Decision]] = defaultdict(list)
        for key, decision in whole.decide(said):
            found[key].append(decision)
        ends = [partial(_keep_found, each, found[rubrics[each.pk].key]) for each in rows]
        await lane.do(partial(_each, ends))


def _each(works: Sequence[Callable[[], object]]) -> None:
    for work in works:
        work()


def _keep_found(row: Judgment, found: Sequence[Decision]) -> None:
    """Keep the one decision on a rubric; none or several leave it unjudged."""
    if len(found) == 1:
        finish(row, Status.DONE, verdict=found[0].verdict, explanation=found[0].explanation)
    else:
        detail = f"The reply decides {len(found)} times on this rubric."
        finish(row, Status.FAILED, error=BrokenReply.__name__, detail=detail)
