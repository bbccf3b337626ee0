"""Pairwise comparisons of models on shared samples, by data set and cell of a breakdown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import MeasuredRate, Totals, clip_score
from evaluation.protocol import Rate
from evaluation.reports.numbers.contingency import ContingencyTable, contingency_for, depends_on_verdicts_alone
from evaluation.reports.numbers.counting import (
    COMBINED,
    Row,
    UnitGroup,
    subtable,
    unit_groups,
    unit_totals,
    weighted_sums,
)
from evaluation.reports.numbers.verdict_table import Ints, VerdictTable
from evaluation.statistics.bootstrap import bootstrap_patterns, cluster_bootstrap, collapse_rows
from evaluation.statistics.clusters import Ratio, ratio
from evaluation.statistics.comparisons import (
    ClusterSizes,
    McNemar,
    PairedDifference,
    cluster_sizes,
    difference_of_ratios,
    mcnemar,
    paired_difference,
)
from evaluation.statistics.multiplicity import Rank, benjamini_hochberg, holm, ranks

CELL_PAIRS = 45  # the pairs of ten models; with more, breakdowns are not compared


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of two models' rates, first minus second, on samples with verdicts for both.

    `p_adjusted`: by Holm over the pairs of a data set; in a breakdown, by Benjamini-Hochberg over
    all its cells. `only_first`, `only_second`, `p_samples`: samples that one model alone failed,
    with McNemar's exact p; None where samples are not independent.
    """

    dataset: str
    rate: str
    first: str
    second: str
    rates: tuple[float | None, float | None]
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
    value: str = ""  # of the breakdown
    planned: bool = True


def compare(
    table: VerdictTable,
    rate: Rate,
    pairs: Sequence[tuple[str, str]],
    *,
    pooled: bool,
    minimum: int,
    planned: bool = True,
) -> list[Comparison]:
    """Compare these pairs on every data set, with p adjusted by Holm within each."""
    comparisons = []
    for group in _compare_groups(table, rate, pairs, pooled=pooled, minimum=minimum):
        comparisons += _with_adjusted_p([replace(comparison, planned=planned) for comparison in group], holm)
    return comparisons


def _compare_groups(
    table: VerdictTable,
    rate: Rate,
    pairs: Sequence[tuple[str, str]],
    *,
    pooled: bool,
    minimum: int,
    rows: Ints | None = None,
) -> Iterator[list[Comparison]]:
    """The comparisons on each data set, then on all pooled. `rows`: only these judgments."""
    contingency = contingency_for(table, [rate], pooled=pooled)
    if contingency is not None and depends_on_verdicts_alone(rate):
        yield from _compare_by_counts(contingency, rate, pairs, pooled=pooled, minimum=minimum, rows=rows)
        return
    part = subtable(table, rows)
    units = unit_totals(part, rate)
    for group in unit_groups(part, rate, pooled=pooled):
        yield _compare_pairs(table, rate, group, units, pairs, minimum)


def _compare_by_counts(
    contingency: ContingencyTable,
    rate: Rate,
    pairs: Sequence[tuple[str, str]],
    *,
    pooled: bool,
    minimum: int,
    rows: Ints | None,
) -> Iterator[list[Comparison]]:
    table, size = contingency.table, contingency.no_verdict + 1
    first_verdicts, second_verdicts = (indices.ravel() for indices in np.indices((size, size)))
    models = [(table.endpoints.index(first), table.endpoints.index(second)) for first, second in pairs]
    counts = [pair_count[:, int(rate.arm == "control")] for pair_count in contingency.pair_counts(models, rows)]
    for at, name in [*enumerate(table.datasets), *([(-1, COMBINED)] if pooled else [])]:
        comparisons = []
        for pair, pair_count in zip(pairs, counts, strict=True):
            frequencies = (pair_count.sum(axis=0) if at < 0 else pair_count[at]).ravel()
            first_totals, second_totals = (
                contingency.totals(rate, verdicts, frequencies) for verdicts in (first_verdicts, second_verdicts)
            )
            labels = {"dataset": name, "first": pair[0], "second": pair[1]}
            comparisons.append(compare_pair(rate, first_totals, second_totals, None, labels, minimum))
        yield comparisons


def compare_cells(
    table: VerdictTable,
    rate: Rate,
    pairs: Sequence[tuple[str, str]],
    values: Mapping[str, Ints],
    *,
    pooled: bool,
    minimum: int,
) -> list[Comparison]:
    """Compare these pairs for each value of a breakdown; none for more than `CELL_PAIRS` pairs.

    `values`: value -> its judgments. p is adjusted by Benjamini-Hochberg over all comparisons.
    """
    if len(pairs) > CELL_PAIRS:
        return []
    comparisons = []
    for value, rows in values.items():
        by_group = list(_compare_groups(table, rate, pairs, pooled=pooled, minimum=minimum, rows=rows))
        for group in by_group[-1:] if pooled else by_group:
            comparisons += [
                replace(comparison, value=value, planned=False) for comparison in group if comparison.clusters
            ]
    return _with_adjusted_p(comparisons, benjamini_hochberg)


