"""What a run would come to, and on what grounds, before anything is asked."""

from collections import Counter

from django.db.models import Count, QuerySet

from evaluation.models import Run
from evaluation.protocol import Ask, Protocol, Rubric
from evaluation.runs import queries
from evaluation.runs.settings import RunSettings
from generation.jobs.estimate import LOOKED_UP, Estimate, estimate_line, paces
from generation.models import Release, ReleasedRubric, ReleasedSample


def estimate_run(settings: RunSettings) -> Estimate:
    """What a run would ask. All samples of a task are taken to be asked as often as its first one is, and an escalating panel
    to have all its judges vote on everything.

    Raises what a launch would; see `queries.protocol_and_data_sets`.
    """
    protocol, datasets = queries.protocol_and_data_sets(settings)
    release, judges, judging, tested = settings.release, settings.judges, settings.judging, settings.tested
    in_batches = settings.transport == Run.Transport.BATCH
    said: Counter[str] = Counter()  # by prompt
    judged: Counter[str] = Counter()
    samples = ReleasedSample.objects.filter(release=release).order_by("position")
    tasks = samples.order_by().values_list("task").annotate(n=Count("pk")).order_by("task")
    rubrics = dict(
        ReleasedRubric.objects.filter(sample__release=release).values_list("sample__task").annotate(n=Count("pk"))
    )
    by_key = queries.rubrics_by_key(release, protocol)
    for task, count in tasks:
        first = samples.filter(task=task)[0]
        asks = queries.questions(protocol, first, settings.seed, datasets)
        for ask in asks:
            said[ask.prompt] += count * settings.answers
        if judges and asks and rubrics.get(task):
            answers = len(tested) * settings.answers * settings.judgments
            for ask in asks:
                if judging == Run.Judging.PER_SAMPLE:
                    judged[_judges_prompt(protocol, first, judging)] += count * answers
                    continue
                own = {key: n for key, n in by_key.get(task, {}).items() if protocol.rubric_applies(key, ask.variant)}
                for key, n in own.items():
                    judged[_prompt_of(protocol, first, ask, key)] += n * answers
                if others := rubrics[task] - sum(by_key.get(task, {}).values()):
                    judged[_judges_prompt(protocol, first, judging)] += others * answers
    known = [
        queries.to_send(ask, settings.sampling, repeat)
        for repeat in range(settings.answers)
        for sample in _some(release)
        for ask in queries.questions(protocol, sample, settings.seed, datasets)
        if not ask.after  # what that is asked with is not known yet
    ]
    lines = [
        estimate_line(
            "target",
            endpoint,
            prompt,
            count,
            known=[request for request in known if request.prompt == prompt],
            fresh=settings.fresh,
            batched=in_batches and endpoint.batches,
        )
        for endpoint in tested
        for prompt, count in said.items()
    ]
    for judge in judges:
        together = in_batches and judge.batches
        lines += [estimate_line("judge", judge, prompt, count, batched=together) for prompt, count in judged.items()]
    return Estimate(tuple(lines), rows=sum(said.values()) * len(tested), paces=paces(settings.asked))


def _judges_prompt(protocol: Protocol, sample: ReleasedSample, judging: str) -> str:
    """The label of the prompt by which the judge decides on a sample like this one."""
    value = queries.sample_value(sample)
    rows = ReleasedRubric.objects.filter(sample=sample).order_by("pk")
    rubrics = [Rubric(row.key, row.criterion, tuple(row.traps)) for row in rows]
    if judging == Run.Judging.PER_SAMPLE and protocol.whole is not None:
        return protocol.whole.judge(value, rubrics, "", "").prompt
    others = [rubric for rubric in rubrics if rubric.key not in protocol.by_rubric]
    return protocol.judge(value, others[0], "", "").prompt if others and protocol.judge else ""


def _prompt_of(protocol: Protocol, sample: ReleasedSample, ask: Ask, key: str) -> str:
    """The label of the prompt by which the judge decides on one rubric of an answer to this question."""
    row = ReleasedRubric.objects.filter(sample=sample, key=key).first()
    how = protocol.judging(key)
    if row is None or how is None:
        return ""
    return how.judge(queries.sample_value(sample), Rubric(key, row.criterion, tuple(row.traps)), ask.variant, "").prompt


def _some(release: Release) -> QuerySet[ReleasedSample]:
    """A few samples, spread over the release: a run that was cancelled has paid for the first of it alone."""
    pks = list(ReleasedSample.objects.filter(release=release).order_by("position").values_list("pk", flat=True))
    return ReleasedSample.objects.filter(pk__in=pks[:: max(1, -(-len(pks) // LOOKED_UP))])
