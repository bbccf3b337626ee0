"""Requests that stand for those of a run: examples to read, and trials of its models."""

from collections.abc import Iterable

from pydantic import BaseModel

from evaluation import registry
from evaluation.models import Run
from evaluation.runs import queries
from generation.jobs.kinds import Trial
from generation.llm.types import Request


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
        judged = _unlike(
            (queries.judge_request(request, run, answer=0), shape)
            for sample in firsts
            if (rubrics := queries.rubric_values(sample))
            for _key, request, shape in queries.example_judgings(
                protocol, sample, rubrics, run.judging, preset=run.plan.get("preset", "")
            )
        )
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
