"""Comparisons of two runs: changes by model with paired intervals, and the samples that flipped."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

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
from review.rules.shown_fields import Hidden, Shown, shown

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
        lacking = []
        for run, covered in ((self.first, self.first_coverage), (self.second, self.second_coverage)):
            for of_model in covered:
                if not of_model.complete:
                    lacking.append((run.pk, of_model))
        return lacking

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
    in_second = queries.data_sets_of(second)
    datasets = [dataset for dataset in queries.data_sets_of(first) if dataset in in_second]
    before, after = _Side(first, protocol, datasets), _Side(second, protocol, datasets)
    pairs = [(name, name) for name in before.models if name in after.models]
    only_first = [name for name in before.models if name not in after.models]
    only_second = [name for name in after.models if name not in before.models]
    if not pairs and len(only_first) == len(only_second) == 1:
        pairs = [(only_first.pop(), only_second.pop())]
    shared, changed = _shared_samples(first, second)
    released = ReleasedSample.objects.filter(release__in=(first.release_id, second.release_id))
    # What one of two releases shows, the other may hold out.
    visible = visible_to(reader, released).values("pk")
    hidden = set(released.exclude(pk__in=visible).values_list("key", flat=True))
    minimum = max(before.plan.minimum, after.plan.minimum)
    rows: list[ModelChange] = []
    for rate in protocol.rates:
        if has_data(before.frame, rate) and has_data(after.frame, rate):
            rows += _model_changes(rate, datasets, protocol, shared, hidden, before, after, pairs, minimum)
    order = list(dict(protocol.columns(datasets)))
    rows.sort(key=lambda row: (pairs.index((row.first, row.second)), order.index(row.dataset)))
    return RunComparison(
        first,
        second,
        first.release_id == second.release_id,
        len(shared),
        changed,
        only_first,
        only_second,
        rows,
        tuple(after.comparability.differences(before.comparability)),
        coverage(before.frame),
        coverage(after.frame),
    )


def _shared_samples(first: Run, second: Run) -> tuple[set[str], int]:
    """The keys of samples in both releases, and how many of them differ in task or version."""
    in_first, in_second = _samples(first), _samples(second)
    shared, changed = set(), 0
    for key, sample in in_first.items():
        if key in in_second:
            shared.add(key)
            changed += sample != in_second[key]
    return shared, changed


def _samples(run: Run) -> dict[str, tuple[str, int]]:
    """Key of each sample of the release that counts -> task and version."""
    samples = {}
    for key, task, version in (
        errata.standing(run.release).order_by("position").values_list("key", "task", "version_id")
    ):
        samples[key] = (task, version)
    return samples


class _Side:
    """One of the two runs: its verdicts on the shared data sets, counted by its own plan."""

    def __init__(self, run: Run, protocol: Protocol, datasets: Sequence[DataSet]) -> None:
        self.models = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
        self.plan: Plan = plan_of(run, protocol, self.models)
        self.frame: Frame = run_frame(run, datasets, self.plan.outcomes).current
        withdrawn = errata.withdrawn_by_release([run.release_id]).get(run.release_id, 0)
        self.comparability = comparability(run, protocol, withdrawn)
        self.keys = dict(ReleasedSample.objects.filter(release=run.release_id).order_by().values_list("pk", "key"))

    def places(self, totals: UnitTotals) -> dict[tuple[str, int], int]:
        """(key of a sample, place of a data set) -> place of the unit, of those of the arm."""
        samples, datasets = totals.units["sample"].tolist(), totals.units["dataset"].tolist()
        places = {}
        for place in np.flatnonzero(totals.in_arm).tolist():
            places[self.keys[samples[place]], datasets[place]] = place
        return places


def _groups(datasets: Sequence[DataSet], protocol: Protocol) -> list[tuple[str, str, list[int]]]:
    """(name, label, indexes) of each data set, and of all of them pooled."""
    groups = []
    for index, (name, label) in enumerate(protocol.columns(datasets)):
        indexes = [index]
        if name == COMBINED:
            indexes = list(range(len(datasets)))
        groups.append((name, label, indexes))
    return groups


def _model_changes(
    rate: Rate,
    datasets: Sequence[DataSet],
    protocol: Protocol,
    shared: Container[str],
    hidden: Container[str],
    first: _Side,
    second: _Side,
    pairs: Sequence[tuple[str, str]],
    minimum: int,
) -> list[ModelChange]:
    of_first, of_second = unit_totals(first.frame, [rate])[rate.name], unit_totals(second.frame, [rate])[rate.name]
    places_in_first, places_in_second = first.places(of_first), second.places(of_second)
    rows = []
    for name, label, indexes in _groups(datasets, protocol):
        keys: list[str] = []
        units: list[tuple[int, int]] = []
        for (key, dataset), unit in places_in_first.items():
            if dataset in indexes and key in shared and (key, dataset) in places_in_second:
                keys.append(key)
                units.append((unit, places_in_second[key, dataset]))
        first_units, second_units = np.array(units, dtype=np.int64).reshape(-1, 2).T
        clusters = of_first.units["cluster"][first_units]
        for pair in pairs:
            before, after = of_first.of(pair[0], first_units), of_second.of(pair[1], second_units)
            names = {"dataset": name, "first": pair[1], "second": pair[0]}
            difference = compare_pair(rate, after, before, clusters, names, minimum)
            in_both = (before["scope"] > 0) & (after["scope"] > 0)
            flipped = np.flatnonzero(in_both & ((before["hits"] > 0) != (after["hits"] > 0)))
            worse = int((after["hits"][flipped] > 0).sum())
            flips: list[Flip] = []
            for index in flipped.tolist():
                if keys[index] not in hidden and len(flips) < MAX_FLIPS:
                    then = int(before["hits"][index]), int(before["counted"][index])
                    now = int(after["hits"][index]), int(after["counted"][index])
                    flips.append(Flip(keys[index], then, now))
            fields = (*pair, name, label, rate.name, int(in_both.sum()), difference)
            rows.append(ModelChange(*fields, worse, len(flipped) - worse, flips))
    return rows
