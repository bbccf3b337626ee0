"""Fills provider batches with the requests of a run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from generation.errors import JobOver
from generation.jobs import life_cycle
from generation.llm.errors import BudgetSpent
from generation.llm.request_body import structured
from generation.llm.types import Request
from generation.models import Endpoint, ReleasedSample
from generation.models.work import Work

Status = Work.Status


def fill_batches(run: Run, protocol: Protocol, offers: Mapping[int, Endpoint]) -> None:
    """Put what waits for no other answer into provider batches."""
    fill: list[tuple[Endpoint, QuerySet[Any], Callable[[Sequence[Any]], list[BatchRequest]]]] = [
        (
            endpoint,
            queues.responses_to_take(run).filter(endpoint=endpoint),
            partial(_questions, run=run, protocol=protocol),
        )
        for endpoint in offers.values()
    ]
    if run.judge_id is not None and run.judge_id in offers:
        judgments = queues.judgments_to_take(run)
        fill.append((offers[run.judge_id], judgments, partial(_judgings, run=run, protocol=protocol)))
    for endpoint, queue, wants in fill:
        while rows := take(queue.filter(provider_batches.NOT_YET_SENT), provider_batches.MAX_LINES):
            if provider_batch_filling.prepare(run, endpoint, wants(rows)):
                continue
            if provider_batches.is_open(run):  # what comes back may have cost less than was set aside for it
                provider_batches.rest_until_due(run)
            else:
                with suppress(JobOver):
                    spent = BudgetSpent()
                    life_cycle.pause(run.pk, because=spent.kind, detail=str(spent))
            return


def _questions(rows: Sequence[Response], *, run: Run, protocol: Protocol) -> list[BatchRequest]:
    samples = ReleasedSample.objects.in_bulk({row.sample_id for row in rows})
    for row in rows:
        row.sample = samples[row.sample_id]
    asks = chains.questions_asked(protocol, rows, run.seed)
    asked = [(row, ask) for row in rows if (ask := asks[row.pk]) is not None]
    for row in rows:
        if asks[row.pk] is None:  # a lane says how it ends
            finish(row, Status.QUEUED, live=True, tries=0)
    return [BatchRequest(row, queries.to_send(ask, run.sampling, row.repeat)) for row, ask in asked]


def _judgings(rows: Sequence[Judgment], *, run: Run, protocol: Protocol) -> list[BatchRequest]:
    wants = []
    for row in rows:
        request: Request
        if run.judging == Run.Judging.PER_SAMPLE and protocol.whole:
            # Those that a lane would take along with this one.
            beside = Judgment.objects.filter(response=row.response_id, status=Status.QUEUED)
            sample, rubrics, response, text = chains.joint_input(protocol, [row, *beside])
            request = protocol.whole.judge(sample, list(rubrics.values()), response.variant, text)
            request = structured(queries.to_judge(request, run, answer=response.repeat), protocol.whole.shape)
        else:
            sample, rubric, response = queries.judgment_input(row)
            how = queries.judged_by(protocol, rubric)
            response.sample = row.rubric.sample
            text = chains.judged_texts(protocol, [response])[response.pk]
            request = how.judge(sample, rubric, response.variant, text)
            request = structured(queries.to_judge(request, run, answer=response.repeat), how.shape)
        wants.append(BatchRequest(row, request))
    return wants
