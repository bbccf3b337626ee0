"""A lane's work on a run: asks models, has answers judged, and stores both."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import compress
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import Q, QuerySet
from pydantic import BaseModel

from evaluation import errors, registry
from evaluation.models import Judgment, PolicyAnswer, Response, ResponseScore, Run, Vote
from evaluation.numbers.rules import NO_ANSWER, NO_RESPONSE, NOT_JUDGED
from evaluation.protocol import EXCLUDED, JUDGED, Decision, Judging, Protocol, Rubric, Sample, SampleJudging
from evaluation.runs import leaving, plan, queries
from evaluation.runs.rows import batch_requests, chains, filling, queues, votes
from evaluation.runs.rows.reading import (
    Reader,
    ResponseReading,
    Rubrics,
    applicable,
    format_score,
    rubrics_of,
)
from generation.engine import provider_batches
from generation.engine.bound_models import BoundModels, Groups
from generation.engine.task_queue import check_tries, finish_all, join, requeue, take
from generation.engine.worker_lane import REQUEUE_ERRORS, Rows, RunningLane, work_in_lane
from generation.jobs import life_cycle
from generation.jobs.services import settle
from generation.llm.errors import BrokenReply, ContentFiltered, LLMError, StillWriting, UnknownEnding
from generation.llm.provider_words import Ending
from generation.llm.reasoning import begins_like_reasoning
from generation.llm.reply_reading import check_explained
from generation.llm.types import Reply, Request
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from review.rules.text import has_visible_text

Status = Work.Status
Outcome = Response.Outcome
READINGS = "readings"  # beside the fields of an ended response: what code has read in it, by rubric
# The outcomes of errors; others are failures.
OUTCOME_OF: Mapping[type[LLMError], Outcome] = {
    ContentFiltered: Outcome.FILTERED,
    StillWriting: Outcome.CUT_OFF,
    UnknownEnding: Outcome.UNKNOWN,
}
End = tuple[Response, Work.Status, dict[str, Any]]  # a response, its final status and fields
StoreResponses = Callable[[list[End]], list[bool]]
StoreVerdicts = Callable[[Sequence[tuple[Any, Work.Status, Mapping[str, Any]]]], list[bool]]


def work_on_run(run_id: int) -> int:
    """Work on a run in a lane until nothing is queued or its time is up; returns the rows done."""
    run = Run.objects.select_related("release", "judge", "prompt_set").get(pk=run_id)
    with queries.prompts_of(run):
        return _work_on_run(run)


def _work_on_run(run: Run) -> int:
    work = _RunWork(run)

    def has_work() -> bool:
        return queues.with_work(Run.objects.filter(pk=run.pk)).exists()

    in_batches = run.transport == Run.Transport.BATCH
    if in_batches:
        filling.fill_all(run)  # all rows of a batch must exist before it is filled
        work.follow_batches()
    try:
        done = work_in_lane(run, work.endpoints.values(), work.take_rows, has_work)
    finally:
        work.reader.close()
    if in_batches:
        work.follow_batches()
    life_cycle.pause_if_spent(run.pk)
    if work.first is not None:
        undone = Response.objects.filter(run=run, status__in=(Status.QUEUED, Status.RUNNING))
        unjudged = Judgment.objects.filter(run=run, status__in=(Status.QUEUED, Status.RUNNING))
        is_open = undone.filter(sample=work.first).exists() or unjudged.exists()
        fixed_texts = PolicyAnswer.objects.filter(run=run, status=Status.QUEUED)
        others = undone.exists() or fixed_texts.exists() or queues.unfilled_endpoints(run).exists()
        life_cycle.pause_after_first(run, is_open=is_open, others=others)
    settle(run.pk)
    return done


def follow_batches(run_id: int) -> None:
    """Advance the provider batches of a run, fill new ones, and settle it."""
    run = Run.objects.select_related("release", "judge", "prompt_set").get(pk=run_id)
    if run.transport != Run.Transport.BATCH or run.origin == Run.Origin.IMPORTED:
        return
    with queries.prompts_of(run):
        work = _RunWork(run)
        try:
            work.follow_batches()
        finally:
            work.reader.close()
    settle(run.pk)


class _RunWork:
    """A lane's work on a run: takes its rows, asks models about them, and stores what they say."""

    def __init__(self, run: Run) -> None:
        self.run, self.protocol = run, registry.protocol(run.release.benchmark)
        self.tested, self.judges = dict[int, Endpoint](), dict[int, Endpoint]()
        for row in run.tested.filter(left_out_at=None).select_related("endpoint"):
            self.tested[row.endpoint_id] = queries.endpoint_as_launched(run, row.endpoint)
        for judge in queries.judges_asked(run):
            self.judges[judge.pk] = queries.endpoint_as_launched(run, judge)
        self.endpoints = {**self.tested, **self.judges}
        self.panel = None
        if run.panel:
            self.panel = votes.panel_of(run)
        if self.panel and run.judges_left_out:  # a lane that did not know may have queued votes since
            leaving.drop_votes(run)
        # One function object for all rows: the lane groups what the same function stores.
        self.outcomes = plan.outcomes_of(run, self.protocol)
        self.store: StoreResponses = partial(_store_responses, self.protocol, rules=self.outcomes, panel=self.panel)
        if self.panel:
            self.store_verdicts: StoreVerdicts = partial(votes.store_votes, self.panel)
        else:
            self.store_verdicts = finish_all
        if self.protocol.prepare is not None:
            self.protocol.prepare()
        self.reader = Reader(self.protocol)
        if run.first_only:
            self.first = queries.first_sample(run)
        else:
            self.first = None
        if self.first is not None and not run.responses.exists():  # the launch was killed before its first rows
            filling.fill(run)
        self.to_fill = self.first is None and queues.unfilled_endpoints(run).exists()

    def follow_batches(self) -> None:
        """Advance the provider batches of the run, and fill new ones with rows that can go now."""
        provider_batches.advance_batches(self.run)
        offers = {pk: endpoint for pk, endpoint in self.endpoints.items() if endpoint.batches}
        if life_cycle.is_running(self.run.pk) and offers and queues.is_batch_due(self.run):
            batch_requests.fill_batches(self.run, self.protocol, offers)
            provider_batches.advance_batches(self.run)

    # ------------------------------------------------------------------------------- taking rows

    def take_rows(self, lane: RunningLane, count: int) -> Rows:
        """Take rows for a lane, and create further ones while it has room."""
        rows = self._take(lane, count)
        # Rows taken under a retried claim are taken once: taking again would return them again.
        while self.to_fill and len(rows) < count and not (rows and lane.claim.again):
            if not life_cycle.is_running(self.run.pk) or all(map(lane.is_away, self.tested.values())):
                break
            self.to_fill = filling.fill(self.run)
            if self.to_fill:
                rows += self._take(lane, count - len(rows))
        return rows

    def _take(self, lane: RunningLane, count: int) -> Rows:
        with transaction.atomic():
            others = queues.concurrent_runs(self.run)
            if others:  # these wait, so that they see the rows that are taken now in flight
                Release.objects.select_for_update(of=("self",), no_key=True).get(pk=self.run.release_id)
            if not life_cycle.is_running(self.run.pk):
                return []
            # Judgments first: answers that are paid for are judged before more questions are asked.
            rows = self._take_judgments(lane, count, others)
            rows = [*rows, *self._take_responses(lane, count - len(rows), others)]
            return rows or self._take_policy_answers(lane, count)

    def _take_judgments(self, lane: RunningLane, count: int, others: Sequence[int]) -> Rows:
        run = self.run
        judges, room = list[int](), 0
        for pk, endpoint in self.judges.items():
            if of_judge := lane.room_for(endpoint):
                judges.append(pk)
                room += of_judge
        if not judges:
            return []
        open_rows: QuerySet[Any] = queues.judgments_to_take(run)
        if self.panel:
            open_rows = votes.votes_to_take(run, judges)
        waiting = queues.without_questions_in_flight(queues.for_lanes(open_rows, run), run, others)
        rows: list[Any] = take(waiting, min(count, room), lane.claim)
        if self.panel or run.judging == Run.Judging.PER_RUBRIC:
            _load_inputs(rows)
        earlier: dict[int, chains.EarlierAnswers] = {}
        if self.protocol.composed:
            judged = {_judgment_of(row)[0].response_id for row in rows}
            earlier = chains.earlier_answers(Response.objects.filter(pk__in=judged).only("after"))
        if run.judging == Run.Judging.PER_SAMPLE:
            judge = self.judge_sample
        else:
            judge = self.judge
        work: Rows = []
        for row in rows:
            if isinstance(row, Vote):
                row.asks = row.judge_id
            else:
                row.asks = next(iter(self.judges))
            judgment, _repeat = _judgment_of(row)
            work.append((row, partial(judge, lane, row, earlier.get(judgment.response_id))))
        return work

    def _take_responses(self, lane: RunningLane, count: int, others: Sequence[int]) -> Rows:
        available = [pk for pk, endpoint in self.tested.items() if lane.room_for(endpoint)]
        if not available or count <= 0:
            return []
        responses = queues.for_lanes(queues.responses_to_take(self.run), self.run)
        if self.first is not None:
            responses = responses.filter(sample=self.first)
        responses = responses.filter(endpoint__in=available)
        rows = take(queues.without_questions_in_flight(responses, self.run, others), count, lane.claim)
        samples = ReleasedSample.objects.in_bulk({row.sample_id for row in rows})
        earlier, rubrics = chains.earlier_answers(rows), rubrics_of(samples)
        work: Rows = []
        for row in rows:
            row.sample, row.asks = samples[row.sample_id], row.endpoint_id
            work.append((row, partial(self.ask, lane, row, earlier[row.pk], rubrics[row.sample_id])))
        return work

    def _take_policy_answers(self, lane: RunningLane, count: int) -> Rows:
        """Fixed texts come last, so that the answers of models are never behind them."""
        if self.first is not None:
            return []
        judge = next(iter(self.judges.values()), None)
        room = {pk: lane.room_for(endpoint) for pk, endpoint in self.endpoints.items()}
        asked = [pk for pk in self.tested if room[pk]]
        can_go = Q(policy=PolicyAnswer.Again.ANSWERS, response__endpoint__in=asked)
        if judge is not None and room[judge.pk]:
            can_go |= ~Q(policy=PolicyAnswer.Again.ANSWERS)
        rows = take(
            PolicyAnswer.objects.filter(can_go, run=self.run).order_by("pk"), min(count, sum(room.values())), lane.claim
        )
        samples = ReleasedSample.objects.in_bulk({row.sample_id for row in rows})
        rubrics = rubrics_of(samples)
        responses = Response.objects.in_bulk({row.response_id for row in rows if row.response_id})
        earlier = chains.earlier_answers(responses.values())
        work: Rows = []
        for row in rows:
            row.sample = samples[row.sample_id]
            if judge is not None:
                row.asks = judge.pk
            if row.response_id is None:
                work.append((row, partial(self.judge_policy, lane, row, rubrics[row.sample_id])))
                continue
            row.response = responses[row.response_id]
            row.response.sample = row.sample
            if row.policy == PolicyAnswer.Again.ANSWERS:
                row.asks = row.response.endpoint_id
            of_row = rubrics[row.sample_id], earlier[row.response_id]
            work.append((row, partial(self.ask_or_judge_again, lane, row, *of_row)))
        return work

    # ----------------------------------------------------------------------------- work on a row

    async def ask(self, lane: RunningLane, row: Response, earlier: chains.EarlierAnswers, rubrics: Rubrics) -> None:
        """Ask a model under test, and store its answer."""
        models = lane.bind_models({"target": self.tested[row.endpoint_id]}, row, self._repeats(row))
        status, fields = await self._answer_or_outcome(models, row, earlier, rubrics)
        await lane.run_grouped(self.store, (row, status, fields))

    async def _answer_or_outcome(
        self, models: BoundModels, row: Response, earlier: chains.EarlierAnswers, rubrics: Rubrics
    ) -> tuple[Work.Status, dict[str, Any]]:
        """As `_answer`; an error of the call is the outcome that it stands for."""
        try:
            return await self._answer(models, row, earlier, rubrics)
        except REQUEUE_ERRORS:
            raise
        except LLMError as error:
            return Status.FAILED, {"outcome": _outcome_of_error(error), **_error_fields(error)}

    async def _answer(
        self, models: BoundModels, row: Response, earlier: chains.EarlierAnswers, rubrics: Rubrics
    ) -> tuple[Work.Status, dict[str, Any]]:
        """The final status and fields of a response. Raises LLMError if the call fails."""
        check_tries(row)
        ask = await self.reader.question(row, self.run.seed, models.model("target"), earlier)
        if ask is None:
            return Status.FAILED, {"outcome": Outcome.UNASKED, "error": NO_ANSWER}
        reply = await models.ask("target", queries.model_request(ask, self.run.sampling, row.repeat))
        answered = {"outcome": _outcome(reply), "reasoning": reply.reasoning, "call_id": models.lines[-1]}
        # Code can read an empty answer; a judge has nothing to judge in it.
        if not has_visible_text(reply.text) and self.protocol.judge is not None:
            return Status.FAILED, answered | _error_fields(BrokenReply("The reply is empty."))
        question = "\n".join(message.text for message in ask.request.messages)
        answered |= {"text": reply.text, "like_reasoning": begins_like_reasoning(reply.text, question)}
        try:
            readings = await self.reader.readings(row, reply.text, rubrics, earlier)
        except LLMError as error:  # the answer is kept, but is none that can be judged
            return Status.FAILED, answered | {"outcome": Outcome.FAILED} | _error_fields(error)
        return Status.DONE, answered | {READINGS: readings}

    async def judge(self, lane: RunningLane, row: Judgment | Vote, earlier: chains.EarlierAnswers) -> None:
        """Have a rubric of an answer judged, and store the verdict."""
        try:
            check_tries(row)
            judgment, repeat = _judgment_of(row)
            sample, rubric, response = queries.judgment_input(judgment)
            judging = queries.judging_of(self.protocol, rubric, self.run)
            text = await self.reader.judged_text(sample, response.variant, response.text, earlier)
            request = judging.judge(sample, rubric, response.variant, text)
            request = queries.judge_request(request, self.run, answer=response.repeat, judgment=repeat)
            models = self._bind_judge(lane, row, response.sample_id, response.subject)
            decision = await _decision(models, request, judging)
            end = row, Status.DONE, asdict(decision)
        except REQUEUE_ERRORS:
            raise
        except LLMError as error:
            end = row, Status.FAILED, _error_fields(error)
        await lane.run_grouped(self.store_verdicts, end)

    async def judge_sample(self, lane: RunningLane, row: Judgment | Vote, earlier: chains.EarlierAnswers) -> None:
        """Decide all queued rubrics of a response in one call. `row` is the first of them."""
        judging = self.protocol.sample_judging
        if judging is None:
            raise errors.NotPerSample
        repeat = _judgment_of(row)[1]
        rows = await sync_to_async(_claim_joint_rows)(row)
        judgments = {joint_row.pk: _judgment_of(joint_row)[0] for joint_row in rows}
        try:
            check_tries(row)
            sample, rubrics, response = await sync_to_async(queries.joint_judgment_input)(list(judgments.values()))
            text = await self.reader.judged_text(sample, response.variant, response.text, earlier)
            request = judging.judge(sample, list(rubrics.values()), response.variant, text)
            request = queries.judge_request(request, self.run, answer=response.repeat, judgment=repeat)
            decisions: dict[str, list[Decision]] = defaultdict(list)
            models = self._bind_judge(lane, row, response.sample_id, response.subject)
            for key, decision in await _decisions(models, request, judging):
                decisions[key].append(decision)
            ends = []
            for joint_row in rows:
                rubric = rubrics[judgments[joint_row.pk].pk]
                ends.append((joint_row, *_final_state(decisions[rubric.key])))
        except REQUEUE_ERRORS:
            await lane.run(partial(_requeue_all, rows[1:]))
            raise
        except LLMError as error:
            ends = [(joint_row, Status.FAILED, _error_fields(error)) for joint_row in rows]
        await lane.run(partial(self.store_verdicts, ends))

    async def judge_policy(self, lane: RunningLane, row: PolicyAnswer, rubrics: Rubrics) -> None:
        """Have all rubrics of a fixed text judged as those of an answer, and store the verdicts.

        What is judged before a kill is found in the ledger.
        """
        models = self._bind_judge(lane, row, row.sample_id, row.subject)
        sample = queries.sample_value(row.sample)
        to_judge = [rubric for _pk, rubric in applicable(self.protocol, rubrics, row.variant)]
        verdicts: dict[str, dict[str, str]] = {}
        try:
            check_tries(row)
            text = await self.reader.judged_text(sample, row.variant, row.text, {})
            if has_visible_text(text):
                rule = JUDGED
            else:
                rule = self.outcomes.get(Outcome.EMPTY, JUDGED)
            if rule not in (JUDGED, EXCLUDED):  # a model's empty answer counts so, too
                verdicts = {rubric.key: _decided(rule) for rubric in to_judge}
            else:
                as_numbered = partial(queries.judge_request, run=self.run, answer=0)
                await self._add_verdicts(verdicts, models, sample, to_judge, row.variant, text, as_numbered)
            error = _first_error(verdicts)
        except REQUEUE_ERRORS:
            raise
        except LLMError as caught:
            error = _error_fields(caught)
        if error:
            status = Status.FAILED
        else:
            status = Status.DONE
        await lane.run_grouped(_store_policy_answers, (row, status, {"verdicts": verdicts, **error}))

    async def ask_or_judge_again(
        self, lane: RunningLane, row: PolicyAnswer, rubrics: Rubrics, earlier: chains.EarlierAnswers
    ) -> None:
        """Ask a model the same question again, or have its answer judged again; store the verdicts.

        What is paid for before a kill is found in the ledger.
        """
        response, sample = row.response, queries.sample_value(row.sample)
        assert response is not None  # noqa: S101 - as `_take_policy_answers` has it
        judge = next(iter(self.judges.values()), None)
        endpoints = {}
        if judge:
            endpoints = {"judge": judge}
        outcome, text, fields = response.outcome, response.text, dict[str, Any]()
        readings: Mapping[int, ResponseReading] = {}
        as_numbered = partial(queries.second_judge_request, run=self.run, answer=response.repeat)
        if row.policy == PolicyAnswer.Again.ANSWERS:
            endpoints["target"] = self.tested[response.endpoint_id]
            response.repeat += self.run.answers_each  # the number of an answer that no other call has
            as_numbered = partial(queries.judge_request, run=self.run, answer=response.repeat)
        models = lane.bind_models(endpoints, row)
        verdicts: dict[str, dict[str, str]] = {}
        try:
            check_tries(row)
            if row.policy == PolicyAnswer.Again.ANSWERS:
                _status, answered = await self._answer_or_outcome(models, response, earlier, rubrics)
                outcome, text = answered["outcome"], answered.get("text", "")
                readings, fields = answered.get(READINGS, {}), {"text": text}
                if outcome == Outcome.FAILED:
                    fields |= {"error": answered["error"], "detail": answered["detail"]}
            rule = self.outcomes.get(outcome, JUDGED)
            to_judge: list[Rubric] = []
            for pk, rubric in applicable(self.protocol, rubrics, row.variant):
                decision = None
                if pk in readings:
                    decision = readings[pk].decision
                if rule not in (JUDGED, EXCLUDED):
                    verdicts[rubric.key] = _decided(rule)
                elif rule == JUDGED and decision is not None:
                    verdicts[rubric.key] = _decided(decision.verdict)
                elif rule == JUDGED and judge is not None and outcome != Outcome.FAILED:
                    to_judge.append(rubric)
            if to_judge:
                judged = await self.reader.judged_text(sample, row.variant, text, earlier)
                await self._add_verdicts(verdicts, models, sample, to_judge, row.variant, judged, as_numbered)
            fields |= _first_error(verdicts)
        except REQUEUE_ERRORS:
            raise
        except LLMError as caught:
            fields |= _error_fields(caught)
        if fields.get("error"):
            status = Status.FAILED
        else:
            status = Status.DONE
        await lane.run_grouped(_store_policy_answers, (row, status, {"verdicts": verdicts, **fields}))

    async def _add_verdicts(
        self,
        verdicts: dict[str, dict[str, str]],
        models: BoundModels,
        sample: Sample,
        rubrics: Sequence[Rubric],
        variant: str,
        text: str,
        as_numbered: Callable[[Request], Request],
    ) -> None:
        """Have these rubrics of a text judged, in one call or one by one as the run does."""
        if self.run.judging == Run.Judging.PER_SAMPLE:
            verdicts |= await self._policy_verdicts(models, sample, rubrics, variant, text, as_numbered)
            return
        for rubric in rubrics:
            verdicts[rubric.key] = await self._policy_verdict(models, sample, rubric, variant, text, as_numbered)

    async def _policy_verdict(
        self,
        models: BoundModels,
        sample: Sample,
        rubric: Rubric,
        variant: str,
        text: str,
        as_numbered: Callable[[Request], Request],
    ) -> dict[str, str]:
        """The verdict on one rubric; a reply that cannot be used leaves the others as they are."""
        judging = queries.judging_of(self.protocol, rubric, self.run)
        request = as_numbered(judging.judge(sample, rubric, variant, text))
        try:
            decision = await _decision(models, request, judging)
        except BrokenReply as error:
            return {"verdict": "", **_error_fields(error)}
        return _decided(decision.verdict)

    async def _policy_verdicts(
        self,
        models: BoundModels,
        sample: Sample,
        rubrics: Sequence[Rubric],
        variant: str,
        text: str,
        as_numbered: Callable[[Request], Request],
    ) -> dict[str, dict[str, str]]:
        """The verdicts on all rubrics from one call, in an order derived as for answers."""
        judging = self.protocol.sample_judging
        if judging is None:
            raise errors.NotPerSample
        ordered = queries.shuffled_rubrics(self.run, sample.key, rubrics)
        request = as_numbered(judging.judge(sample, ordered, variant, text))
        decisions: dict[str, list[Decision]] = defaultdict(list)
        for key, decision in await _decisions(models, request, judging):
            decisions[key].append(decision)
        verdicts = {}
        for rubric in rubrics:
            _status, fields = _final_state(decisions[rubric.key])
            fields.pop("explanation", None)
            verdicts[rubric.key] = _decided("") | fields
        return verdicts

    def _repeats(self, row: Response) -> Groups:
        """The group of the answers to one question, which begin alike to the end."""
        names = []
        if self.run.answers_each > 1:
            names = [f"{row.sample_id}:{row.variant}"]
        return lambda _request: names

    def _bind_judge(
        self, lane: RunningLane, row: Judgment | Vote | PolicyAnswer, sample: int, answer: str
    ) -> BoundModels:
        """The judge of a row. Its prompts share context and question, then the answer.

        They share their rules with all others, too, for which none waits: they are few tokens, and
        the whole lane would begin with a single call.
        """

        def groups(request: Request) -> list[str]:
            of_sample = f"{request.prompt}:{sample}"
            return [of_sample, f"{of_sample}:{answer}"]

        return lane.bind_models({"judge": self.judges[row.asks or 0]}, row, groups)


