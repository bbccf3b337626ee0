"""Effects of asking the same samples in another variant: gains, and answers fixed or broken."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import FIELDS, SUMS, Sums
from evaluation.numbers.averages import mean
from evaluation.numbers.comparing import ModelComparison, compare_pair, with_adjusted
from evaluation.numbers.rates import of_rate
from evaluation.numbers.scores import Ints
from evaluation.numbers.totals import UnitTotals
from evaluation.protocol import Protocol
from evaluation.statistics.multiplicity import holm
from review.rules.shown_fields import Hidden, shown

ALL = ""  # endpoint name of the mean over models
KEPT = "kept"  # right before and after
FIXED = "fixed"  # wrong before, right after
BROKEN = "broken"  # right before, wrong after
STAYED = "stayed"  # wrong before and after
MOVES = (KEPT, BROKEN, FIXED, STAYED)


@dataclass(frozen=True, slots=True)
class Change:
    """One model's rate on the two data sets of a contrast, over samples with verdicts in both.

    For the mean over models (endpoint `ALL`), values are unweighted means and `moves` are sums.

    Attributes:
        gain: the first data set's rate minus the second's; `low`, `high` and `p` are paired by
            sample.
        p_adjusted: by Holm over the models of the contrast.
        moves: the number of samples for each of `MOVES`.
        fix_rate: share of the wrong samples that became right (Fix).
        break_rate: share of the right samples that became wrong (Break).
    """

    label: str
    rate: str
    first: str
    second: str
    endpoint: str
    rates: Hidden[tuple[float | None, float | None]]
    gain: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    clusters: int
    moves: Hidden[Mapping[str, int]]
    fix_rate: float | None
    break_rate: float | None

    @property
    def wrong(self) -> int:
        """The samples that were wrong before."""
        return self.moves[FIXED] + self.moves[STAYED]

    @property
    def right(self) -> int:
        """The samples that were right before."""
        return self.moves[KEPT] + self.moves[BROKEN]

    @property
    @shown
    def first_rate(self) -> float | None:
        return self.rates[0]

    @property
    @shown
    def second_rate(self) -> float | None:
        return self.rates[1]

    @property
    @shown
    def kept(self) -> int:
        return self.moves[KEPT]

    @property
    @shown
    def broken(self) -> int:
        return self.moves[BROKEN]

    @property
    @shown
    def fixed(self) -> int:
        return self.moves[FIXED]

    @property
    @shown
    def stayed(self) -> int:
        return self.moves[STAYED]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The competing contrast with the largest gain over a baseline data set.

    If the interval of `lead` contains 0, the bottleneck may be due to chance.

    Attributes:
        dataset: the baseline.
        label: of the contrast with the largest gain.
        gains: label -> gain, for all competing contrasts.
        lead: the rate of that contrast minus that of `runner_up`, on average over the models;
            `low`, `high` and `p` are paired by sample.
        p_adjusted: by Holm over the baselines of a rate.
    """

    dataset: str
    rate: str
    label: str
    gains: Mapping[str, float]
    runner_up: str
    lead: float | None
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    clusters: int


def fix_and_break(moves: Mapping[str, int]) -> tuple[float | None, float | None]:
    """The shares of wrong samples that were fixed, and of right ones that were broken (Fix, Break).

    A share of no samples is None.
    """
    fix_rate = break_rate = None
    if wrong := moves[FIXED] + moves[STAYED]:
        fix_rate = moves[FIXED] / wrong
    if right := moves[KEPT] + moves[BROKEN]:
        break_rate = moves[BROKEN] / right
    return fix_rate, break_rate


