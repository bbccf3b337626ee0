"""A lane's work on a run: asks models, has answers judged, and stores both."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from evaluation import errors, registry
from evaluation.models import Judgment, Response, Run, Vote
from evaluation.protocol import JUDGED, Ask, Decision, Protocol, Rubric
from evaluation.runs import plan, queries
from evaluation.runs.rows import batch_requests, chains, filling, queues, scores, votes
from evaluation.runs.rows.scores import RubricReading
from evaluation.verdicts.selection import NO_RESPONSE, NOT_JUDGED
from generation.engine import provider_batches, worker_lane
from generation.engine.task_queue import check_tries, finish_all, join, requeue, take
from generation.engine.worker_lane import RunningLane
from generation.jobs import life_cycle
from generation.jobs.services import settle
from generation.llm.errors import BrokenReply, ContentFiltered, LLMError
from generation.llm.types import CUT_OFF, REFUSED, Reply
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work

Status = Work.Status
Outcome = Response.Outcome
End = tuple[Response, Work.Status, dict[str, Any]]  # a response, its final status and fields
StoreResponses = Callable[[list[End]], list[bool]]
StoreVerdicts = Callable[[Sequence[tuple[Any, Work.Status, Mapping[str, Any]]]], list[bool]]


def work_on_run(run_id: int) -> int:
    """Work on a run in a lane until nothing is queued or its time is up; returns the rows done."""
    run = Run.objects.select_related("release", "judge").get(pk=run_id)
    protocol = registry.protocol(run.release.benchmark)
    tested = run.tested.filter(left_out_at=None).select_related("endpoint")
    all_tested = run.tested.count()
    endpoints = {row.endpoint_id: queries.endpoint_as_launched(run, row.endpoint) for row in tested}
    judges = {judge.pk: queries.endpoint_as_launched(run, judge) for judge in queries.judges_of(run)}
    panel = votes.panel_of(run) if run.panel else None
    # One function object for all rows: the lane groups what the same function stores.
    store = partial(_store_responses, protocol, rules=plan.outcomes_of(run, protocol), panel=panel)
    store_verdicts: StoreVerdicts = partial(votes.store_votes, panel) if panel else finish_all
    judge_row = _judge_sample if run.judging == Run.Judging.PER_SAMPLE else _judge
    if protocol.prepare is not None:
        protocol.prepare()
    to_fill = set(queues.unfilled_endpoints(run).values_list("pk", flat=True))

    def take_rows(lane: RunningLane, count: int) -> worker_lane.Rows:
        rows = take_locked(lane, count)
        # Rows taken under a retried claim are taken once: taking again would return them again.
        while to_fill and len(rows) < count and not (rows and lane.claim.again) and life_cycle.is_running(run.pk):
            if all(lane.is_away(endpoint) for endpoint in endpoints.values()):
                break
            if filling.fill(run):
                rows += take_locked(lane, count - len(rows))
            else:
                to_fill.clear()
        return rows

    def take_locked(lane: RunningLane, count: int) -> worker_lane.Rows:
        with _lock_release(run):
            return take_some(lane, count)

    def take_some(lane: RunningLane, count: int) -> worker_lane.Rows:
        if not life_cycle.is_running(run.pk):
            return []
        work: worker_lane.Rows = []
        # Judgments first: answers that are paid for are judged before more questions are asked.
        if asks := {pk: judge for pk, judge in judges.items() if lane.room_for(judge)}:
            open_rows = votes.votes_to_take(run, asks) if panel else queues.judgments_to_take(run)
            waiting = queues.without_questions_in_flight(queues.for_lanes(open_rows, run), run)
            rows: list[Any] = take(waiting, min(count, sum(map(lane.room_for, asks.values()))), lane.claim)
            if panel or run.judging == Run.Judging.PER_RUBRIC:
                _load_inputs(rows, protocol)
            for row in rows:
                judge = judges[row.judge_id if isinstance(row, Vote) else next(iter(judges))]
                row.asks = judge.pk
                work.append((row, partial(judge_row, row, run, protocol, lane, judge, store_verdicts)))
        available = [pk for pk, endpoint in endpoints.items() if lane.room_for(endpoint)]
        if available and len(work) < count:
            responses = queues.for_lanes(queues.responses_to_take(run), run)
            if len(available) < all_tested:
                responses = responses.filter(endpoint__in=available)
            taken = take(queues.without_questions_in_flight(responses, run), count - len(work), lane.claim)
            samples = ReleasedSample.objects.in_bulk({row.sample_id for row in taken})
            for row in taken:
                row.sample, row.asks = samples[row.sample_id], row.endpoint_id
            earlier = chains.earlier_answers(taken)
            work += [
                (row, partial(_ask, row, earlier[row.pk], run, protocol, lane, endpoints[row.endpoint_id], store))
                for row in taken
            ]
        return work

    endpoints_by_id = {**endpoints, **judges}
    if run.transport == Run.Transport.BATCH:
        filling.fill_all(run)  # all rows of a batch must exist before it is filled
        _follow_batches(run, protocol, endpoints_by_id)
    done = worker_lane.work_in_lane(run, endpoints_by_id.values(), take_rows, partial(_has_work, run_id))
    if run.transport == Run.Transport.BATCH:
        _follow_batches(run, protocol, endpoints_by_id)
    life_cycle.pause_if_spent(run_id)
    settle(run_id)
    return done


@contextmanager
def _lock_release(run: Run) -> Iterator[None]:
    """Lock out other runs on the release while taking rows, so that they see these in flight."""
    with transaction.atomic():
        if not run.fresh and queues.concurrent_runs(run):
            Release.objects.select_for_update(of=("self",), no_key=True).get(pk=run.release_id)
        yield


def _has_work(run_id: int) -> bool:
    return queues.with_work(Run.objects.filter(pk=run_id)).exists()


def _follow_batches(run: Run, protocol: Protocol, endpoints_by_id: Mapping[int, Endpoint]) -> None:
    """Advance the provider batches of a run, and fill new ones with rows that can go now."""
    provider_batches.advance_batches(run)
    offers = {pk: endpoint for pk, endpoint in endpoints_by_id.items() if endpoint.batches}
    if life_cycle.is_running(run.pk) and offers and queues.is_batch_due(run):
        batch_requests.fill_batches(run, protocol, offers)
        provider_batches.advance_batches(run)


async def _ask(
    row: Response,
    earlier: chains.EarlierAnswers,
    run: Run,
    protocol: Protocol,
    lane: RunningLane,
    endpoint: Endpoint,
    store: StoreResponses,
) -> None:
    models = lane.bind_models({"target": endpoint}, row)
    ask: Ask | None
    try:
        check_tries(row)
        ask = chains.question(protocol, row.sample, run.seed, row.variant, earlier)
        if ask is None:
            unasked = {"outcome": Outcome.UNASKED, "error": chains.NO_ANSWER}
            await lane.run_grouped(store, (row, Status.FAILED, unasked))
            return
        reply = await models.ask("target", queries.model_request(ask, run.sampling, row.repeat))
    except worker_lane.REQUEUE_ERRORS:
        raise
    except LLMError as error:
        without_reply = Outcome.FILTERED if isinstance(error, ContentFiltered) else Outcome.FAILED
        failed = {"outcome": without_reply, "error": error.kind, "detail": str(error)}
        await lane.run_grouped(store, (row, Status.FAILED, failed))
    else:
        outcome = _outcome(reply)
        # Code can read an empty answer; a judge has nothing to judge in it.
        if not reply.text.strip() and protocol.judge is not None:
            empty = BrokenReply("The reply is empty.")
            fields = {"error": empty.kind, "detail": str(empty), "reasoning": reply.reasoning, "outcome": outcome}
            await lane.run_grouped(store, (row, Status.FAILED, {**fields, "call_id": models.lines[-1]}))
            return
        fields = {"text": reply.text, "reasoning": reply.reasoning, "outcome": outcome}
        await lane.run_grouped(store, (row, Status.DONE, {**fields, "call_id": models.lines[-1]}))


def _outcome(reply: Reply) -> str:
    """The outcome of a reply."""
    if reply.finish_reason == REFUSED:
        return Outcome.REFUSED
    if reply.finish_reason == CUT_OFF:
        return Outcome.CUT_OFF
    return Outcome.ANSWERED if reply.text.strip() else Outcome.EMPTY


def _store_responses(
    protocol: Protocol, ends: list[End], rules: Mapping[str, str] | None = None, panel: votes.Panel | None = None
) -> list[bool]:
    """Store ended responses with their judgments and, for a panel, its first votes.

    A judgment is queued, or decided if code reads the answer. It fails at once if there is no
    answer, or if `rules` count the outcome of the response regardless of its text.
    """
    was_stored = finish_all(ends)
    stored = [end for end, ours in zip(ends, was_stored, strict=True) if ours]
    rubrics: dict[int, list[tuple[int, Rubric]]] = defaultdict(list)
    released = ReleasedRubric.objects.filter(sample__in={row.sample_id for row, _, _ in stored}).order_by("pk")
    for sample_id, pk, key, criterion, traps in released.values_list("sample_id", "pk", "key", "criterion", "traps"):
        rubrics[sample_id].append((pk, Rubric(key, criterion, tuple(traps))))
    for row, _, fields in stored:
        row.text = fields.get("text", "")
    texts = chains.judged_texts(protocol, [row for row, _, _ in stored]) if protocol.read or protocol.score else {}
    readings = [
        RubricReading(
            row,
            pk,
            rubric,
            text,
            _initial_judgment(protocol, rules or {}, row, status, fields["outcome"], rubric, text),
        )
        for row, status, fields in stored
        for text in (texts.get(row.pk, ""),)
        for pk, rubric in rubrics[row.sample_id]
        if protocol.rubric_applies(rubric.key, row.variant)
    ]
    Judgment.objects.bulk_create(
        (
            Judgment(
                run_id=reading.row.run_id, response_id=reading.row.pk, rubric_id=reading.rubric_id, **reading.judged
            )
            for reading in readings
        ),
        ignore_conflicts=True,  # an existing judgment must not stop the lane
    )
    scores.store_scores(protocol, readings)
    if panel:
        votes.queue_votes(panel, [row.pk for row, _, _ in stored])
    return was_stored


def _initial_judgment(
    protocol: Protocol,
    rules: Mapping[str, str],
    row: Response,
    status: Work.Status,
    outcome: str,
    rubric: Rubric,
    text: str,
) -> dict[str, str]:
    """The initial fields of the judgment on a rubric; final ones if code reads the answer."""
    if status == Status.FAILED:
        return {"status": Status.FAILED, "error": NO_RESPONSE}
    if rules.get(outcome, JUDGED) != JUDGED:
        return {"status": Status.FAILED, "error": NOT_JUDGED}
    decision = None
    if protocol.read is not None:
        decision = protocol.read(queries.sample_value(row.sample), rubric, row.variant, row.about, text)
    if decision is None:
        return {"status": Status.QUEUED}
    return {"status": Status.DONE, "verdict": decision.verdict, "explanation": decision.explanation}


def _load_inputs(rows: Sequence[Judgment | Vote], protocol: Protocol) -> None:
    """Load judgments of votes, responses with texts to judge, and rubrics, for all rows at once.

    Without `prefetch_related_objects`, whose chain of ORs SQLite refuses to nest a thousand deep.
    """
    vote_rows = [row for row in rows if isinstance(row, Vote)]
    judgments_by_id = Judgment.objects.in_bulk({vote.judgment_id for vote in vote_rows}) if vote_rows else {}
    for vote in vote_rows:
        vote.judgment = judgments_by_id[vote.judgment_id]
    judgments = [*judgments_by_id.values(), *(row for row in rows if isinstance(row, Judgment))]
    responses = Response.objects.in_bulk({row.response_id for row in judgments})
    rubrics = ReleasedRubric.objects.select_related("sample").in_bulk({row.rubric_id for row in judgments})
    for row in judgments:
        row.response, row.rubric = responses[row.response_id], rubrics[row.rubric_id]
        row.response.sample = row.rubric.sample
    for pk, text in chains.judged_texts(protocol, list(responses.values())).items():
        responses[pk].text = text


def _judgment_of(row: Judgment | Vote) -> tuple[Judgment, int]:
    """The judgment that a row belongs to, and the repeat of the judge."""
    return (row.judgment, row.repeat) if isinstance(row, Vote) else (row, 0)


async def _judge(
    row: Judgment | Vote, run: Run, protocol: Protocol, lane: RunningLane, endpoint: Endpoint, store: StoreVerdicts
) -> None:
    models = lane.bind_models({"judge": endpoint}, row)
    try:
        check_tries(row)
        judgment, repeat = _judgment_of(row)
        sample, rubric, response = queries.judgment_input(judgment)
        judging = queries.judging_of(protocol, rubric)
        request = judging.judge(sample, rubric, response.variant, response.text)
        request = queries.judge_request(request, run, answer=response.repeat, judgment=repeat)
        reply = await models.ask_structured("judge", request, judging.shape)
    except worker_lane.REQUEUE_ERRORS:
        raise
    except LLMError as error:
        await lane.run_grouped(store, (row, Status.FAILED, {"error": error.kind, "detail": str(error)}))
    else:
        decision = judging.decide(reply)
        decided = {"verdict": decision.verdict, "explanation": decision.explanation}
        await lane.run_grouped(store, (row, Status.DONE, decided))


async def _judge_sample(
    row: Judgment | Vote, run: Run, protocol: Protocol, lane: RunningLane, endpoint: Endpoint, store: StoreVerdicts
) -> None:
    """Decide all queued rubrics of a response in one call. `row` is the first of them."""
    models = lane.bind_models({"judge": endpoint}, row)
    judging = protocol.sample_judging
    if judging is None:
        raise errors.NotPerSample
    repeat = _judgment_of(row)[1]
    rows = await sync_to_async(_claim_joint_rows)(row)
    judgments = {joint_row.pk: _judgment_of(joint_row)[0] for joint_row in rows}
    try:
        check_tries(row)
        sample, rubrics, response, text = await sync_to_async(chains.joint_input)(protocol, list(judgments.values()))
        request = judging.judge(sample, list(rubrics.values()), response.variant, text)
        request = queries.judge_request(request, run, answer=response.repeat, judgment=repeat)
        reply = await models.ask_structured("judge", request, judging.shape)
    except worker_lane.REQUEUE_ERRORS:
        await lane.run(partial(_run_all, [partial(requeue, other) for other in rows[1:]]))
        raise
    except LLMError as error:
        failed = {"error": error.kind, "detail": str(error)}
        await lane.run(partial(store, [(joint_row, Status.FAILED, failed) for joint_row in rows]))
    else:
        decisions: dict[str, list[Decision]] = defaultdict(list)
        for key, decision in judging.decide(reply):
            decisions[key].append(decision)
        ends = [(joint_row, *_final_state(decisions[rubrics[judgments[joint_row.pk].pk].key])) for joint_row in rows]
        await lane.run(partial(store, ends))


def _claim_joint_rows(row: Judgment | Vote) -> list[Any]:
    """Take the other rows that the same call decides; returns `row` and these."""
    if not isinstance(row, Vote):
        return [row, *join(row, Judgment.objects.filter(response=row.response_id).exclude(pk=row.pk))]
    rows = [row, *join(row, votes.votes_beside(row))]
    judgments = Judgment.objects.in_bulk([vote.judgment_id for vote in rows])
    for vote in rows:
        vote.judgment = judgments[vote.judgment_id]
    return rows


def _run_all(actions: Sequence[Callable[[], object]]) -> None:
    for action in actions:
        action()


def _final_state(decisions: Sequence[Decision]) -> tuple[Work.Status, dict[str, str]]:
    """The final status and fields of a judgment. No or several decisions leave it unjudged."""
    if len(decisions) == 1:
        return Status.DONE, {"verdict": decisions[0].verdict, "explanation": decisions[0].explanation}
    detail = f"The reply decides {len(decisions)} times on this rubric."
    return Status.FAILED, {"error": BrokenReply.__name__, "detail": detail}
