"""Pairwise comparisons of models on shared samples, by data set and cell of a breakdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evaluation.metrics import Totals
from evaluation.numbers.counting import RateRow
from evaluation.numbers.plans import EXPLORATORY, PLANNED
from evaluation.numbers.rates import Rate
from evaluation.numbers.scores import Ints
from evaluation.numbers.totals import UnitGroup, UnitTotals, weighted_sums
from evaluation.statistics.comparisons import mcnemar, paired_difference, score_difference
from evaluation.statistics.multiplicity import benjamini_hochberg, holm_by_family, ranks
from review.rules.answers import Hidden, shown

CELL_PAIRS = 45  # the pairs of ten models; with more, breakdowns are not compared


@dataclass(frozen=True, slots=True)
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
    totals: UnitTotals,
    pairs: Sequence[tuple[str, str]],
    *,
    pooled: bool,
    minimum: int,
    role: Callable[[str, str], str],
) -> list[ModelComparison]:
    """Compare these pairs by a rate on every data set, with p adjusted by Holm.

    Planned comparisons are one family over all data sets, so that a plan errs in 5 % of studies;
    others are one on each data set. `role`: of a rate on a data set, as `Plan.role`.
    """
    compared = list[ModelComparison]()
    for group in totals.groups(pooled=pooled):
        compared += _compare_group(totals, pairs, group, minimum, role=role(totals.rate.name, group.name))
    families = ["" if each.role == PLANNED else each.dataset for each in compared]
    adjusted = holm_by_family(families, [each.p for each in compared])
    return [replace(each, p_adjusted=p) for each, p in zip(compared, adjusted, strict=True)]


def _compare_group(
    totals: UnitTotals, pairs: Sequence[tuple[str, str]], group: UnitGroup, minimum: int, **labels: str
) -> list[ModelComparison]:
    """Compare these pairs on one data set, or on all pooled."""
    of_model = {model: totals.of(model, group.units) for model in totals.models}
    compared = []
    for first, second in pairs:
        names = {**labels, "dataset": group.name, "first": first, "second": second}
        compared.append(compare_pair(totals.rate, of_model[first], of_model[second], group.clusters, names, minimum))
    return compared


def compare_cells(
    totals: Mapping[str, UnitTotals], pairs: Sequence[tuple[str, str]], *, pooled: bool, minimum: int
) -> list[ModelComparison]:
    """Compare these pairs for each value of a breakdown; none for more than `CELL_PAIRS` pairs.

    `totals`: of a rate, by value. p is adjusted by Benjamini-Hochberg over all comparisons. Where
    data sets are pooled, only the pooled ones are compared.
    """
    if len(pairs) > CELL_PAIRS:
        return []
    comparisons = list[ModelComparison]()
    for value, of_value in totals.items():
        groups = of_value.groups(pooled=pooled)
        for group in groups[-1:] if pooled else groups:
            compared = _compare_group(of_value, pairs, group, minimum, value=value)
            comparisons += [comparison for comparison in compared if comparison.clusters]
    adjusted = iter(benjamini_hochberg([comparison.p for comparison in comparisons if comparison.p is not None]))
    return [
        comparison if comparison.p is None else replace(comparison, p_adjusted=next(adjusted))
        for comparison in comparisons
    ]


def compare_pair(
    rate: Rate, first: Totals, second: Totals, clusters: Ints | None, labels: Mapping[str, str], minimum: int
) -> ModelComparison:
    """Compare two sets of totals on the same units, over those in the scope of the rate for both.

    `clusters`: the cluster of each unit; None if each is its own. `labels`: data set and the names
    of both sides.
    """
    shared = first.in_scope & second.in_scope
    if not shared.all():
        first, second = (side.map(lambda values: values[shared]) for side in (first, second))
        if clusters is None:
            clusters = None
        else:
            clusters = clusters[shared]
    failures = (first.hits > 0, second.hits > 0)
    if clusters is not None:
        cluster_ids, clusters = np.unique(clusters, return_inverse=True)
        if len(cluster_ids) < len(clusters):
            by_cluster = partial(weighted_sums, clusters, count=len(cluster_ids))
            first, second = (side.map(by_cluster) for side in (first, second))
    n = first.total(first.number) + second.total(second.number)
    fields: dict[str, Any] = {**labels, "rate": rate.name, "n": n, "clusters": len(first.hits)}
    if rate.score:
        difference = score_difference(
            first.hits, first.counted, second.hits, second.counted, limits=rate.score.limits, minimum=minimum
        )
    else:
        difference = paired_difference(
            first.hits, first.counted, second.hits, second.counted, minimum=minimum, either=True
        )
    are_independent = 0 < len(failures[0]) == len(first.hits)
    discordance = None
    if are_independent and rate.is_proportion:
        discordance = mcnemar(*failures)
    return ModelComparison(
        **fields,
        rates=(difference.first, difference.second),
        difference=difference.difference,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        p_adjusted=None,
        odds_ratio=difference.odds_ratio,
        cohens_h=difference.cohens_h,
        only_first=discordance.only_first if discordance else None,
        only_second=discordance.only_second if discordance else None,
        p_samples=discordance.p if discordance else None,
    )


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
    result, sign = list[Ranking](), 1 if lower_is_better else -1
    for dataset in dict.fromkeys(row.dataset for row in rows):
        measured = {row.endpoint: row.rates[rate.name] for row in rows if row.dataset == dataset}
        values = {
            name: sign * each.value
            for name, each in measured.items()
            if each.value is not None and each.interval is not None
        }
        pairs = {
            (each.first, each.second): (sign * each.difference, each.p_adjusted)
            for each in comparisons
            if (each.dataset, each.rate) == (dataset, rate.name) and {each.first, each.second} <= values.keys()
            if each.difference is not None and each.p_adjusted is not None
        }
        by_place = sorted(ranks(values, pairs).items(), key=lambda item: (item[1].place, item[0]))
        result += [Ranking(dataset, rate.name, name, rank.place, rank.best, rank.worst) for name, rank in by_place]
    return result