def changes(all_totals: Mapping[str, UnitTotals], protocol: Protocol, minimum: int) -> list[Change]:
    """The changes of every contrast, by rate and model, with the mean over models last.

    Only proportions have changes: of a sample that weighs more, no answer is fixed or broken.
    """
    result: list[Change] = []
    for totals in all_totals.values():
        if not totals.rate.is_proportion:
            continue
        for first, second, label in protocol.contrasts:
            if not {first, second} <= set(totals.datasets):
                continue
            shared = _shared(totals, first, second)
            contrast = (first, second, label)
            rows = [_change(totals, protocol, shared, contrast, model, minimum) for model in totals.models]
            if not any(row.clusters for row in rows):
                continue
            rows = with_adjusted(rows, holm)
            result += rows
            if len(rows) > 1:
                result.append(_over_models(totals, shared, rows, minimum))
    return result


def _shared(totals: UnitTotals, first: str, second: str) -> tuple[Ints, Ints]:
    """The units of the samples in both data sets, in the same order."""
    sample, dataset = totals.units["sample"], totals.units["dataset"]
    in_first = np.flatnonzero(dataset == totals.datasets.index(first))
    in_second = np.flatnonzero(dataset == totals.datasets.index(second))
    _, places, others = np.intersect1d(sample[in_first], sample[in_second], return_indices=True)
    return in_first[places], in_second[others]


def classify_moves(first: Sums, second: Sums, *, lower_is_better: bool) -> dict[str, NDArray[np.bool_]]:
    """Which units made which move, from the second (before) to the first (after).

    A unit is right if all its verdicts are.
    """
    both = (first["counted"] > 0) & (second["counted"] > 0)
    if lower_is_better:
        after, before = first["hits"] == 0, second["hits"] == 0
    else:
        after, before = first["hits"] == first["counted"], second["hits"] == second["counted"]
    return {
        KEPT: both & before & after,
        BROKEN: both & before & ~after,
        FIXED: both & ~before & after,
        STAYED: both & ~before & ~after,
    }


def _change(
    totals: UnitTotals,
    protocol: Protocol,
    shared: tuple[Ints, Ints],
    contrast: tuple[str, str, str],
    model: str,
    minimum: int,
) -> Change:
    first_totals, second_totals = totals.of(model, shared[0]), totals.of(model, shared[1])
    moves = classify_moves(first_totals, second_totals, lower_is_better=protocol.is_lower_better(totals.rate))
    counts = {name: int(units_moved.sum()) for name, units_moved in moves.items()}
    first, second, label = contrast
    labels = {"dataset": first, "first": first, "second": second}
    clusters = totals.units["cluster"][shared[0]]
    compared = compare_pair(totals.rate, first_totals, second_totals, clusters, labels, minimum)
    return _make_change(compared, label, model, counts, fix_and_break(counts))


def _make_change(
    compared: ModelComparison,
    label: str,
    endpoint: str,
    moves: Mapping[str, int],
    shares: tuple[float | None, float | None],
) -> Change:
    return Change(
        label=label,
        endpoint=endpoint,
        p_adjusted=None,
        moves=moves,
        fix_rate=shares[0],
        break_rate=shares[1],
        rate=compared.rate,
        first=compared.first,
        second=compared.second,
        rates=compared.rates,
        gain=compared.difference,
        low=compared.low,
        high=compared.high,
        p=compared.p,
        clusters=compared.clusters,
    )


def _over_models(totals: UnitTotals, shared: tuple[Ints, Ints], rows: Sequence[Change], minimum: int) -> Change:
    """The change averaged over models, without weights.

    It has an interval only if all models have all of these samples: the mean of their gains is then
    the gain of all their answers pooled.
    """
    pooled = _pooled(totals, shared, (rows[0].first, rows[0].second), minimum)
    moves = dict.fromkeys(MOVES, 0)
    for row in rows:
        for name in MOVES:
            moves[name] += row.moves[name]
    shares = mean([row.fix_rate for row in rows]), mean([row.break_rate for row in rows])
    change = _make_change(pooled, rows[0].label, ALL, moves, shares)
    rates = mean([row.rates[0] for row in rows]), mean([row.rates[1] for row in rows])
    return replace(change, rates=rates, gain=mean([row.gain for row in rows]))


