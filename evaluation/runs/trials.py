"""Requests that stand for those of a run: examples to read, and trials of its models."""

from collections.abc import Iterable

from pydantic import BaseModel

from evaluation import registry
from evaluation.models import Run
from evaluation.protocol import Protocol
from evaluation.runs import queries
from generation.jobs.kinds import Trial
from generation.llm.types import Request
from generation.models import ReleasedSample


def example_questions(run: Run) -> list[Request]:
    """Example requests of a run: the first sample of each task, in each variant."""
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    with queries.prompts_of(run):
        return [
            queries.model_request(ask, run.sampling)
            for first in queries.first_samples(run.release, datasets)
            for ask in queries.questions(protocol, first, run.seed, datasets)
        ]


def trials(run: Run) -> list[Trial]:
    """A request of each form that a run will send to each of its models and judges.

    Requests are alike if they have the same settings and both or neither have images; the longest
    one stands for them.
    """
    if run.origin == Run.Origin.IMPORTED:
        return []
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    firsts = queries.first_samples(run.release, datasets)
    with queries.prompts_of(run):
        asks = [
            ask for sample in firsts for ask in queries.questions(protocol, sample, run.seed, datasets) if not ask.after
        ]
        judged = _unlike([each for sample in firsts for each in _judge_requests(protocol, run, sample)])
    asked = _unlike([(queries.model_request(ask, run.sampling), None) for ask in asks])
    tested = [row.endpoint for row in run.tested.filter(left_out_at=None).select_related("endpoint").order_by("pk")]
    return [
        Trial(
            queries.endpoint_as_launched(run, endpoint),
            role,
            request,
            shape,
            batched=run.transport == Run.Transport.BATCH and endpoint.batches,
        )
        for role, endpoints, requests in (
            (queries.TARGET, tested, asked),
            (queries.JUDGE, queries.judges_asked(run), judged),
        )
        for endpoint in endpoints
        for request, shape in requests
    ]


Asked = tuple[Request, type[BaseModel] | None]


def _judge_requests(protocol: Protocol, run: Run, row: ReleasedSample) -> list[Asked]:
    """Requests to judge an answer to a sample that nobody gave."""
    sample, rubrics, answer = queries.sample_value(row), queries.rubric_values(row), "This answer only tests the judge."
    if protocol.judge is None or not rubrics:
        return []
    if run.judging == Run.Judging.PER_SAMPLE and protocol.sample_judging is not None:
        whole = protocol.sample_judging
        return [(queries.judge_request(whole.judge(sample, rubrics, "", answer), run, answer=0), whole.shape)]
    return [
        (queries.judge_request(judging.judge(sample, rubric, "", answer), run, answer=0), judging.shape)
        for rubric in rubrics
        if (judging := protocol.judging(rubric.key, run.plan.get("preset", ""))) is not None
    ]


def _unlike(requests: Iterable[Asked]) -> list[Asked]:
    forms: dict[tuple[object, ...], Asked] = {}
    for request, shape in requests:
        has_images = any(message.images for message in request.messages)
        form = (request.temperature, request.top_p, request.max_tokens, has_images, shape)
        if form not in forms or _length(request) > _length(forms[form][0]):
            forms[form] = (request, shape)
    return list(forms.values())


def _length(request: Request) -> int:
    return sum(len(message.text) for message in request.messages)