def _with_adjusted_p(comparisons: Sequence[Comparison], adjust: Any) -> list[Comparison]:
    with_p = [comparison.p for comparison in comparisons if comparison.p is not None]
    adjusted = iter(adjust(with_p))
    return [
        comparison if comparison.p is None else replace(comparison, p_adjusted=next(adjusted))
        for comparison in comparisons
    ]


def _compare_pairs(
    table: VerdictTable, rate: Rate, group: UnitGroup, units: Totals, pairs: Sequence[tuple[str, str]], minimum: int
) -> list[Comparison]:
    totals = {
        name: _model_totals(units, table.endpoints.index(name), group.units)
        for name in {name for pair in pairs for name in pair}
    }
    labels = [{"dataset": group.name, "first": first, "second": second} for first, second in pairs]
    counted = [model_totals.counted > 0 for model_totals in totals.values()]
    if rate.interval == "bootstrap" or not all(np.array_equal(units_counted, counted[0]) for units_counted in counted):
        return [
            compare_pair(rate, totals[label["first"]], totals[label["second"]], group.clusters, label, minimum)
            for label in labels
        ]
    models = _models_on_common_units(totals, counted[0], group.clusters) if pairs else {}
    sizes: dict[tuple[int, int], ClusterSizes] = {}
    return [
        _compare_models(rate, models[label["first"]], models[label["second"]], label, minimum, sizes)
        for label in labels
    ]


@dataclass(frozen=True, slots=True)
class _Model:
    """One model on units that all models have, computed once for all pairs that it is in.

    `number`: the criteria or samples counted. `size_group`: equal for models with the same sizes of
    clusters. `failed`: whether each unit failed, None where units share clusters.
    """

    number: int
    clusters: int
    ratio: Ratio | None
    size_group: int
    failed: NDArray[np.bool_] | None


def _models_on_common_units(
    totals: Mapping[str, Totals], is_counted: NDArray[np.bool_], clusters: Ints | None
) -> dict[str, _Model]:
    if not is_counted.all():
        totals = {name: model_totals.map(lambda values: values[is_counted]) for name, model_totals in totals.items()}
        clusters = None if clusters is None else clusters[is_counted]
    failed: dict[str, NDArray[np.bool_]] = {name: model_totals.hits > 0 for name, model_totals in totals.items()}
    clusters, count = _shared_clusters(clusters)
    if clusters is not None:
        failed = {}
        by_cluster = partial(weighted_sums, clusters, count=count)
        totals = {name: model_totals.map(by_cluster) for name, model_totals in totals.items()}
    models: dict[str, _Model] = {}
    size_groups: list[tuple[Ints, Ratio | None]] = []
    for name, model_totals in totals.items():
        estimate = ratio(model_totals.hits, model_totals.counted)
        size_group = next(
            (
                position
                for position, (sizes, _estimate) in enumerate(size_groups)
                if np.array_equal(sizes, model_totals.counted)
            ),
            len(size_groups),
        )
        if size_group == len(size_groups):
            size_groups.append((model_totals.counted, estimate))
        models[name] = _Model(
            model_totals.total(model_totals.number), len(model_totals.counted), estimate, size_group, failed.get(name)
        )
    return models


def _shared_clusters(clusters: Ints | None) -> tuple[Ints | None, int]:
    """The clusters numbered from 0, None if each has one unit; and the number of clusters."""
    if clusters is None:
        return None, 0
    cluster_ids, numbered = np.unique(clusters, return_inverse=True)
    return (numbered, len(cluster_ids)) if len(cluster_ids) < len(clusters) else (None, len(cluster_ids))


def _compare_models(
    rate: Rate,
    first: _Model,
    second: _Model,
    labels: Mapping[str, str],
    minimum: int,
    sizes: dict[tuple[int, int], ClusterSizes],
) -> Comparison:
    if first.ratio is None or second.ratio is None:
        difference = PairedDifference(None, None, None, 0)
    else:
        size_key = (first.size_group, second.size_group)
        if size_key not in sizes:
            sizes[size_key] = cluster_sizes((first.ratio.shares + second.ratio.shares) / 2)
        difference = difference_of_ratios(first.ratio, second.ratio, sizes[size_key], first.clusters, minimum=minimum)
    discordance = None
    if first.failed is not None and second.failed is not None and len(first.failed) and not rate.weighted:
        discordance = mcnemar(first.failed, second.failed)
    return _comparison(difference, discordance, {**labels, "rate": rate.name, "n": first.number + second.number})


