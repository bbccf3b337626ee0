"""Fills provider batches with the requests of a run."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db.models import QuerySet

from evaluation.models import Judgment, Response, Run
from evaluation.protocol import Protocol
from evaluation.runs import queries
from evaluation.runs.rows import chains, queues
from generation.engine import provider_batch_filling, provider_batches
from generation.engine.provider_batch_filling import BatchRequest
from generation.engine.task_queue import finish, take
from generation.jobs import life_cycle
from generation.llm.errors import BudgetSpent
from generation.llm.request_body import with_schema
from generation.models import Endpoint, ReleasedSample
from generation.models.work import Work

Status = Work.Status


def fill_batches(run: Run, protocol: Protocol, offers: Mapping[int, Endpoint]) -> None:
    """Put queued rows that wait for no other answer into provider batches."""
    fills: list[tuple[Endpoint, QuerySet[Any], Callable[[Sequence[Any]], list[BatchRequest]]]] = []
    for endpoint in offers.values():
        responses = queues.responses_to_take(run).filter(endpoint=endpoint)
        fills.append((endpoint, responses, partial(_question_requests, run=run, protocol=protocol)))
    if run.judge_id is not None and run.judge_id in offers:
        judgments = queues.judgments_to_take(run)
        fills.append((offers[run.judge_id], judgments, partial(_judgment_requests, run=run, protocol=protocol)))
    for endpoint, queue, build_requests in fills:
        while rows := take(queue.filter(provider_batches.NOT_YET_SENT), provider_batches.MAX_LINES):
            if provider_batch_filling.prepare(run, endpoint, build_requests(rows)):
                continue
            # Replies that are to come may cost less than was reserved for them.
            if not provider_batches.rest_until_due(run):
                life_cycle.pause_unless_over(run.pk, BudgetSpent.__name__, str(BudgetSpent()))
            return


def _question_requests(rows: Sequence[Response], *, run: Run, protocol: Protocol) -> list[BatchRequest]:
    samples = ReleasedSample.objects.in_bulk({row.sample_id for row in rows})
    for row in rows:
        row.sample = samples[row.sample_id]
    asks = chains.chained_questions(protocol, rows, run.seed)
    requests = []
    for row in rows:
        ask = asks[row.pk]
        if ask is None:  # a lane will record its outcome
            finish(row, Status.QUEUED, live=True, tries=0)
        else:
            requests.append(BatchRequest(row, queries.model_request(ask, run.sampling, row.repeat)))
    return requests


def _judgment_requests(rows: Sequence[Judgment], *, run: Run, protocol: Protocol) -> list[BatchRequest]:
    requests = []
    for row in rows:
        judging: Any
        about: Any  # the rubric, or all of them
        if run.judging == Run.Judging.PER_SAMPLE and protocol.sample_judging:
            # The judgments that a lane would decide together with this one.
            others = Judgment.objects.filter(response=row.response_id, status=Status.QUEUED)
            sample, rubrics, response = queries.joint_judgment_input([row, *others])
            judging, about = protocol.sample_judging, list(rubrics.values())
        else:
            sample, about, response = queries.judgment_input(row)
            judging = queries.judging_of(protocol, about, run)
            response.sample = row.rubric.sample
        text = chains.judged_texts(protocol, [response])[response.pk]
        asked = queries.judge_request(judging.judge(sample, about, response.variant, text), run, answer=response.repeat)
        requests.append(BatchRequest(row, with_schema(asked, judging.shape)))
    return requests
