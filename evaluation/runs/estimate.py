"""Estimates the calls and cost of a run before launch, with the basis of each line."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil

from django.db.models import QuerySet

from evaluation import registry
from evaluation.models import PolicyAnswer, Run
from evaluation.protocol import DataSet, Protocol
from evaluation.runs import queries
from evaluation.runs.adding import Checks, check_checks
from evaluation.runs.rows import policy_answers
from evaluation.runs.settings import RunSettings
from generation.jobs.estimate import MAX_LOOKED_UP, Estimate, estimate_line, paces
from generation.llm.types import Request
from generation.models import Release, ReleasedSample
from generation.prompts import queries as prompts_queries


def estimate_run(settings: RunSettings) -> Estimate:
    """Estimate a run.

    Assumes that each sample of a task has as many questions as the task's first sample, and that
    all judges of an escalating panel vote on everything. Raises what a launch would; see
    `queries.protocol_and_data_sets`.
    """
    with prompts_queries.using(settings.release.benchmark, settings.prompt_set):
        return _estimate(settings)


def _estimate(settings: RunSettings) -> Estimate:
    protocol, datasets = queries.protocol_and_data_sets(settings)
    release, judges, judging, tested = settings.release, settings.judges, settings.judging, settings.tested
    in_batches = settings.transport == Run.Transport.BATCH
    asked: Counter[str] = Counter()  # calls by prompt
    judged: Counter[str] = Counter()
    samples, rubrics = queries.counts_by_task(release)
    by_key = queries.rubrics_by_key(release, protocol)
    for first in queries.first_samples(release, datasets):
        task, count = first.task, samples[first.task]
        asks = queries.questions(protocol, first, settings.seed, datasets)
        for ask in asks:
            asked[ask.prompt] += count * settings.answers
        if judges and asks and rubrics.get(task):
            of_first = queries.rubric_values(first)
            answers = len(tested) * settings.answers * settings.judgments
            for ask in asks:
                calls = queries.example_judgings(protocol, first, of_first, judging, ask.variant)
                prompts = {key: request.prompt for key, request, _shape in calls}
                if judging == Run.Judging.PER_SAMPLE:
                    judged[prompts[""]] += count * answers
                    continue
                separate = by_key.get(task, {})
                for key, n in separate.items():
                    if protocol.rubric_applies(key, ask.variant):
                        judged[prompts.get(key, "")] += n * answers
                if others := rubrics[task] - sum(separate.values()):
                    usual = [prompt for key, prompt in prompts.items() if key not in protocol.by_rubric] or [""]
                    judged[usual[0]] += others * answers
    known_requests = _known_requests(settings, protocol, datasets)
    lines = []
    for endpoint in tested:
        batched = in_batches and endpoint.batches
        for prompt, count in asked.items():
            known = known_requests.get(prompt, [])
            lines.append(
                estimate_line("target", endpoint, prompt, count, known=known, fresh=settings.fresh, batched=batched)
            )
    for judge in judges:
        batched = in_batches and judge.batches
        for prompt, count in judged.items():
            lines.append(estimate_line("judge", judge, prompt, count, batched=batched))
    for prompt, count in _judged_policies(settings, protocol, datasets).items():
        lines.append(estimate_line("judge", judges[0], prompt, count))
    return Estimate(tuple(lines), rows=sum(asked.values()) * len(tested), paces=paces(settings.asked))


def _known_requests(settings: RunSettings, protocol: Protocol, datasets: Sequence[DataSet]) -> dict[str, list[Request]]:
    """The requests, by prompt, of a few samples: those whose text depends on no answer."""
    known: dict[str, list[Request]] = defaultdict(list)
    for repeat in range(settings.answers):
        for sample in _spread_samples(settings.release):
            for ask in queries.questions(protocol, sample, settings.seed, datasets):
                if not ask.after:
                    known[ask.prompt].append(queries.model_request(ask, settings.sampling, repeat))
    return known


def estimate_checks(checks: Checks) -> Estimate:
    """Estimate what the checks of a finished run would cost. Raises what `add_checks` does."""
    rows, settings = check_checks(checks), checks.settings
    protocol = registry.protocol(settings.release.benchmark)
    with prompts_queries.using(settings.release.benchmark, settings.prompt_set):
        datasets = queries.data_sets_asked(settings)
        judged = _judged_policies(settings, protocol, datasets)
        asked: Counter[tuple[int, str]] = Counter()
        for dataset in datasets:
            [first] = queries.first_samples(settings.release, [dataset])
            prompt = queries.questions(protocol, first, settings.seed, [dataset])[0].prompt
            repeated = 0
            for row in rows:
                if row.response is None or (row.response.sample.task, row.variant) != (dataset.task, dataset.variant):
                    continue
                repeated += 1
                if row.policy == PolicyAnswer.Again.ANSWERS:
                    asked[row.response.endpoint_id, prompt] += 1
            judged += _judge_calls(settings, protocol, dataset, repeated)
    models, judges = {endpoint.pk: endpoint for endpoint in settings.tested}, settings.judges[:1]
    # A repetition has a number that no earlier call has.
    lines = []
    for (pk, prompt), n in asked.items():
        lines.append(estimate_line("target", models[pk], prompt, n, fresh=True))
    for judge in judges:
        for prompt, n in judged.items():
            lines.append(estimate_line("judge", judge, prompt, n, fresh=True))
    return Estimate(tuple(lines), rows=len(rows), paces=paces([*models.values(), *judges]))


def _judged_policies(settings: RunSettings, protocol: Protocol, datasets: Sequence[DataSet]) -> Counter[str]:
    """The first judge's calls on fixed texts, by prompt."""
    calls = Counter[str]()
    if not settings.policies:
        return calls
    for dataset in datasets:
        samples = policy_answers.standing(settings.release, dataset).count()
        texts = min(settings.policy_samples, samples) * len(set(settings.policies))
        calls += _judge_calls(settings, protocol, dataset, texts)
    return calls


def _judge_calls(settings: RunSettings, protocol: Protocol, dataset: DataSet, answers: int) -> Counter[str]:
    """The first judge's calls on so many answers, by prompt, as on a sample of mean length."""
    [first] = queries.first_samples(settings.release, [dataset])
    of_first = queries.rubric_values(first)
    asked = queries.example_judgings(protocol, first, of_first, settings.judging, dataset.variant)
    if not asked or not settings.judges:
        return Counter()
    _key, request, _shape = asked[0]
    if settings.judging == Run.Judging.PER_RUBRIC:
        samples, rubrics = queries.counts_by_task(settings.release)
        answers = ceil(answers * rubrics[dataset.task] / samples[dataset.task])
    return Counter({request.prompt: answers})


def _spread_samples(release: Release) -> QuerySet[ReleasedSample]:
    """A few samples spread over the release: a cancelled run has cached only its first ones."""
    pks = list(ReleasedSample.objects.filter(release=release).order_by("position").values_list("pk", flat=True))
    return ReleasedSample.objects.filter(pk__in=pks[:: max(1, -(-len(pks) // MAX_LOOKED_UP))])
