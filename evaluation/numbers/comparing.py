"""Pairwise comparisons of models on shared samples, by data set and cell of a breakdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from evaluation.metrics import Sums
from evaluation.numbers.counting import RateRow
from evaluation.numbers.plans import EXPLORATORY, PLANNED, Pair
from evaluation.numbers.rates import Rate, of_rate
from evaluation.numbers.scores import Floats, Ints
from evaluation.numbers.totals import UnitGroup, UnitTotals
from evaluation.statistics.comparisons import exact_mcnemar, paired_differences, score_difference
from evaluation.statistics.multiplicity import benjamini_hochberg, holm_by_family, ranks
from review.rules.shown_fields import Hidden, shown

Row = TypeVar("Row", bound=Any)  # a dataclass with p and p_adjusted
CELL_PAIRS = 45  # the pairs of ten models; with more, breakdowns are not compared
CELLS_AT_ONCE = 50_000  # units of pairs compared together, which fit into a processor's cache


@dataclass(frozen=True)  # no slots: they pickle slowly
class ModelComparison:
    """The difference of two models' rates, first minus second, on samples in scope for both.

    A sample is in scope if it has a verdict that the rate does not exclude. A true negative is in
    the scope of F1, though F1 does not count it: without it, the models' rates would be others.
    `clusters`: of these samples.
    `p_adjusted`: by Holm, over all planned comparisons or over the pairs of a data set; in a
    breakdown, by Benjamini-Hochberg over all its cells.
    `role`: what it is to the plan of the run, one of `plans.ROLES`.
    `only_first`, `only_second`, `p_samples`: samples that one model alone failed, with McNemar's
    exact p; None where samples are not independent.
    """

    dataset: str
    rate: str
    first: str
    second: str
    rates: Hidden[tuple[float | None, float | None]]
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    clusters: int
    n: int
    odds_ratio: float | None = None
    cohens_h: float | None = None
    only_first: int | None = None
    only_second: int | None = None
    p_samples: float | None = None
    value: Hidden[str] = ""  # of the breakdown
    role: str = EXPLORATORY

    @property
    def too_few(self) -> bool:
        """Whether there are too few samples for an interval."""
        return bool(self.clusters) and self.low is None

    @property
    @shown
    def first_rate(self) -> float | None:
        return self.rates[0]

    @property
    @shown
    def second_rate(self) -> float | None:
        return self.rates[1]


def compare(
    totals: UnitTotals, pairs: Sequence[tuple[str, str]], *, minimum: int, role: Callable[[str, str], str]
) -> list[ModelComparison]:
    """Compare these pairs by a rate on every data set, with p adjusted by Holm.

    Planned comparisons are one family over all data sets, so that a plan errs in 5 % of studies;
    others are one on each data set. `role`: of a rate on a data set, as `Plan.role`.
    """
    compared, families = list[ModelComparison](), list[str]()
    for group in totals.groups():
        role_of_group = role(totals.rate.name, group.name)
        of_group = _compare_group(totals, pairs, group, minimum, role=role_of_group)
        compared += of_group
        families += [family_of(role_of_group, group.name)] * len(of_group)
    return with_holm(compared, families)


def _compare_group(
    totals: UnitTotals, pairs: Sequence[Pair], group: UnitGroup, minimum: int, **labels: str
) -> list[ModelComparison]:
    """Compare these pairs on one data set, or on all pooled."""
    places, names = [], []
    for first, second in pairs:
        places.append((totals.models.index(first), totals.models.index(second)))
        names.append({**labels, "dataset": group.name, "first": first, "second": second})
    return compare_pairs(totals.rate, totals.sums[:, group.units], places, group.clusters, names, minimum)


def compare_cells(
    totals: Mapping[str, UnitTotals], pairs: Sequence[tuple[str, str]], *, minimum: int
) -> list[ModelComparison]:
    """Compare these pairs for each value of a breakdown; none for more than `CELL_PAIRS` pairs.

    `totals`: of a rate, by value. p is adjusted by Benjamini-Hochberg over all comparisons. Where
    data sets are pooled, only the pooled ones are compared.
    """
    if len(pairs) > CELL_PAIRS:
        return []
    comparisons = list[ModelComparison]()
    for value, of_value in totals.items():
        groups = of_value.groups()
        if of_value.pooled:
            groups = groups[-1:]
        for group in groups:
            compared = _compare_group(of_value, pairs, group, minimum, value=value)
            comparisons += [comparison for comparison in compared if comparison.clusters]
    return with_adjusted(comparisons, benjamini_hochberg)


def family_of(role: str, dataset: str) -> str:
    """The family of a comparison on a data set: one of all planned, else the data set's."""
    if role == PLANNED:
        return ""
    return dataset


def with_holm(rows: Sequence[Row], families: Sequence[str]) -> list[Row]:
    """The rows, dataclasses with p, with `p_adjusted` by Holm within the family of each."""
    adjusted = holm_by_family(families, [row.p for row in rows])
    return [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]


def with_adjusted(rows: Sequence[Row], adjust: Callable[[Sequence[float]], Sequence[float]]) -> list[Row]:
    """The rows, dataclasses with p, with `p_adjusted` by a method over all that have p."""
    tested = [row for row in rows if row.p is not None]
    adjusted = iter(adjust([row.p for row in tested]))
    result = []
    for row in rows:
        if row.p is None:
            result.append(row)
        else:
            result.append(replace(row, p_adjusted=next(adjusted)))
    return result