async def _decision(models: BoundModels, request: Request, judging: Judging) -> Decision:
    """A judge's decision on one rubric."""

    def check(value: BaseModel) -> None:
        check_explained(request, [judging.decide(value).explanation])

    return judging.decide(await models.ask_structured("judge", request, judging.shape, check=check))


async def _decisions(models: BoundModels, request: Request, judging: SampleJudging) -> Sequence[tuple[str, Decision]]:
    """A judge's decisions on the rubrics of a sample, by their keys."""

    def check(value: BaseModel) -> None:
        check_explained(request, [decision.explanation for _key, decision in judging.decide(value)])

    return judging.decide(await models.ask_structured("judge", request, judging.shape, check=check))


def _outcome(reply: Reply) -> Outcome:
    """The outcome of a reply."""
    match reply.ending:
        case Ending.REFUSED:
            return Outcome.REFUSED
        case Ending.CUT_OFF:
            return Outcome.CUT_OFF
    if has_visible_text(reply.text):
        return Outcome.ANSWERED
    return Outcome.EMPTY


def _store_responses(
    protocol: Protocol, ends: list[End], rules: Mapping[str, str] | None = None, panel: votes.Panel | None = None
) -> list[bool]:
    """Store ended responses with their judgments and scores and, for a panel, its first votes.

    A judgment is queued, or decided if code has read the answer (`READINGS`). It fails at once if
    there is no answer, or if `rules` count the outcome of the response regardless of its text.
    """
    stored_ends: list[End] = []
    for row, status, fields in ends:
        columns = dict(fields)
        columns.pop(READINGS, None)
        stored_ends.append((row, status, columns))
    was_stored = finish_all(stored_ends)
    stored = list(compress(ends, was_stored))
    rubrics = rubrics_of({row.sample_id for row, _status, _fields in stored})
    judgments: list[Judgment] = []
    scores: list[ResponseScore] = []
    for row, status, fields in stored:
        for pk, _rubric in applicable(protocol, rubrics[row.sample_id], row.variant):
            keys = {"run_id": row.run_id, "response_id": row.pk, "rubric_id": pk}
            reading = fields.get(READINGS, {}).get(pk, ResponseReading())
            judgment = Judgment(**keys, **_initial_judgment(rules or {}, status, fields["outcome"], reading.decision))
            judgments.append(judgment)
            if reading.scores and judgment.status != Status.FAILED:
                numbers = " ".join(map(format_score, reading.scores.values()))
                scores.append(ResponseScore(**keys, names=" ".join(reading.scores), numbers=numbers))
    # Existing rows must not stop the lane.
    Judgment.objects.bulk_create(judgments, ignore_conflicts=True)
    ResponseScore.objects.bulk_create(scores, ignore_conflicts=True)
    if panel:
        votes.queue_votes(panel, [row.pk for row, _status, _fields in stored])
    return was_stored


