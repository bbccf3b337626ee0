"""Rows of answers beside those that count: fixed texts, and what is asked or judged again."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from django.db.models import QuerySet

from evaluation.models import PolicyAnswer, Response, Run
from evaluation.policies import POLICIES
from evaluation.protocol import JUDGED, Ask, DataSet, Protocol
from evaluation.runs import queries
from evaluation.runs.settings import RunSettings
from generation.models import Release, ReleasedSample, Sample
from generation.models.work import Work
from generation.samples import errata


def drawn(release: Release, dataset: DataSet, seed: int, count: int) -> list[ReleasedSample]:
    """The samples of a data set for such answers: the same for the same seed, none withdrawn."""
    return _drawn(standing(release, dataset), seed, count)


def standing(release: Release, dataset: DataSet) -> QuerySet[ReleasedSample]:
    """The samples of a data set that are not withdrawn."""
    return errata.standing(release).filter(task=dataset.task)


def _drawn(samples: QuerySet[ReleasedSample], seed: int, count: int) -> list[ReleasedSample]:
    keys = samples.values_list("pk", "key")
    shuffled = sorted(keys, key=lambda sample: Random(f"{seed}/policies/{sample[1]}").random())
    chosen = ReleasedSample.objects.filter(pk__in=[pk for pk, _key in shuffled[:count]])
    return list(chosen.select_related("version__case").order_by("position"))


def unsaved(settings: RunSettings, protocol: Protocol, datasets: Sequence[DataSet]) -> Iterator[PolicyAnswer]:
    """The rows of a launch with these settings, without their run."""
    if not settings.policies:
        return
    for dataset in datasets:
        for sample in drawn(settings.release, dataset, settings.seed, settings.policy_samples):
            for ask in queries.questions(protocol, sample, settings.seed, [dataset]):
                for name in dict.fromkeys(settings.policies):
                    text = POLICIES[name].text(_last_turn(ask), queries.language_of(sample))
                    yield PolicyAnswer(sample=sample, variant=ask.variant, policy=name, text=text)


def unsaved_again(
    run: Run, kinds: Sequence[str], samples: int, rules: Mapping[str, str], datasets: Sequence[DataSet]
) -> Iterator[PolicyAnswer]:
    """The rows by which a run asks or judges again what it has not yet, of so many samples.

    `kinds`: of `PolicyAnswer.Again`. `rules`: how outcomes count; what is not judged is not judged
    again. Controls are not drawn: how often a verdict turns is counted on samples with a trap.
    """
    known = set(PolicyAnswer.objects.filter(run=run).exclude(response=None).values_list("response", "policy"))
    left_out = run.tested.exclude(left_out_at=None).values("endpoint")
    for dataset in datasets:
        with_trap = standing(run.release, dataset).filter(version__sample__arm=Sample.Arm.TRAP)
        chosen = _drawn(with_trap, run.seed, samples)
        ended = Response.objects.filter(run=run, sample__in=chosen, variant=dataset.variant, repeat=0)
        ended = ended.filter(status__in=(Work.Status.DONE, Work.Status.FAILED)).exclude(endpoint__in=left_out)
        ended = ended.exclude(outcome=Response.Outcome.UNASKED).select_related("endpoint", "sample")
        for response in ended.defer("sample__exported").order_by("pk"):
            is_judged = response.status == Work.Status.DONE and rules.get(response.outcome, JUDGED) == JUDGED
            for kind in dict.fromkeys(kinds):
                if (response.pk, kind) in known or (kind == PolicyAnswer.Again.VERDICTS and not is_judged):
                    continue
                yield PolicyAnswer(
                    response=response, sample_id=response.sample_id, variant=response.variant, policy=kind
                )


def create(run: Run, rows: Sequence[PolicyAnswer]) -> None:
    """Store rows of a run."""
    for row in rows:
        row.run = run
    PolicyAnswer.objects.bulk_create(rows)


def _last_turn(ask: Ask) -> str:
    return ask.messages[-1].text
