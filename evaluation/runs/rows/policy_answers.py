"""Rows of fixed texts that a judge judges as if models had given them: drawn at launch."""

from collections.abc import Iterator, Sequence
from random import Random

from evaluation.models import PolicyAnswer, Run
from evaluation.policies import POLICIES
from evaluation.protocol import Ask, DataSet, Protocol
from evaluation.runs import queries
from evaluation.runs.settings import RunSettings
from generation.models import Release, ReleasedSample


def drawn(release: Release, dataset: DataSet, seed: int, count: int) -> list[ReleasedSample]:
    """The samples of a data set on which fixed texts are judged: the same for the same seed."""
    keys = ReleasedSample.objects.filter(release=release, task=dataset.task).values_list("pk", "key")
    shuffled = sorted(keys, key=lambda sample: Random(f"{seed}/policies/{sample[1]}").random())
    chosen = ReleasedSample.objects.filter(pk__in=[pk for pk, _key in shuffled[:count]])
    return list(chosen.select_related("version__case").order_by("position"))


def unsaved(settings: RunSettings, protocol: Protocol, datasets: Sequence[DataSet]) -> Iterator[PolicyAnswer]:
    """The rows of a launch with these settings, without their run."""
    for dataset in datasets if settings.policies else ():
        for sample in drawn(settings.release, dataset, settings.seed, settings.policy_samples):
            for ask in queries.questions(protocol, sample, settings.seed, [dataset]):
                for name in dict.fromkeys(settings.policies):
                    text = POLICIES[name].text(_last_turn(ask), queries.language_of(sample))
                    yield PolicyAnswer(sample=sample, variant=ask.variant, policy=name, text=text)


def create(run: Run, rows: Sequence[PolicyAnswer]) -> None:
    """Store the rows of a run that is being launched."""
    for row in rows:
        row.run = run
    PolicyAnswer.objects.bulk_create(rows)


def _last_turn(ask: Ask) -> str:
    return ask.messages[-1].text