def _initial_judgment(
    rules: Mapping[str, str], status: Work.Status, outcome: str, decision: Decision | None
) -> dict[str, str]:
    """The initial fields of the judgment on a rubric; final ones if code has decided."""
    if status == Status.FAILED:
        return {"status": Status.FAILED, "error": NO_RESPONSE}
    if rules.get(outcome, JUDGED) != JUDGED:
        return {"status": Status.FAILED, "error": NOT_JUDGED}
    if decision is None:
        return {"status": Status.QUEUED}
    return {"status": Status.DONE, **asdict(decision)}


def _store_policy_answers(ends: Sequence[tuple[PolicyAnswer, Work.Status, Mapping[str, Any]]]) -> list[bool]:
    """A function of its own, as a lane groups what the same function stores: rows of one table."""
    return finish_all(ends)


def _load_inputs(rows: Sequence[Judgment | Vote]) -> None:
    """Load judgments of votes, responses with texts to judge, and rubrics, for all rows at once.

    Without `prefetch_related_objects`, whose chain of ORs SQLite refuses to nest a thousand deep.
    """
    judgments: list[Judgment] = []
    votes_given: list[Vote] = []
    for row in rows:
        if isinstance(row, Vote):
            votes_given.append(row)
        else:
            judgments.append(row)
    if votes_given:
        judgments_by_id = Judgment.objects.in_bulk({vote.judgment_id for vote in votes_given})
        for vote in votes_given:
            vote.judgment = judgments_by_id[vote.judgment_id]
        judgments += judgments_by_id.values()
    responses = Response.objects.in_bulk({judgment.response_id for judgment in judgments})
    rubrics = ReleasedRubric.objects.select_related("sample").in_bulk({judgment.rubric_id for judgment in judgments})
    for judgment in judgments:
        judgment.response, judgment.rubric = responses[judgment.response_id], rubrics[judgment.rubric_id]
        judgment.response.sample = judgment.rubric.sample


