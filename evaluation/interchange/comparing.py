"""Comparisons of two runs: changes by model with paired intervals, and the samples that flipped."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from django.utils.translation import gettext_noop

from evaluation import errors, registry
from evaluation.models import Run
from evaluation.numbers.comparing import ModelComparison, compare_pair
from evaluation.numbers.coverage import Coverage, coverage
from evaluation.numbers.frame import Frame
from evaluation.numbers.plans import Plan
from evaluation.numbers.rules import COMBINED
from evaluation.numbers.totals import UnitTotals, has_data, unit_totals
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.runs import queries
from evaluation.runs.comparability import JudgingDifference, comparability
from evaluation.runs.plan import plan_of
from evaluation.runs.verdicts import run_frame
from generation.models import ReleasedSample
from generation.samples import errata
from generation.samples.queries import visible_to
from review.rules.answers import Hidden, Shown, shown

MAX_FLIPS = 200  # listed per pair of models and data set


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample that failed in only one of two runs.

    `first`, `second`: in each run, the weights of the failed criteria and of all counted ones.
    """

    sample: str
    first: tuple[int, int]
    second: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ModelChange:
    """The change of a model (or between two models) on one data set, by one rate.

    `shared`: the number of samples that both runs judged, on which the rates are compared.
    `worse`, `better`: how many of them failed in the second run only, and in the first run only.
    `flips`: these samples, up to a limit.
    """

    first: Annotated[str, Shown("model")]
    second: Annotated[str, Shown("second_model")]
    dataset: str
    label: Hidden[str]
    rate: str
    shared: int
    difference: Hidden[ModelComparison]
    worse: int
    better: int
    flips: Sequence[Flip]

    @property
    @Shown("first")
    def first_rate(self) -> float | None:
        return self.difference.rates[1]  # `compare_pair` was given the second run first

    @property
    @Shown("second")
    def second_rate(self) -> float | None:
        return self.difference.rates[0]

    @property
    @Shown("difference")
    def value(self) -> float | None:
        return self.difference.difference

    @property
    @shown
    def low(self) -> float | None:
        return self.difference.low

    @property
    @shown
    def high(self) -> float | None:
        return self.difference.high

    @property
    @shown
    def p(self) -> float | None:
        return self.difference.p

    @property
    @shown
    def clusters(self) -> int:
        return self.difference.clusters


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The comparison of two runs.

    `changed`: samples with another version in the second release. Samples of different releases
    are matched by key.
    `only_first`, `only_second`: models of one run that are compared with no other.
    `differs`: how the second run was made, judged and counted otherwise than the first.
    `first_coverage`, `second_coverage`: of each model, on the data sets of both runs.
    """

    first: Hidden[Run]
    second: Hidden[Run]
    same_release: bool
    shared_samples: int
    changed: Annotated[int, Shown("changed_samples")]
    only_first: Sequence[str]
    only_second: Sequence[str]
    rows: Sequence[ModelChange]
    differs: Sequence[JudgingDifference]
    first_coverage: Sequence[Coverage]
    second_coverage: Sequence[Coverage]

    @property
    @shown
    def releases(self) -> Sequence[str]:
        return [str(self.first.release), str(self.second.release)]

    @property
    def incomplete(self) -> list[tuple[int, Coverage]]:
        """The models that lack verdicts, each with the number of its run."""
        both = [(self.first, self.first_coverage), (self.second, self.second_coverage)]
        return [(run.pk, of_model) for run, covered in both for of_model in covered if not of_model.complete]

    @property
    def rates(self) -> Sequence[Rate]:
        """The rates of the benchmark of both runs."""
        return registry.protocol(self.first.release.benchmark).rates

    @property
    @Shown("first")
    def first_run(self) -> int:
        return self.first.pk

    @property
    @Shown("second")
    def second_run(self) -> int:
        return self.second.pk


def compare_runs(first: Run, second: Run, reader: object) -> RunComparison:
    """Compare two runs by each model that both tested; differences are second minus first.

    All samples are counted; of those that flipped, those that `reader` may see are listed.

    If they have no model in common and each tested just one, these two are compared.
    Raises OtherBenchmarks, SameRun.
    """
    if first.pk == second.pk:
        raise errors.SameRun
    if first.release.benchmark != second.release.benchmark:
        raise errors.OtherBenchmarks(f"{first.release.benchmark}, {second.release.benchmark}")
    protocol = registry.protocol(first.release.benchmark)
    names = [list(run.tested.order_by("pk").values_list("endpoint__name", flat=True)) for run in (first, second)]
    pairs = [(name, name) for name in names[0] if name in names[1]]
    if not pairs and len(names[0]) == len(names[1]) == 1:
        pairs = [(names[0][0], names[1][0])]
    shared, changed = _shared_samples(first, second)
    released = ReleasedSample.objects.filter(release__in=(first.release_id, second.release_id))
    hidden = set(released.values_list("key", flat=True))
    hidden -= set(visible_to(reader, released).values_list("key", flat=True))
    datasets = [dataset for dataset in queries.data_sets_of(first) if dataset in queries.data_sets_of(second)]
    sides = _Side(first, protocol, datasets), _Side(second, protocol, datasets)
    minimum = max(side.plan.minimum for side in sides)
    rows: list[ModelChange] = []
    for rate in protocol.rates:
        if all(has_data(side.frame, rate) for side in sides):
            rows += _model_changes(rate, datasets, protocol, shared, hidden, sides, pairs, minimum)
    order = [name for name, _label, _indexes in _groups(datasets, protocol)]
    rows.sort(key=lambda row: (pairs.index((row.first, row.second)), order.index(row.dataset)))
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
        tuple(sides[1].comparability.differences(sides[0].comparability)),
        *(coverage(side.frame) for side in sides),
    )


def _shared_samples(first: Run, second: Run) -> tuple[dict[str, str], int]:
    """The samples in both releases, as key -> task, and how many of them differ in version."""
    in_first, in_second = _samples(first), _samples(second)
    shared = {key: task for key, (task, _version) in in_first.items() if key in in_second}
    return shared, sum(in_first[key] != in_second[key] for key in shared)


def _samples(run: Run) -> dict[str, tuple[str, int]]:
    """Key of each sample of the release that counts, in its order -> task and version."""
    rows = errata.standing(run.release).order_by("position").values_list("key", "task", "version_id")
    return {key: (task, version) for key, task, version in rows}


class _Side:
    """One of the two runs: its verdicts on the shared data sets, counted by its own plan."""

    def __init__(self, run: Run, protocol: Protocol, datasets: Sequence[DataSet]) -> None:
        endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
        self.plan: Plan = plan_of(run, protocol, endpoints)
        self.frame: Frame = run_frame(run, datasets, self.plan.outcomes).current
        withdrawn = errata.withdrawn_by_release([run.release_id]).get(run.release_id, 0)
        self.comparability = comparability(run, protocol, withdrawn)
        self.keys = dict(ReleasedSample.objects.filter(release=run.release_id).order_by().values_list("pk", "key"))

    def places(self, totals: UnitTotals) -> dict[tuple[str, int], int]:
        """(key of a sample, place of a data set) -> place of the unit, of those of the arm."""
        units = zip(totals.units.sample.tolist(), totals.units.dataset.tolist(), totals.in_arm.tolist(), strict=True)
        return {(self.keys[sample], data): place for place, (sample, data, in_arm) in enumerate(units) if in_arm}


def _groups(datasets: Sequence[DataSet], protocol: Protocol) -> list[tuple[str, str, list[int]]]:
    """(name, label, indexes) of each data set, and of all of them pooled."""
    groups = [(dataset.name, dataset.label, [index]) for index, dataset in enumerate(datasets)]
    if protocol.pools(datasets):
        groups.append((COMBINED, gettext_noop("Combined"), list(range(len(datasets)))))
    return groups


def _model_changes(
    rate: Rate,
    datasets: Sequence[DataSet],
    protocol: Protocol,
    shared: Mapping[str, str],
    hidden: Container[str],
    sides: tuple[_Side, _Side],
    pairs: Sequence[tuple[str, str]],
    minimum: int,
) -> list[ModelChange]:
    totals = [unit_totals(side.frame, [rate])[rate.name] for side in sides]
    first, second = (side.places(of_side) for side, of_side in zip(sides, totals, strict=True))
    rows = []
    for name, label, indexes in _groups(datasets, protocol):
        shared_units = [
            (key, unit, second[key, dataset])
            for (key, dataset), unit in first.items()
            if dataset in indexes and key in shared and (key, dataset) in second
        ]
        first_units = np.array([unit for _key, unit, _other in shared_units], dtype=np.int64)
        second_units = np.array([unit for _key, _other, unit in shared_units], dtype=np.int64)
        clusters = totals[0].units.cluster[first_units]
        for pair in pairs:
            before, after = totals[0].of(pair[0], first_units), totals[1].of(pair[1], second_units)
            names = {"dataset": name, "first": pair[1], "second": pair[0]}
            difference = compare_pair(rate, after, before, clusters, names, minimum)
            in_both = before.in_scope & after.in_scope
            flipped = np.flatnonzero(in_both & ((before.hits > 0) != (after.hits > 0))).tolist()
            worse = sum(int(after.hits[index] > 0) for index in flipped)
            listed = [index for index in flipped if shared_units[index][0] not in hidden]
            flips = []
            for index in listed[:MAX_FLIPS]:
                of_first = int(before.hits[index]), int(before.counted[index])
                of_second = int(after.hits[index]), int(after.counted[index])
                flips.append(Flip(shared_units[index][0], of_first, of_second))
            fields = (*pair, name, label, rate.name, int(in_both.sum()), difference)
            rows.append(ModelChange(*fields, worse, len(flipped) - worse, flips))
    return rows
