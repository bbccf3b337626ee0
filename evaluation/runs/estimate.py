"""What a run would come to, and on what grounds, before anything is asked."""

from collections import Counter
from collections.abc import Sequence

from django.db.models import Count, QuerySet

from evaluation import errors
from evaluation.models import Run
from evaluation.protocol import Protocol, Rubric
from evaluation.runs import queries
from generation.jobs.estimate import LOOKED_UP, Estimate, line
from generation.models import Endpoint, Release, ReleasedRubric, ReleasedSample


def of_run(
    release: Release,
    endpoints: Sequence[Endpoint],
    judge: Endpoint | None = None,
    *,
    judging: str = Run.Judging.PER_RUBRIC,
    transport: str = Run.Transport.LIVE,
    seed: int = 0,
    variants: Sequence[str] = (),
    sampling: str = Run.Sampling.PROTOCOL,
    fresh: bool = False,
) -> Estimate:
    """What a run would ask. All samples of a task are taken to be asked as often as its first one is.

    Raises what a launch would: NoEndpoints, JudgeNeeded, NoJudgeNeeded, NotPerSample, UnknownDataSet; NoBatches where no
    endpoint offers batches.
    """
    protocol, datasets = queries.what_to_ask(release, endpoints, judge, judging=judging, variants=variants)
    in_batches = transport == Run.Transport.BATCH
    if in_batches and not any(each.batches for each in (*endpoints, judge) if each):
        raise errors.NoBatches
    tested = list(dict.fromkeys(endpoints))
    said: Counter[str] = Counter()  # by prompt
    judged: Counter[str] = Counter()
    samples = ReleasedSample.objects.filter(release=release).order_by("position")
    tasks = samples.order_by().values_list("task").annotate(n=Count("pk")).order_by("task")
    rubrics = dict(
        ReleasedRubric.objects.filter(sample__release=release).values_list("sample__task").annotate(n=Count("pk"))
    )
    for task, count in tasks:
        first = samples.filter(task=task)[0]
        asks = queries.questions(protocol, first, seed, datasets)
        for ask in asks:
            said[ask.prompt] += count
        if judge and asks and rubrics.get(task):
            of_each = count if judging == Run.Judging.PER_SAMPLE else rubrics[task]
            judged[_judges_prompt(protocol, first, judging)] += of_each * len(asks) * len(tested)
    known = [
        queries.to_send(ask, sampling)
        for sample in _some(release)
        for ask in queries.questions(protocol, sample, seed, datasets)
    ]
    lines = [
        line(
            "target",
            endpoint,
            prompt,
            count,
            known=[request for request in known if request.prompt == prompt],
            fresh=fresh,
            batched=in_batches and endpoint.batches,
        )
        for endpoint in tested
        for prompt, count in said.items()
    ]
    if judge:
        judges = in_batches and judge.batches
        lines += [line("judge", judge, prompt, count, batched=judges) for prompt, count in judged.items()]
    return Estimate(tuple(lines))


def _judges_prompt(protocol: Protocol, sample: ReleasedSample, judging: str) -> str:
    """The label of the prompt by which the judge decides on a sample like this one."""
    value = queries.sample_value(sample)
    rows = ReleasedRubric.objects.filter(sample=sample).order_by("pk")
    rubrics = [Rubric(row.key, row.criterion, tuple(row.traps)) for row in rows]
    if judging == Run.Judging.PER_SAMPLE and protocol.whole is not None:
        return protocol.whole.judge(value, rubrics, "", "").prompt
    return protocol.judge(value, rubrics[0], "", "").prompt if rubrics and protocol.judge else ""


def _some(release: Release) -> QuerySet[ReleasedSample]:
    """A few samples, spread over the release: a run that was cancelled has paid for the first of it alone."""
    pks = list(ReleasedSample.objects.filter(release=release).order_by("position").values_list("pk", flat=True))
    return ReleasedSample.objects.filter(pk__in=pks[:: max(1, -(-len(pks) // LOOKED_UP))])
