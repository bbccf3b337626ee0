"""A lane's work on a run: asks models, has answers judged, keeps both."""

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
from evaluation.runs.rows.scores import Read
from evaluation.runs.services import NO_RESPONSE, NOT_JUDGED
from generation.engine import provider_batches, worker_lane
from generation.engine.task_queue import check_tries, finish_all, join, put_back, take
from generation.engine.worker_lane import RunningLane
from generation.jobs import life_cycle
from generation.jobs.services import settle
from generation.llm.errors import BrokenReply, ContentFiltered, LLMError
from generation.llm.types import CUT_OFF, REFUSED, Reply
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work

Status = Work.Status
Outcome = Response.Outcome
End = tuple[Response, Work.Status, dict[str, Any]]  # of a response: how, and with what
Keep = Callable[[list[End]], list[bool]]
KeepVerdicts = Callable[[Sequence[tuple[Any, Work.Status, Mapping[str, Any]]]], list[bool]]


def work_on_run(run_id: int) -> int:
    """Work on a run's responses and judgments in a lane until none is queued or its time is up; returns how many."""
    run = Run.objects.select_related("release", "judge").get(pk=run_id)
    protocol = registry.protocol(run.release.benchmark)
    tested = run.tested.select_related("endpoint")
    endpoints = {row.endpoint_id: queries.as_launched(run, row.endpoint) for row in tested}
    judges = {judge.pk: queries.as_launched(run, judge) for judge in queries.judges_of(run)}
    panel = votes.panel_of(run) if run.panel else None
    # One for all: what is kept by the same function is kept together.
    keep = partial(_keep_responses, protocol, rules=plan.outcomes_of(run, protocol), panel=panel)
    keep_verdicts: KeepVerdicts = partial(votes.keep_votes, panel) if panel else finish_all
    judged_how = _judge_sample if run.judging == Run.Judging.PER_SAMPLE else _judge
    if protocol.prepare is not None:
        protocol.prepare()
    to_fill = set(queues.unfilled(run).values_list("pk", flat=True))

    def take_rows(lane: RunningLane, count: int) -> worker_lane.Rows:
        rows = take_together(lane, count)
        # What was taken under a claim tried again is taken once: a second look would find it again.
        while to_fill and len(rows) < count and not (rows and lane.claim.again) and life_cycle.is_running(run.pk):
            if all(lane.is_away(endpoint) for endpoint in endpoints.values()):
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
        if asks := {pk: judge for pk, judge in judges.items() if not lane.is_away(judge)}:
            open_rows = votes.votes_to_take(run, asks) if panel else queues.judgments_to_take(run)
            waiting = queues.without_questions_in_flight(queues.for_lanes(open_rows, run), run)
            rows: list[Any] = take(waiting, count, lane.claim)
            if panel or run.judging == Run.Judging.PER_RUBRIC:
                _with_what_they_are_about(rows, protocol)
            for row in rows:
                judge = judges[row.judge_id if isinstance(row, Vote) else next(iter(judges))]
                found.append((row, partial(judged_how, row, run, protocol, lane, judge, keep_verdicts)))
        there = [pk for pk, endpoint in endpoints.items() if not lane.is_away(endpoint)]
        if there and len(found) < count:
            responses = queues.for_lanes(queues.responses_to_take(run), run)
            if len(there) < len(endpoints):
                responses = responses.filter(endpoint__in=there)
            taken = take(queues.without_questions_in_flight(responses, run), count - len(found), lane.claim)
            samples = ReleasedSample.objects.in_bulk({row.sample_id for row in taken})
            for each in taken:
                each.sample = samples[each.sample_id]
            before = chains.earlier_answers(taken)
            found += [
                (row, partial(_ask, row, before[row.pk], run, protocol, lane, endpoints[row.endpoint_id], keep))
                for row in taken
            ]
        return found

    asked = {**endpoints, **judges}
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
        if not run.fresh and queues.concurrent_runs(run):
            Release.objects.select_for_update(of=("self",), no_key=True).get(pk=run.release_id)
        yield


def _has_work(run_id: int) -> bool:
    return queues.with_work(Run.objects.filter(pk=run_id)).exists()


def _follow_batches(run: Run, protocol: Protocol, asked: Mapping[int, Endpoint]) -> None:
    """Bring the provider batches of a run a step further, and put into new ones what has to wait for no other answer."""
    provider_batches.advance_batches(run)
    offers = {pk: endpoint for pk, endpoint in asked.items() if endpoint.batches}
    if life_cycle.is_running(run.pk) and offers and queues.is_batch_due(run):
        batch_requests.fill_batches(run, protocol, offers)
        provider_batches.advance_batches(run)


