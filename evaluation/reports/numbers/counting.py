"""Counts verdicts: every rate of every model on every data set, overall and by breakdown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import MeasuredRate, Totals, measure
from evaluation.protocol import Protocol, Rate, Weights
from evaluation.verdicts.scores import Judged, Score
from evaluation.verdicts.selection import COMBINED as COMBINED
from evaluation.verdicts.selection import (
    JUDGE_FAILURES,
    UNJUDGED,
    Ints,
    criteria_of,
    failure_rule,
    has_verdict,
    in_arm,
)
from evaluation.verdicts.table import VerdictTable


@dataclass(frozen=True, slots=True)
class RateRow:
    """The result of one endpoint on one data set, overall or for one value of a facet.

    Data set 'combined' pools all data sets. `verdicts`: verdict -> count, including 'unjudged',
    without control samples. `rates`: by name.
    """

    endpoint: str
    dataset: str
    value: str  # of the facet; empty overall
    label: str
    verdicts: Mapping[str, int]
    rates: Mapping[str, MeasuredRate]

    @property
    def measured(self) -> MeasuredRate:
        """The first of the rates."""
        return next(iter(self.rates.values()))


@dataclass(frozen=True)
class UnitGroup:
    """The units of a data set, or of all data sets pooled, with the cluster of each.

    `units`: their places; a slice for all units, of which numpy makes no copy. `clusters` is None
    if each unit is its own cluster. `count`: of clusters.
    """

    name: str
    units: Ints | slice
    clusters: Ints | None
    count: int

    def totals(self, totals: Totals, endpoint: int) -> Totals:
        """The totals of one model by cluster."""
        of_model = totals.map(lambda values: values[endpoint][self.units])
        if self.clusters is None:
            return of_model
        clusters, count = self.clusters, self.count
        return of_model.map(lambda values: weighted_sums(clusters, values, count))


def weighted_sums(indices: Ints, weights: Ints, count: int) -> Ints:
    """The sum of the weights at each of `count` indices; integers for integer weights."""
    sums: Ints = np.bincount(indices, weights, count)
    return sums if weights.dtype.kind == "f" else np.rint(sums).astype(np.int64)


def unit_groups(table: VerdictTable, rate: Rate, rows: Ints | None = None, *, pooled: bool) -> tuple[UnitGroup, ...]:
    """The unit groups of a rate: each data set, and all pooled.

    `rows`: only the units of these judgments.
    """
    chosen = in_arm(table, rate)
    if rows is not None:
        has_judgment = np.zeros(table.units, dtype=np.bool_)
        has_judgment[table.unit[rows]] = True
        chosen = chosen & has_judgment
    return _groups_of(table, chosen, pooled=pooled)


def parts_of(table: VerdictTable, rate: Rate, where: NDArray[np.bool_], *, pooled: bool) -> tuple[UnitGroup, ...]:
    """The unit groups of a rate, of these units alone."""
    return _groups_of(table, in_arm(table, rate) & where, pooled=pooled)


def _groups_of(table: VerdictTable, chosen: NDArray[np.bool_], *, pooled: bool) -> tuple[UnitGroup, ...]:
    selections = [(name, (table.unit_dataset == position) & chosen) for position, name in enumerate(table.datasets)]
    if pooled:
        selections.append((COMBINED, chosen))
    groups = []
    for name, is_chosen in selections:
        units = slice(None) if is_chosen.all() else np.flatnonzero(is_chosen)
        cluster_ids, clusters = np.unique(table.unit_cluster[units], return_inverse=True)
        are_single = len(cluster_ids) == len(clusters)
        groups.append(UnitGroup(name, units, None if are_single else clusters, len(cluster_ids)))
    return tuple(groups)


def unit_totals(table: VerdictTable, rate: Rate, rows: Ints | None = None) -> Totals:
    """The totals of a rate for each model and unit: arrays of (models, units).

    `rows`: only these judgments. Units of the other arm are in the arrays too (`unit_groups`).
    """
    chosen = criteria_of(table, rate, rows)
    chosen = np.arange(len(table.verdict)) if chosen is None else chosen
    if rate.score:
        return _scores(table, rate, rate.score, chosen)
    totals = _totals(table, rate, chosen)
    if rate.unit == "criterion":
        return totals
    is_hit, is_counted, has_excluded = totals.hits > 0, totals.counted > 0, totals.excluded > 0
    parts = (is_hit, is_counted, is_counted, has_excluded & ~is_counted, is_counted & has_excluded & ~is_hit)
    hits, counted, number, excluded, unsure = (part.astype(np.int64) for part in parts)
    return Totals(hits, counted, number, excluded, unsure, scope=totals.in_scope.astype(np.int64))


def _scores(table: VerdictTable, rate: Rate, score: Score, rows: Ints) -> Totals:
    """The score of each unit as `hits`, by the benchmark's own rule."""
    shape = (len(table.endpoints), table.units)
    scores = score.of(
        Judged(
            answers=shape[0] * shape[1],
            answer=table.cell[rows],
            hit=has_verdict(table, frozenset(rate.hits), rows),
            has_verdict=has_verdict(table, rate.scope_verdicts, rows),
            rubric=table.rubric[rows],
            members=table.members,
        )
    )
    hits, reached, possible = (values.reshape(shape) for values in (scores.score, scores.reached, scores.possible))
    counted, excluded = (
        np.rint(values).astype(np.int64).reshape(shape) for values in (scores.counted, scores.excluded)
    )
    return Totals(hits, counted, counted, excluded, reached=reached, possible=possible)


