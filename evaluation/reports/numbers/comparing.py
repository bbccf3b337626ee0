"""Models against each other: on the samples that both answered, on every data set and in every cell of a breakdown."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import MeasuredRate, Totals, clip_score
from evaluation.protocol import Rate
from evaluation.reports.numbers.contingency import Kinds, fits, kinds_of
from evaluation.reports.numbers.counting import COMBINED, Place, Row, of_units, part_of, places, sums_of
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

CELL_PAIRS = 45  # of ten models; with more, breakdowns are not compared


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the samples for which both have verdicts: the first's rate less the second's.

    `p_adjusted`: by Holm over the pairs of a data set; in a breakdown by Benjamini-Hochberg over all its cells. `only_first`,
    `only_second`, `p_samples`: samples that only one of them failed, with McNemar's exact p where samples are independent.
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
    """These pairs on every data set, p adjusted by Holm within each."""
    found = []
    for of_place in _of_places(table, rate, pairs, pooled=pooled, minimum=minimum):
        found += _adjusted([replace(each, planned=planned) for each in of_place], holm)
    return found


def _of_places(
    table: VerdictTable,
    rate: Rate,
    pairs: Sequence[tuple[str, str]],
    *,
    pooled: bool,
    minimum: int,
    rows: Ints | None = None,
) -> Iterator[list[Comparison]]:
    """The comparisons of each data set, and of all pooled at the end. `rows`: only these judgments."""
    kinds = kinds_of(table, [rate], pooled=pooled)
    if kinds is not None and fits(rate):
        yield from _by_kinds(kinds, rate, pairs, pooled=pooled, minimum=minimum, rows=rows)
        return
    part = part_of(table, rows)
    units = of_units(part, rate)
    for place in places(part, rate, pooled=pooled):
        yield _pairs(table, rate, place, units, pairs, minimum)


def _by_kinds(
    kinds: Kinds, rate: Rate, pairs: Sequence[tuple[str, str]], *, pooled: bool, minimum: int, rows: Ints | None
) -> Iterator[list[Comparison]]:
    table, size = kinds.table, kinds.none + 1
    first, second = (each.ravel() for each in np.indices((size, size)))
    models = [(table.endpoints.index(one), table.endpoints.index(other)) for one, other in pairs]
    counts = [of[:, int(rate.arm == "control")] for of in kinds.pairs(models, rows)]
    for at, name in [*enumerate(table.datasets), *([(-1, COMBINED)] if pooled else [])]:
        found = []
        for pair, of in zip(pairs, counts, strict=True):
            frequencies = (of.sum(axis=0) if at < 0 else of[at]).ravel()
            one, other = (kinds.totals(rate, verdicts, frequencies) for verdicts in (first, second))
            named = {"dataset": name, "first": pair[0], "second": pair[1]}
            found.append(paired(rate, one, other, None, named, minimum))
        yield found


def compare_cells(
    table: VerdictTable,
    rate: Rate,
    pairs: Sequence[tuple[str, str]],
    values: Mapping[str, Ints],
    *,
    pooled: bool,
    minimum: int,
) -> list[Comparison]:
    """These pairs for each value of a breakdown (value -> its judgments), p adjusted by Benjamini-Hochberg over all of them."""
    if len(pairs) > CELL_PAIRS:
        return []
    found = []
    for value, rows in values.items():
        whole = list(_of_places(table, rate, pairs, pooled=pooled, minimum=minimum, rows=rows))
        for some in whole[-1:] if pooled else whole:
            found += [replace(each, value=value, planned=False) for each in some if each.clusters]
    return _adjusted(found, benjamini_hochberg)


def _adjusted(found: Sequence[Comparison], adjust: Any) -> list[Comparison]:
    with_p = [each.p for each in found if each.p is not None]
    adjusted = iter(adjust(with_p))
    return [each if each.p is None else replace(each, p_adjusted=next(adjusted)) for each in found]


def _pairs(
    table: VerdictTable, rate: Rate, place: Place, units: Totals, pairs: Sequence[tuple[str, str]], minimum: int
) -> list[Comparison]:
    of_model = {
        name: _of_model(units, table.endpoints.index(name), place.units)
        for name in {name for pair in pairs for name in pair}
    }
    named = [{"dataset": place.name, "first": first, "second": second} for first, second in pairs]
    counted = [each.counted > 0 for each in of_model.values()]
    if rate.interval == "bootstrap" or not all(np.array_equal(each, counted[0]) for each in counted):
        return [
            paired(rate, of_model[each["first"]], of_model[each["second"]], place.clusters, each, minimum)
            for each in named
        ]
    sides = _same_units(of_model, counted[0], place.clusters) if pairs else {}
    sizes: dict[tuple[int, int], ClusterSizes] = {}
    return [_compared(rate, sides[each["first"]], sides[each["second"]], each, minimum, sizes) for each in named]


@dataclass(frozen=True, slots=True)
class _Side:
    """A model on units that all models have: what is worked out of it once, for all pairs that it is in.

    `kind`: the same for models of which the same is counted in each cluster. `failed`: of each unit, where none belong
    together.
    """

    number: int
    clusters: int
    ratio: Ratio | None
    kind: int
    failed: NDArray[np.bool_] | None


def _same_units(of_model: Mapping[str, Totals], some: NDArray[np.bool_], clusters: Ints | None) -> dict[str, _Side]:
    if not some.all():
        of_model = {name: each.map(lambda values: values[some]) for name, each in of_model.items()}
        clusters = None if clusters is None else clusters[some]
    failed: dict[str, NDArray[np.bool_]] = {name: each.hits > 0 for name, each in of_model.items()}
    clusters, count = _together(clusters)
    if clusters is not None:
        failed = {}
        by_cluster = partial(sums_of, clusters, count=count)
        of_model = {name: each.map(by_cluster) for name, each in of_model.items()}
    found: dict[str, _Side] = {}
    kinds: list[tuple[Ints, Ratio | None]] = []
    for name, each in of_model.items():
        estimate = ratio(each.hits, each.counted)
        kind = next((at for at, (of, _) in enumerate(kinds) if np.array_equal(of, each.counted)), len(kinds))
        if kind == len(kinds):
            kinds.append((each.counted, estimate))
        found[name] = _Side(each.total(each.number), len(each.counted), estimate, kind, failed.get(name))
    return found


def _together(clusters: Ints | None) -> tuple[Ints | None, int]:
    """Which units belong together, numbered from 0, and how many clusters there are; None where none do."""
    if clusters is None:
        return None, 0
    known, places = np.unique(clusters, return_inverse=True)
    return (places, len(known)) if len(known) < len(clusters) else (None, len(known))


def _compared(
    rate: Rate,
    one: _Side,
    other: _Side,
    named: Mapping[str, str],
    minimum: int,
    sizes: dict[tuple[int, int], ClusterSizes],
) -> Comparison:
    if one.ratio is None or other.ratio is None:
        found = PairedDifference(None, None, None, 0)
    else:
        of = (one.kind, other.kind)
        if of not in sizes:
            sizes[of] = cluster_sizes((one.ratio.shares + other.ratio.shares) / 2)
        found = difference_of_ratios(one.ratio, other.ratio, sizes[of], one.clusters, minimum=minimum)
    apart = None
    if one.failed is not None and other.failed is not None and len(one.failed) and not rate.weighted:
        apart = mcnemar(one.failed, other.failed)
    return _comparison(found, apart, {**named, "rate": rate.name, "n": one.number + other.number})


def paired(
    rate: Rate, one: Totals, other: Totals, clusters: Ints | None, named: Mapping[str, str], minimum: int
) -> Comparison:
    """Two answers to the same units, `clusters` of which belong together: None where none do."""
    shared = (one.counted > 0) & (other.counted > 0)
    if not shared.all():
        one, other = (each.map(lambda values: values[shared]) for each in (one, other))
        clusters = None if clusters is None else clusters[shared]
    failed = (one.hits > 0, other.hits > 0)
    clusters, count = _together(clusters)
    if clusters is not None:
        one, other = (each.map(partial(sums_of, clusters, count=count)) for each in (one, other))
    n = one.total(one.number) + other.total(other.number)
    told: dict[str, Any] = {**named, "rate": rate.name, "n": n}
    if rate.interval == "bootstrap":
        return _by_bootstrap(one, other, told, minimum)
    totals = (one.hits, one.counted, other.hits, other.counted)
    found = paired_difference(*totals, minimum=minimum, frequencies=one.frequencies)
    apart = mcnemar(*failed, one.frequencies) if clusters is None and len(failed[0]) and not rate.weighted else None
    return _comparison(found, apart, told)


def _comparison(found: PairedDifference, apart: McNemar | None, told: Mapping[str, Any]) -> Comparison:
    return Comparison(
        **told,
        rates=(found.first, found.second),
        difference=found.difference,
        low=found.low,
        high=found.high,
        p=found.p,
        p_adjusted=None,
        clusters=found.clusters,
        odds_ratio=found.odds_ratio.value if found.odds_ratio else None,
        cohens_h=found.cohens_h,
        only_first=apart.only_first if apart else None,
        only_second=apart.only_second if apart else None,
        p_samples=apart.p if apart else None,
    )


def _of_model(units: Totals, endpoint: int, places: Ints) -> Totals:
    return units.map(lambda values: values[endpoint][places])


def _by_bootstrap(one: Totals, other: Totals, named: dict[str, Any], minimum: int) -> Comparison:
    """For what is no mean: percentiles over resampled clusters, and p from the share of draws on the far side of 0."""
    table = np.column_stack([one.hits, one.counted, other.hits, other.counted])
    drawn: list[NDArray[Any]] = []

    def difference(totals: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(divide="ignore", invalid="ignore"):
            first, second = totals[:, 0] / totals[:, 1], totals[:, 2] / totals[:, 3]
            figures: NDArray[Any] = np.clip(first, 0, 1) - np.clip(second, 0, 1)
        drawn.append(figures)
        return figures

    rates = tuple(
        clip_score(each.float_total(each.hits) / each.total(each.counted)) if len(each.hits) else None
        for each in (one, other)
    )
    clusters = len(table) if one.frequencies is None else round(float(one.frequencies.sum()))
    first, second = rates
    value = None if first is None or second is None else first - second
    ends = None
    if clusters >= minimum and one.frequencies is None:
        ends = cluster_bootstrap(table, difference)[0]
    elif clusters >= minimum and one.frequencies is not None:
        ends = bootstrap_patterns(*collapse_rows(table, one.frequencies), difference)[0]
    p = None
    if ends is not None:
        figures = np.concatenate(drawn)
        figures = figures[np.isfinite(figures)]
        beyond = min(int((figures <= 0).sum()), int((figures >= 0).sum()))
        p = min(1.0, 2 * (beyond + 1) / (len(figures) + 1))
    low, high = ends if ends is not None else (None, None)
    return Comparison(
        **named, rates=(first, second), difference=value, low=low, high=high, p=p, p_adjusted=None, clusters=clusters
    )


@dataclass(frozen=True, slots=True)
class Ranking:
    """A model's place on a data set, 1 the best, and the places that the data do not rule out."""

    dataset: str
    rate: str
    endpoint: str
    place: int
    best: int
    worst: int


def rankings(
    rate: Rate, rows: Sequence[Row], compared: Sequence[Comparison], *, lower_is_better: bool
) -> list[Ranking]:
    """Of every data set. Models whose rate has no interval have no place: too little was counted to give them one."""
    found = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        sure: dict[str, MeasuredRate] = {
            row.endpoint: row.rates[rate.name]
            for row in rows
            if row.dataset == dataset and row.rates[rate.name].interval is not None
        }
        sign = 1 if lower_is_better else -1
        pairs = {
            (each.first, each.second): (sign * each.difference, each.p_adjusted)
            for each in compared
            if each.dataset == dataset
            and each.rate == rate.name
            and {each.first, each.second} <= set(sure)
            and each.difference is not None
            and each.p_adjusted is not None
        }
        values = {name: sign * measured.value for name, measured in sure.items() if measured.value is not None}
        placed: dict[str, Rank] = ranks(values, pairs) if values else {}
        found += [
            Ranking(dataset, rate.name, name, rank.place, rank.best, rank.worst)
            for name, rank in sorted(placed.items(), key=lambda each: (each[1].place, each[0]))
        ]
    return found