async def _ask(
    row: Response,
    earlier: chains.Earlier,
    run: Run,
    protocol: Protocol,
    lane: RunningLane,
    endpoint: Endpoint,
    keep: Keep,
) -> None:
    models = lane.bind_models({"target": endpoint}, row)
    ask: Ask | None
    try:
        check_tries(row)
        ask = chains.question(protocol, row.sample, run.seed, row.variant, earlier)
        if ask is None:
            unasked = {"outcome": Outcome.UNASKED, "error": chains.NO_ANSWER}
            await lane.run_grouped(keep, (row, Status.FAILED, unasked))
            return
        reply = await models.ask("target", queries.to_send(ask, run.sampling, row.repeat))
    except worker_lane.REQUEUE_ERRORS:
        raise
    except LLMError as error:
        ended = Outcome.FILTERED if isinstance(error, ContentFiltered) else Outcome.FAILED
        failed = {"outcome": ended, "error": error.kind, "detail": str(error)}
        await lane.run_grouped(keep, (row, Status.FAILED, failed))
    else:
        outcome = _outcome(reply)
        # To say nothing is an answer that code can read; a judge has nothing to judge in it.
        if not reply.text.strip() and protocol.judge is not None:
            empty = BrokenReply("The reply is empty.")
            said = {"error": empty.kind, "detail": str(empty), "reasoning": reply.reasoning}
            end = {**said, "outcome": outcome, "call_id": models.lines[-1]}
            await lane.run_grouped(keep, (row, Status.FAILED, end))
            return
        said = {"text": reply.text, "reasoning": reply.reasoning, "outcome": outcome}
        await lane.run_grouped(keep, (row, Status.DONE, {**said, "call_id": models.lines[-1]}))


def _outcome(reply: Reply) -> str:
    """How a reply ended."""
    if reply.finish_reason == REFUSED:
        return Outcome.REFUSED
    if reply.finish_reason == CUT_OFF:
        return Outcome.CUT_OFF
    return Outcome.ANSWERED if reply.text.strip() else Outcome.EMPTY


def _keep_responses(
    protocol: Protocol, ends: list[End], rules: Mapping[str, str] | None = None, panel: votes.Panel | None = None
) -> list[bool]:
    """Store responses together with their judgments: queued, or decided where code reads them; unjudged from the start where
    nothing was said, or `rules` count the outcome of the response whatever was said. A panel's first votes are queued with
    them."""
    kept = finish_all(ends)
    told = [end for end, was_ours in zip(ends, kept, strict=True) if was_ours]
    rubrics: dict[int, list[tuple[int, Rubric]]] = defaultdict(list)
    wanted = ReleasedRubric.objects.filter(sample__in={row.sample_id for row, _, _ in told}).order_by("pk")
    for sample_id, pk, key, criterion, traps in wanted.values_list("sample_id", "pk", "key", "criterion", "traps"):
        rubrics[sample_id].append((pk, Rubric(key, criterion, tuple(traps))))
    for row, _, said in told:
        row.text = said.get("text", "")
    texts = chains.judged_texts(protocol, [row for row, _, _ in told]) if protocol.read or protocol.score else {}
    found = [
        Read(row, pk, rubric, text, _at_once(protocol, rules or {}, row, status, said["outcome"], rubric, text))
        for row, status, said in told
        for text in (texts.get(row.pk, ""),)
        for pk, rubric in rubrics[row.sample_id]
        if protocol.rubric_applies(rubric.key, row.variant)
    ]
    Judgment.objects.bulk_create(
        (Judgment(run_id=e.row.run_id, response_id=e.row.pk, rubric_id=e.rubric_id, **e.judged) for e in found),
        ignore_conflicts=True,  # a judgment that is there already is no reason to lose the lane
    )
    scores.keep_scores(protocol, found)
    if panel:
        votes.queue_votes(panel, [row.pk for row, _, _ in told])
    return kept


def _at_once(
    protocol: Protocol,
    rules: Mapping[str, str],
    row: Response,
    status: Work.Status,
    outcome: str,
    rubric: Rubric,
    text: str,
) -> dict[str, str]:
    """How the judgment on a rubric begins, and where code reads the answer, ends."""
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