def _judgment_of(row: Judgment | Vote) -> tuple[Judgment, int]:
    """The judgment that a row belongs to, and the repeat of the judge."""
    if isinstance(row, Vote):
        return (row.judgment, row.repeat)
    return (row, 0)


def _claim_joint_rows(row: Judgment | Vote) -> list[Any]:
    """Take the other rows that the same call decides; returns `row` and these."""
    if not isinstance(row, Vote):
        return [row, *join(row, Judgment.objects.filter(response=row.response_id).exclude(pk=row.pk))]
    rows = [row, *join(row, votes.votes_beside(row))]
    judgments = Judgment.objects.in_bulk([vote.judgment_id for vote in rows])
    for vote in rows:
        vote.judgment = judgments[vote.judgment_id]
    return rows


def _requeue_all(rows: Iterable[Any]) -> None:
    for row in rows:
        requeue(row)


def _first_error(verdicts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The fields of the first error among verdicts; {} if there is none."""
    for verdict in verdicts.values():
        if verdict["error"]:
            return {"error": verdict["error"], "detail": verdict["detail"]}
    return {}


def _decided(verdict: str) -> dict[str, str]:
    """The fields of a verdict that was given."""
    return {"verdict": verdict, "error": "", "detail": ""}


def _outcome_of_error(error: LLMError) -> Outcome:
    for kind, outcome in OUTCOME_OF.items():
        if isinstance(error, kind):
            return outcome
    return Outcome.FAILED


def _error_fields(error: LLMError) -> dict[str, Any]:
    return {"error": error.kind, "detail": str(error)}


def _final_state(decisions: Sequence[Decision]) -> tuple[Work.Status, dict[str, str]]:
    """The final status and fields of a judgment. No or several decisions leave it unjudged."""
    if len(decisions) == 1:
        return Status.DONE, asdict(decisions[0])
    detail = f"The reply decides {len(decisions)} times on this rubric."
    return Status.FAILED, {"error": BrokenReply.__name__, "detail": detail}