def _pooled(totals: UnitTotals, shared: tuple[Ints, Ints], names: tuple[str, str], minimum: int) -> ModelComparison:
    """Compare two data sets over the answers of all models pooled.

    Without an interval and p unless all models have the same samples.
    """

    of_all_models = np.zeros(len(totals.units), SUMS)
    for name in FIELDS:
        of_all_models[name] = totals.sums[name].sum(axis=0)
    first, second = of_all_models[shared[0]], of_all_models[shared[1]]
    counted = totals.sums["counted"][:, np.concatenate(shared)]
    is_complete = (counted == counted[0]).all()
    labels = {"dataset": names[0], "first": names[0], "second": names[1]}
    clusters = totals.units["cluster"][shared[0]]
    comparison = compare_pair(totals.rate, first, second, clusters, labels, minimum)
    if is_complete:
        return comparison
    return replace(comparison, low=None, high=None, p=None)


def bottlenecks(
    all_totals: Mapping[str, UnitTotals], protocol: Protocol, all_changes: Sequence[Change], minimum: int
) -> list[Bottleneck]:
    """The bottleneck of each rate and baseline with at least two competing contrasts."""
    result: list[Bottleneck] = []
    for totals in all_totals.values():
        by_baseline: dict[str, list[Change]] = defaultdict(list)
        for change in of_rate(all_changes, totals.rate):
            by_baseline[change.second].append(change)
        rows = []
        for of_baseline in by_baseline.values():
            bottleneck = _bottleneck(totals, protocol, of_baseline, minimum)
            if bottleneck is not None:
                rows.append(bottleneck)
        result += with_adjusted(rows, holm)
    return result


def _bottleneck(
    totals: UnitTotals, protocol: Protocol, of_baseline: Sequence[Change], minimum: int
) -> Bottleneck | None:
    """The bottleneck of a baseline, by the mean over models or, of a single one, by that one."""
    endpoints = {change.endpoint for change in of_baseline}
    endpoint = min(endpoints)
    if ALL in endpoints:
        endpoint = ALL
    competing, gains = dict[str, Change](), dict[str, float]()
    for change in of_baseline:
        if change.endpoint == endpoint and change.label in protocol.rivals and change.gain is not None:
            competing[change.label], gains[change.label] = change, change.gain
    if len(gains) < 2:
        return None
    is_reversed = not protocol.is_lower_better(totals.rate)
    [first, second, *_rest] = sorted(gains, key=gains.__getitem__, reverse=is_reversed)
    names = competing[first].first, competing[second].first
    lead = _pooled(totals, _shared(totals, *names), names, minimum)
    value = lead.difference
    if lead.p is None:
        value = gains[first] - gains[second]
    return Bottleneck(
        dataset=of_baseline[0].second,
        rate=totals.rate.name,
        label=first,
        gains=gains,
        runner_up=second,
        lead=value,
        low=lead.low,
        high=lead.high,
        p=lead.p,
        p_adjusted=None,
        clusters=lead.clusters,
    )


def samples_with_move(
    totals: UnitTotals, protocol: Protocol, *, first: str, second: str, endpoint: str, move: str
) -> list[int]:
    """The ids of the samples that made this move in a contrast, for one model or (`ALL`) any."""
    if not {first, second} <= set(totals.datasets):
        return []
    shared, sample_ids = _shared(totals, first, second), set[int]()
    lower_is_better = protocol.is_lower_better(totals.rate)
    for model in totals.models:
        if endpoint in (ALL, model):
            sides = totals.of(model, shared[0]), totals.of(model, shared[1])
            moves = classify_moves(*sides, lower_is_better=lower_is_better)
            sample_ids.update(totals.units["sample"][shared[0]][moves[move]].tolist())
    return sorted(sample_ids)
