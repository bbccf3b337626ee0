"""Requests that stand for those of a run: examples to read, and trials of its models."""

from collections.abc import Iterable

from pydantic import BaseModel

from evaluation import registry
from evaluation.models import Run
from evaluation.runs import queries
from generation.jobs.kinds import Trial
from generation.llm.types import Request
from generation.models import Endpoint


def example_questions(run: Run) -> list[Request]:
    """Example requests of a run: the first sample of each task, in each variant."""
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    requests = []
    with queries.prompts_of(run):
        for first in queries.first_samples(run.release, datasets):
            for ask in queries.questions(protocol, first, run.seed, datasets):
                requests.append(queries.model_request(ask, run.sampling))
    return requests


def trials(run: Run) -> list[Trial]:
    """A request of each form that a run will send to each of its models and judges.

    Requests are alike if they have the same settings and both or neither have images; the longest
    one stands for them.
    """
    if run.origin == Run.Origin.IMPORTED:
        return []
    protocol, datasets = registry.protocol(run.release.benchmark), queries.data_sets_of(run)
    asked: list[Asked] = []
    judged: list[Asked] = []
    preset = run.plan.get("preset", "")
    with queries.prompts_of(run):
        for sample in queries.first_samples(run.release, datasets):
            for ask in queries.questions(protocol, sample, run.seed, datasets):
                if not ask.after:
                    asked.append((queries.model_request(ask, run.sampling), None))
            rubrics = queries.rubric_values(sample)
            if rubrics:
                examples = queries.example_judgings(protocol, sample, rubrics, run.judging, preset=preset)
                for _key, request, shape in examples:
                    judged.append((queries.judge_request(request, run, answer=0), shape))
    tested = [row.endpoint for row in run.tested.filter(left_out_at=None).select_related("endpoint").order_by("pk")]
    found = []
    for endpoint in tested:
        found += _trials_of(run, endpoint, queries.TARGET, _unlike(asked))
    for judge in queries.judges_asked(run):
        found += _trials_of(run, judge, queries.JUDGE, _unlike(judged))
    return found


Asked = tuple[Request, type[BaseModel] | None]


def _trials_of(run: Run, endpoint: Endpoint, role: str, requests: Iterable[Asked]) -> list[Trial]:
    batched = run.transport == Run.Transport.BATCH and endpoint.batches
    launched = queries.endpoint_as_launched(run, endpoint)
    return [Trial(launched, role, request, shape, batched=batched) for request, shape in requests]


def _unlike(requests: Iterable[Asked]) -> list[Asked]:
    forms: dict[tuple[object, ...], Asked] = {}
    for request, shape in requests:
        has_images = any(message.images for message in request.messages)
        form = (request.temperature, request.top_p, request.max_tokens, has_images, shape)
        if form not in forms or _length(request) > _length(forms[form][0]):
            forms[form] = (request, shape)
    return list(forms.values())


def _length(request: Request) -> int:
    return sum([len(message.text) for message in request.messages])