def _totals(table: VerdictTable, rate: Rate, rows: Ints) -> Totals:
    """The totals by unit of a rate over criteria; those that have no weight are excluded."""
    shape = (len(table.endpoints), table.units)
    cell, verdict = table.cell[rows], table.verdict[rows]
    weight: Any = 1
    has_weight: Any = 1
    if rate.weights:
        weight, has_weight = (of_rubric[table.rubric[rows]] for of_rubric in _rubric_weights(table, rate.weights))

    def sums(values: Ints) -> Ints:
        return weighted_sums(cell, values, shape[0] * shape[1]).reshape(shape)

    hits, counted, within = (
        np.array([weight_of.get(name, 0) for name in table.verdicts])[verdict] * has_weight
        for weight_of in (rate.hits, rate.counted, dict.fromkeys(rate.scope_verdicts, 1))
    )
    return Totals(
        sums(hits * weight),
        sums(counted * weight),
        sums((counted * weight > 0).astype(np.int64)),  # a weight of 0 counts nothing
        sums(1 - within),
        missing=sums((1 - within) * weight * has_weight) if rate.weights else None,
        scope=sums(within),
    )


def _rubric_weights(table: VerdictTable, weights: Weights) -> tuple[Ints, Ints]:
    """The weight of each rubric, and whether it has one. Of several weights, the largest counts."""
    weight, has_weight = np.zeros(table.rubrics, dtype=np.int64), np.zeros(table.rubrics, dtype=np.int64)
    for value, has_value in table.members.get(weights.facet, {}).items():
        if value in weights.of:
            weight = np.where(has_value, np.maximum(weight, weights.of[value]), weight)
            has_weight = np.where(has_value, 1, has_weight)
    return weight, has_weight


def is_present(table: VerdictTable, rate: Rate) -> bool:
    """Whether a run has what a rate counts.

    That is: control samples, criteria with a value, with weights, or with what its score reads.
    """
    if rate.arm == "control" and not table.unit_is_control.any():
        return False
    if rate.only and rate.only.value not in table.members.get(rate.only.facet, {}):
        return False
    if rate.score:
        return rate.score.applies(table.members)
    return not rate.weights or not rate.weights.of.keys().isdisjoint(table.members.get(rate.weights.facet, {}))


def answered_by_all(table: VerdictTable) -> NDArray[np.bool_]:
    """Whether each judgment is on a unit for which every model has a verdict."""
    is_judged = np.zeros((len(table.endpoints), table.units), dtype=np.bool_)
    rows = table.verdict != table.verdicts.index(UNJUDGED)
    is_judged[table.endpoint[rows], table.unit[rows]] = True
    units: NDArray[np.bool_] = np.logical_and.reduce(is_judged, axis=0)
    on_common: NDArray[np.bool_] = units[table.unit]
    return on_common


