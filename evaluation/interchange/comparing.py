"""Two runs side by side: what moved for each model, which samples flipped, and the paired interval."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count
from django.utils.translation import gettext_noop

from evaluation import errors, registry
from evaluation.models import Judgment, Run
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.runs import queries
from evaluation.statistics.comparisons import PairedDifference, paired_difference
from generation.models import ReleasedSample

COMBINED = ("combined", gettext_noop("Combined"))
MOST_FLIPS = 200  # listed for each pair of models and data set

Place = tuple[str, str]  # sample, variant
Verdicts = Mapping[Place, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample that only one of two answers failed: criteria failed of criteria counted, in each run."""

    sample: str
    first: tuple[int, int]
    second: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Moved:
    """A model (or two) on one data set: rates on the samples that both runs judged. `flips`: the first of them; `worse` of them
    failed in the second run alone, `better` in the first alone."""

    first: str
    second: str
    dataset: str
    label: str
    rate: str
    shared: int
    difference: PairedDifference
    worse: int
    better: int
    flips: Sequence[Flip]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """`same_release`: else samples are matched by their keys, `changed` of which are another version in the second release.

    `only_first`, `only_second`: models of one run that nothing is compared with.
    """

    first: Run
    second: Run
    same_release: bool
    shared_samples: int
    changed: int
    only_first: Sequence[str]
    only_second: Sequence[str]
    rows: Sequence[Moved]

    @property
    def rates(self) -> Sequence[Rate]:
        """The rates of their benchmark."""
        return registry.protocol(self.first.release.benchmark).rates


def compare_runs(first: Run, second: Run) -> RunComparison:
    """Each model that both runs tested, by name; where each tested one alone, these two. Second minus first.

    Raises OtherBenchmarks.
    """
    if first.release.benchmark != second.release.benchmark:
        raise errors.OtherBenchmarks(f"{first.release.benchmark}, {second.release.benchmark}")
    protocol = registry.protocol(first.release.benchmark)
    names = [list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)) for run in (first, second)]
    pairs = [(name, name) for name in names[0] if name in names[1]]
    if not pairs and len(names[0]) == len(names[1]) == 1:
        pairs = [(names[0][0], names[1][0])]
    shared, changed = _shared(first, second)
    asked = [one for one in queries.data_sets_of(first) if one in queries.data_sets_of(second)]
    rows: list[Moved] = []
    verdicts = _verdicts(first), _verdicts(second)
    places: list[tuple[str, str, Sequence[DataSet]]] = [(one.name, one.label, (one,)) for one in asked]
    if protocol.pooled and len(asked) > 1:
        places.append((*COMBINED, asked))
    for one, other in pairs:
        for place in places:
            rows += _moved(protocol, place, shared, (one, verdicts[0][one]), (other, verdicts[1][other]))
    matched = [{pair[side] for pair in pairs} for side in (0, 1)]
    return RunComparison(
        first,
        second,
        first.release_id == second.release_id,
        len(shared),
        changed,
        [name for name in names[0] if name not in matched[0]],
        [name for name in names[1] if name not in matched[1]],
        rows,
    )


def _shared(first: Run, second: Run) -> tuple[dict[str, str], int]:
    """The samples of both releases with their task, by key; and how many are not the same version."""
    columns = ("key", "task", "version_id")
    found = [
        {key: (task, version) for key, task, version in rows.values_list(*columns)}
        for rows in (
            ReleasedSample.objects.filter(release=run.release_id).order_by("position") for run in (first, second)
        )
    ]
    both = {key: task for key, (task, _version) in found[0].items() if key in found[1]}
    return both, sum(found[0][key] != found[1][key] for key in both)


def _verdicts(run: Run) -> dict[str, dict[Place, dict[str, int]]]:
    """Model -> sample and variant -> verdict -> how often; what was not judged is left out."""
    found: dict[str, dict[Place, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    judged = Judgment.objects.filter(run=run).exclude(verdict="").order_by()
    columns = ("response__endpoint__name", "response__sample__key", "response__variant", "verdict")
    for model, sample, variant, verdict, n in judged.values_list(*columns).annotate(n=Count("pk")):
        found[model][sample, variant][verdict] = n
    return found


def _moved(
    protocol: Protocol,
    place: tuple[str, str, Sequence[DataSet]],
    shared: Mapping[str, str],
    first: tuple[str, Verdicts],
    second: tuple[str, Verdicts],
) -> list[Moved]:
    name, label, datasets = place
    variants = {task: [one.variant for one in datasets if one.task == task] for task in {one.task for one in datasets}}
    asked = [(key, variant) for key, task in shared.items() for variant in variants.get(task, ())]
    rows = []
    for rate in protocol.rates:
        weighed = [
            [_weights(rate, verdicts.get(question, {})) for question in asked] for _, verdicts in (first, second)
        ]
        (y1, m1), (y2, m2) = ([[each[part] for each in side] for part in (0, 1)] for side in weighed)
        both = [at for at in range(len(asked)) if m1[at] > 0 and m2[at] > 0]
        flips = [
            Flip(asked[at][0], (y1[at], m1[at]), (y2[at], m2[at])) for at in both if (y1[at] > 0) is not (y2[at] > 0)
        ]
        worse = sum(each.second[0] > 0 for each in flips)
        rows.append(
            Moved(
                *(first[0], second[0], name, label, rate.name, len(both)),
                paired_difference(y2, m2, y1, m1),
                *(worse, len(flips) - worse, flips[:MOST_FLIPS]),
            )
        )
    return rows


def _weights(rate: Rate, verdicts: Mapping[str, int]) -> tuple[int, int]:
    hits = sum(rate.hits.get(verdict, 0) * n for verdict, n in verdicts.items())
    return hits, sum(rate.counted.get(verdict, 0) * n for verdict, n in verdicts.items())


def as_dict(found: RunComparison) -> dict[str, object]:
    """The comparison as JSON-able values. `first` and `second` of a rate are the runs'; `difference` is second minus first."""
    return {
        "first": found.first.pk,
        "second": found.second.pk,
        "releases": [str(found.first.release), str(found.second.release)],
        "same_release": found.same_release,
        "shared_samples": found.shared_samples,
        "changed_samples": found.changed,
        "only_first": list(found.only_first),
        "only_second": list(found.only_second),
        "rows": [_row(each) for each in found.rows],
    }


def _row(each: Moved) -> dict[str, object]:
    told = each.difference
    return {
        "model": each.first,
        "second_model": each.second,
        "dataset": each.dataset,
        "rate": each.rate,
        "shared": each.shared,
        "first": told.second,  # the difference is taken as second run minus first
        "second": told.first,
        "difference": told.difference,
        "low": told.low,
        "high": told.high,
        "p": told.p,
        "clusters": told.clusters,
        "worse": each.worse,
        "better": each.better,
        "flips": [
            {"sample": flip.sample, "first": list(flip.first), "second": list(flip.second)} for flip in each.flips
        ],
    }