def compare_pair(
    rate: Rate, first: Sums, second: Sums, clusters: Ints | None, labels: Mapping[str, Any], minimum: int
) -> ModelComparison:
    """That of `compare_pairs`, of one pair, from the sums of each side on the same units."""
    [compared] = compare_pairs(rate, np.stack([first, second]), [(0, 1)], clusters, [labels], minimum)
    return compared


def compare_pairs(
    rate: Rate,
    sums: Sums,
    pairs: Sequence[tuple[int, int]],
    clusters: Ints | None,
    labels: Sequence[Mapping[str, Any]],
    minimum: int,
) -> list[ModelComparison]:
    """Compare pairs of models by their sums on the same units, each over those in scope for both.

    Args:
        sums: (models, units).
        pairs: the places of two models each.
        clusters: the cluster of each unit; None if each is its own.
        labels: data set and the names of both sides, of each pair.
    """
    index, size = np.arange(sums.shape[1]), sums.shape[1]
    if clusters is not None:
        ids, index = np.unique(clusters, return_inverse=True)
        size = len(ids)
    at_once = max(1, CELLS_AT_ONCE // max(1, sums.shape[1]))
    compared = list[ModelComparison]()
    for start in range(0, len(pairs), at_once):
        part = slice(start, start + at_once)
        compared += _compare_pairs(rate, sums, pairs[part], (index, size), labels[part], minimum)
    return compared


def _compare_pairs(
    rate: Rate,
    sums: Sums,
    pairs: Sequence[tuple[int, int]],
    clusters: tuple[Ints, int],
    labels: Sequence[Mapping[str, Any]],
    minimum: int,
) -> list[ModelComparison]:
    """`compare_pairs`, of some pairs at once. `clusters`: that of each unit, and how many."""
    index, size = clusters
    first, second = np.array(pairs).T
    in_scope, failed = sums["scope"] > 0, sums["hits"] > 0
    shared = in_scope[first] & in_scope[second]
    cells = (np.arange(len(pairs))[:, None] * size + index)[shared]
    columns = list[Floats]()
    for side in (first, second):
        for name in ("hits", "counted"):
            by_cluster = np.bincount(cells, sums[name][side][shared], len(pairs) * size)
            columns.append(by_cluster.astype(np.float64, copy=False).reshape(len(pairs), size))
    if rate.score:
        limits = rate.score.limits
        differences = [score_difference(*row, limits=limits, minimum=minimum) for row in zip(*columns, strict=True)]
    else:
        differences = paired_differences(*columns, minimum=minimum)
    units = shared.sum(axis=1).tolist()
    used = np.count_nonzero(np.bincount(cells, None, len(pairs) * size).reshape(len(pairs), size), axis=1).tolist()
    number = np.where(shared, sums["number"][first] + sums["number"][second], 0.0).sum(axis=1).tolist()
    only_first = np.count_nonzero(shared & failed[first] & ~failed[second], axis=1).tolist()
    only_second = np.count_nonzero(shared & failed[second] & ~failed[first], axis=1).tolist()
    compared = []
    for row, difference in enumerate(differences):
        alone: dict[str, Any] = {}
        if rate.is_proportion and 0 < units[row] == used[row]:
            found = exact_mcnemar(only_first[row], only_second[row])
            alone = {"only_first": found.only_first, "only_second": found.only_second, "p_samples": found.p}
        compared.append(
            ModelComparison(
                **labels[row],
                **alone,
                rate=rate.name,
                n=round(number[row]),
                clusters=used[row],
                rates=(difference.first, difference.second),
                difference=difference.difference,
                low=difference.low,
                high=difference.high,
                p=difference.p,
                p_adjusted=None,
                odds_ratio=difference.odds_ratio,
                cohens_h=difference.cohens_h,
            )
        )
    return compared


@dataclass(frozen=True, slots=True)
class Ranking:
    """A model's place on a data set (1: the best), and the places that the data do not rule out."""

    dataset: str
    rate: str
    endpoint: str
    place: int
    best: int
    worst: int


def rankings(
    rate: Rate, rows: Sequence[RateRow], comparisons: Sequence[ModelComparison], *, lower_is_better: bool
) -> list[Ranking]:
    """Rank the models on every data set. Models whose rate has no interval are not ranked."""
    sign = 1
    if not lower_is_better:
        sign = -1
    values: dict[str, dict[str, float]] = {}
    pairs: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for row in rows:
        of_dataset = values.setdefault(row.dataset, {})
        pairs.setdefault(row.dataset, {})
        measured = row.rates[rate.name]
        if measured.value is not None and measured.interval is not None:
            of_dataset[row.endpoint] = sign * measured.value
    for each in of_rate(comparisons, rate):
        if not {each.first, each.second} <= values.get(each.dataset, {}).keys():
            continue
        if each.difference is not None and each.p_adjusted is not None:
            pairs[each.dataset][each.first, each.second] = (sign * each.difference, each.p_adjusted)
    result = []
    for dataset, of_dataset in values.items():
        found = ranks(of_dataset, pairs[dataset])
        for name in sorted(found, key=lambda name: (found[name].place, name)):
            rank = found[name]
            result.append(Ranking(dataset, rate.name, name, rank.place, rank.best, rank.worst))
    return result