@dataclass(frozen=True, slots=True)
class Counting:
    """How to count a run. `minimum`: clusters below which no interval is given."""

    protocol: Protocol
    rates: tuple[Rate, ...]
    pooled: bool
    minimum: int

    def rows(self, table: VerdictTable, value: str = "", rows: Ints | None = None, *, label: str = "") -> list[RateRow]:
        """A row for each model and data set.

        `rows`: the judgments with `value` of a breakdown. Breakdowns have no rates of control
        samples, which have no traps.
        """
        rates: dict[tuple[int, str], dict[str, MeasuredRate]] = {}
        verdicts = _trap_verdict_counts(table, rows)
        for rate in self.rates:
            if value and rate.arm == "control":
                continue
            better = "low" if self.protocol.is_lower_better(rate) else "high"
            units = unit_totals(table, rate, rows)
            for group in unit_groups(table, rate, rows, pooled=self.pooled):
                for endpoint in range(len(table.endpoints)):
                    totals = group.totals(units, endpoint)
                    measured = measure(rate, totals, minimum=self.minimum, better=better, with_bounds=not value)
                    rates.setdefault((endpoint, group.name), {})[rate.name] = measured
        if self.pooled:
            for (endpoint, name), by_rate in rates.items():
                if name == COMBINED:
                    parts = [rates[endpoint, part] for part in table.datasets]
                    by_rate |= {key: rate.pooling(part[key] for part in parts) for key, rate in by_rate.items()}
        names = list(table.datasets)
        if self.pooled:
            names.append(COMBINED)
            verdicts = np.concatenate([verdicts, verdicts.sum(axis=1, keepdims=True)], axis=1)
        return [
            RateRow(model, name, value, label, _counter(table.verdicts, verdicts[endpoint, at]), rates[endpoint, name])
            for endpoint, model in enumerate(table.endpoints)
            for at, name in enumerate(names)
        ]


def _trap_verdict_counts(table: VerdictTable, rows: Ints | None) -> Ints:
    """The counts by model, data set and verdict, without control samples."""
    chosen: Any = slice(None) if rows is None else rows
    shape = (len(table.endpoints), len(table.datasets), 2, len(table.verdicts))
    arm = table.unit_dataset * 2 + table.unit_is_control
    cell = (table.endpoint[chosen] * (shape[1] * 2) + arm[table.unit[chosen]]) * shape[3] + table.verdict[chosen]
    return np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)[:, :, 0]


def _counter(names: Sequence[str], counts: Iterable[int]) -> Counter[str]:
    return Counter({name: int(n) for name, n in zip(names, counts, strict=True) if n})


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """How responses of one model on one data set ended, and how this outcome is counted.

    `kind`: judged, an outcome without an answer, or the reason why an answer has no verdict.
    `responses`: how many, None for kinds of judgments. `criteria`: how many, `counted`: those with
    a verdict. `rule`: how the outcome is counted.
    """

    endpoint: str
    dataset: str
    kind: str
    responses: int | None
    criteria: int
    counted: int
    rule: str


def endings(table: VerdictTable, rules: Mapping[str, str]) -> list[OutcomeCount]:
    """The endings that occurred, by model, data set and kind."""
    datasets, kinds = len(table.datasets), len(table.kinds)
    key = (table.endpoint * datasets + table.unit_dataset[table.unit]) * kinds + table.kind
    shape = (len(table.endpoints), datasets, kinds)
    criteria = np.bincount(key, minlength=int(np.prod(shape))).reshape(shape)
    judged = table.verdict != table.verdicts.index(UNJUDGED)
    counted = np.bincount(key[judged], minlength=int(np.prod(shape))).reshape(shape)
    rows = []
    for place, n in np.ndenumerate(criteria):
        endpoint, dataset, kind = place
        outcome = table.kinds[kind] if kind else "answered"
        responses = None
        if not kind or (outcome in rules and outcome not in JUDGE_FAILURES):
            responses = table.responses.get((endpoint, dataset, outcome), 0)
        if responses or n:
            names = table.endpoints[endpoint], table.datasets[dataset], table.kinds[kind]
            rule = failure_rule(rules, outcome)
            rows.append(OutcomeCount(*names, responses, int(n), int(counted[place]), rule))
    return rows