def _with_what_they_are_about(rows: Sequence[Judgment | Vote], protocol: Protocol) -> None:
    """Fetch responses, with the texts that are judged of them, and rubrics for all rows at once, and the judgments of votes.

    Not `prefetch_related_objects`: it asks by a chain of ORs, which SQLite refuses to nest a thousand deep.
    """
    votes_here = [row for row in rows if isinstance(row, Vote)]
    found = Judgment.objects.in_bulk({vote.judgment_id for vote in votes_here}) if votes_here else {}
    for vote in votes_here:
        vote.judgment = found[vote.judgment_id]
    judgments = [*found.values(), *(row for row in rows if isinstance(row, Judgment))]
    responses = Response.objects.in_bulk({row.response_id for row in judgments})
    rubrics = ReleasedRubric.objects.select_related("sample").in_bulk({row.rubric_id for row in judgments})
    for row in judgments:
        row.response, row.rubric = responses[row.response_id], rubrics[row.rubric_id]
        row.response.sample = row.rubric.sample
    for pk, text in chains.judged_texts(protocol, list(responses.values())).items():
        responses[pk].text = text


def _about(row: Judgment | Vote) -> tuple[Judgment, int]:
    """The judgment that is asked for, and which of the judge's own it is."""
    return (row.judgment, row.repeat) if isinstance(row, Vote) else (row, 0)


async def _judge(
    row: Judgment | Vote, run: Run, protocol: Protocol, lane: RunningLane, endpoint: Endpoint, keep: KeepVerdicts
) -> None:
    models = lane.bind_models({"judge": endpoint}, row)
    try:
        check_tries(row)
        judgment, repeat = _about(row)
        sample, rubric, response = queries.judgment_input(judgment)
        how = queries.judged_by(protocol, rubric)
        request = how.judge(sample, rubric, response.variant, response.text)
        request = queries.to_judge(request, run, answer=response.repeat, judgment=repeat)
        said = await models.ask_structured("judge", request, how.shape)
    except worker_lane.REQUEUE_ERRORS:
        raise
    except LLMError as error:
        await lane.run_grouped(keep, (row, Status.FAILED, {"error": error.kind, "detail": str(error)}))
    else:
        decision = how.decide(said)
        decided = {"verdict": decision.verdict, "explanation": decision.explanation}
        await lane.run_grouped(keep, (row, Status.DONE, decided))


async def _judge_sample(
    row: Judgment | Vote, run: Run, protocol: Protocol, lane: RunningLane, endpoint: Endpoint, keep: KeepVerdicts
) -> None:
    """Decide all rubrics of a response that wait for it in one call; `row` is the first of them, the others come along."""
    models = lane.bind_models({"judge": endpoint}, row)
    whole = protocol.whole
    if whole is None:
        raise errors.NotPerSample
    repeat = _about(row)[1]
    rows = await sync_to_async(_with_those_beside)(row)
    judgments = {each.pk: _about(each)[0] for each in rows}
    try:
        check_tries(row)
        sample, rubrics, response, text = await sync_to_async(chains.joint_input)(protocol, list(judgments.values()))
        request = whole.judge(sample, list(rubrics.values()), response.variant, text)
        request = queries.to_judge(request, run, answer=response.repeat, judgment=repeat)
        said = await models.ask_structured("judge", request, whole.shape)
    except worker_lane.REQUEUE_ERRORS:
        await lane.run(partial(_each, [partial(put_back, other) for other in rows[1:]]))
        raise
    except LLMError as error:
        failed = {"error": error.kind, "detail": str(error)}
        await lane.run(partial(keep, [(each, Status.FAILED, failed) for each in rows]))
    else:
        found: dict[str, list[Decision]] = defaultdict(list)
        for key, decision in whole.decide(said):
            found[key].append(decision)
        ends = [(each, *_end(found[rubrics[judgments[each.pk].pk].key])) for each in rows]
        await lane.run(partial(keep, ends))


def _with_those_beside(row: Judgment | Vote) -> list[Any]:
    """A row with the others that the same call decides, which are taken along."""
    if not isinstance(row, Vote):
        return [row, *join(row, Judgment.objects.filter(response=row.response_id).exclude(pk=row.pk))]
    rows = [row, *join(row, votes.votes_beside(row))]
    judgments = Judgment.objects.in_bulk([each.judgment_id for each in rows])
    for each in rows:
        each.judgment = judgments[each.judgment_id]
    return rows


def _each(works: Sequence[Callable[[], object]]) -> None:
    for work in works:
        work()


def _end(found: Sequence[Decision]) -> tuple[Work.Status, dict[str, str]]:
    """The one decision on a rubric; none or several leave it unjudged."""
    if len(found) == 1:
        return Status.DONE, {"verdict": found[0].verdict, "explanation": found[0].explanation}
    detail = f"The reply decides {len(found)} times on this rubric."
    return Status.FAILED, {"error": BrokenReply.__name__, "detail": detail}