def compare_pair(
    rate: Rate, first: Totals, second: Totals, clusters: Ints | None, labels: Mapping[str, str], minimum: int
) -> Comparison:
    """Compare two sets of totals on the same units.

    `clusters`: the cluster of each unit; None if each is its own. `labels`: data set and the names
    of both sides.
    """
    shared = (first.counted > 0) & (second.counted > 0)
    if not shared.all():
        first, second = (side.map(lambda values: values[shared]) for side in (first, second))
        clusters = None if clusters is None else clusters[shared]
    failures = (first.hits > 0, second.hits > 0)
    clusters, count = _shared_clusters(clusters)
    if clusters is not None:
        first, second = (side.map(partial(weighted_sums, clusters, count=count)) for side in (first, second))
    n = first.total(first.number) + second.total(second.number)
    fields: dict[str, Any] = {**labels, "rate": rate.name, "n": n}
    if rate.interval == "bootstrap":
        return _compare_by_bootstrap(first, second, fields, minimum)
    totals = (first.hits, first.counted, second.hits, second.counted)
    difference = paired_difference(*totals, minimum=minimum, frequencies=first.frequencies)
    discordance = (
        mcnemar(*failures, first.frequencies) if clusters is None and len(failures[0]) and not rate.weighted else None
    )
    return _comparison(difference, discordance, fields)


def _comparison(difference: PairedDifference, discordance: McNemar | None, fields: Mapping[str, Any]) -> Comparison:
    return Comparison(
        **fields,
        rates=(difference.first, difference.second),
        difference=difference.difference,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        p_adjusted=None,
        clusters=difference.clusters,
        odds_ratio=difference.odds_ratio.value if difference.odds_ratio else None,
        cohens_h=difference.cohens_h,
        only_first=discordance.only_first if discordance else None,
        only_second=discordance.only_second if discordance else None,
        p_samples=discordance.p if discordance else None,
    )


def _model_totals(units: Totals, endpoint: int, group_units: Ints) -> Totals:
    return units.map(lambda values: values[endpoint][group_units])


def _compare_by_bootstrap(
    first_totals: Totals, second_totals: Totals, fields: dict[str, Any], minimum: int
) -> Comparison:
    """Compare rates that are not means by the cluster bootstrap.

    The interval is that of percentiles; p is twice the share of draws on the other side of 0.
    """
    table = np.column_stack([first_totals.hits, first_totals.counted, second_totals.hits, second_totals.counted])
    draws: list[NDArray[Any]] = []

    def difference(totals: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(divide="ignore", invalid="ignore"):
            first, second = totals[:, 0] / totals[:, 1], totals[:, 2] / totals[:, 3]
            differences: NDArray[Any] = np.clip(first, 0, 1) - np.clip(second, 0, 1)
        draws.append(differences)
        return differences

    rates = tuple(
        clip_score(side.float_total(side.hits) / side.total(side.counted)) if len(side.hits) else None
        for side in (first_totals, second_totals)
    )
    clusters = len(table) if first_totals.frequencies is None else round(float(first_totals.frequencies.sum()))
    first, second = rates
    value = None if first is None or second is None else first - second
    interval = None
    if clusters >= minimum and first_totals.frequencies is None:
        interval = cluster_bootstrap(table, difference)[0]
    elif clusters >= minimum and first_totals.frequencies is not None:
        interval = bootstrap_patterns(*collapse_rows(table, first_totals.frequencies), difference)[0]
    p = None
    if interval is not None:
        differences = np.concatenate(draws)
        differences = differences[np.isfinite(differences)]
        beyond = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
        p = min(1.0, 2 * (beyond + 1) / (len(differences) + 1))
    low, high = interval if interval is not None else (None, None)
    return Comparison(
        **fields, rates=(first, second), difference=value, low=low, high=high, p=p, p_adjusted=None, clusters=clusters
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
    rate: Rate, rows: Sequence[Row], comparisons: Sequence[Comparison], *, lower_is_better: bool
) -> list[Ranking]:
    """Rank the models on every data set. Models whose rate has no interval are not ranked."""
    result = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        measured_by_model: dict[str, MeasuredRate] = {
            row.endpoint: row.rates[rate.name]
            for row in rows
            if row.dataset == dataset and row.rates[rate.name].interval is not None
        }
        sign = 1 if lower_is_better else -1
        pairs = {
            (comparison.first, comparison.second): (sign * comparison.difference, comparison.p_adjusted)
            for comparison in comparisons
            if comparison.dataset == dataset
            and comparison.rate == rate.name
            and {comparison.first, comparison.second} <= set(measured_by_model)
            and comparison.difference is not None
            and comparison.p_adjusted is not None
        }
        values = {
            name: sign * measured.value for name, measured in measured_by_model.items() if measured.value is not None
        }
        rank_by_model: dict[str, Rank] = ranks(values, pairs) if values else {}
        result += [
            Ranking(dataset, rate.name, name, rank.place, rank.best, rank.worst)
            for name, rank in sorted(rank_by_model.items(), key=lambda item: (item[1].place, item[0]))
        ]
    return result
