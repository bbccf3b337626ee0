"""Counts a table of verdicts: every rate of every model on every data set, overall and for each value of each breakdown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import UNJUDGED, MeasuredRate, Totals, measure
from evaluation.protocol import JUDGE_FAILURES, Protocol, Rate
from evaluation.reports.numbers import points
from evaluation.reports.numbers.contingency import Kinds, fits, kinds_of
from evaluation.reports.numbers.verdict_table import PLACE, POLARITY, RUBRIC, Ints, VerdictTable

COMBINED = "combined"


@dataclass(frozen=True, slots=True)
class Row:
    """What one endpoint came to on one data set ('combined': all of them pooled), for one value of a facet or overall.

    `verdicts`: verdict -> how often, 'unjudged' among them; without those on control samples. `rates`: by name.
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
class Place:
    """The units of a data set, or of all of them pooled, and the cluster of each; None where each is one of its own."""

    name: str
    units: Ints
    clusters: Ints | None
    count: int

    def only(self, units: NDArray[np.bool_], number: Ints) -> "Place":
        """The same with some of the units, numbered anew."""
        some = units[self.units]
        clusters = None if self.clusters is None else self.clusters[some]
        return replace(self, units=number[self.units[some]], clusters=clusters)

    def totals(self, of_units: Totals, endpoint: int) -> Totals:
        """Totals by cluster of one model."""
        taken = of_units.map(lambda values: values[endpoint][self.units])
        if self.clusters is None:
            return taken
        places, count = self.clusters, self.count
        return taken.map(lambda values: sums_of(places, values, count))


def sums_of(places: Ints, weights: Ints, count: int) -> Ints:
    """The sum of the weights at each of so many places; of whole numbers a whole number."""
    found: Ints = np.bincount(places, weights, count)
    return found if weights.dtype.kind == "f" else np.rint(found).astype(np.int64)


def part_of(table: VerdictTable, rows: Ints | None) -> VerdictTable:
    """These judgments with their units alone, and what rates are counted of; kept until `forget_parts`. None: all of them."""
    if rows is None:
        return table
    parts: dict[int, tuple[Ints, VerdictTable]] = table.memo.setdefault("parts", {})
    if id(rows) not in parts:
        unit = table.unit.take(rows)
        units = np.zeros(table.units, dtype=np.bool_)
        units[unit] = True
        number, nothing = np.cumsum(units, dtype=PLACE) - 1, rows[:0]
        changed = {name: getattr(table, name).take(rows) for name in ("endpoint", "rubric", "verdict")}
        changed |= {name: getattr(table, name)[units] for name in ("unit_sample", "unit_dataset", "unit_cluster")}
        changed |= {"unit": number.take(unit), "kind": nothing, "response": nothing}
        memo = {"part of": (table, units, number)}
        of_arm = table.unit_is_control[units]
        parts[id(rows)] = rows, replace(table, **changed, unit_is_control=of_arm, scores={}, memo=memo)
    return parts[id(rows)][1]


def forget_parts(table: VerdictTable) -> None:
    """Give back the memory of what was counted and will not be compared any more."""
    table.memo.pop("parts", None)


def places(table: VerdictTable, rate: Rate, *, pooled: bool) -> tuple[Place, ...]:
    """Where a rate is counted: each data set, and all pooled."""
    key = (rate.arm, pooled)
    if key not in table.memo:
        if "part of" in table.memo:
            whole, units, number = table.memo["part of"]
            table.memo[key] = tuple(place.only(units, number) for place in places(whole, rate, pooled=pooled))
        else:
            table.memo[key] = _places(table, rate, pooled=pooled)
    found: tuple[Place, ...] = table.memo[key]
    return found


def _places(table: VerdictTable, rate: Rate, *, pooled: bool) -> tuple[Place, ...]:
    of_arm = table.unit_is_control == (rate.arm == "control")
    found = [(name, (table.unit_dataset == at) & of_arm) for at, name in enumerate(table.datasets)]
    if pooled:
        found.append((COMBINED, of_arm))
    return tuple(_place(name, np.flatnonzero(units), table) for name, units in found)


def _place(name: str, units: Ints, table: VerdictTable) -> Place:
    known, clusters = np.unique(table.unit_cluster[units], return_inverse=True)
    alone = len(known) == len(units)
    return Place(name, units, None if alone else clusters, len(known))


def of_units(table: VerdictTable, rate: Rate) -> Totals:
    """What a rate counts of each unit, by model: arrays of (models, units)."""
    chosen: Ints | None = None
    for name, value in ((POLARITY, rate.polarity), (RUBRIC, rate.rubric)):
        if value:
            chosen = np.arange(len(table.verdict)) if chosen is None else chosen
            of = table.members.get(name, {}).get(value)
            chosen = chosen[of[table.rubric[chosen]]] if of is not None else chosen[:0]
    if rate.points:
        chosen = np.arange(len(table.verdict)) if chosen is None else chosen
        return points.scores(table, rate, chosen, _cells(table)[chosen])
    weighted = bool(rate.weighted) or max(rate.counted.values()) > 1
    totals = _weighted_totals(table, rate, chosen) if rate.weighted else _totals(table, rate, chosen, weighted)
    if rate.unit == "criterion":
        return totals
    hit, some, missing = totals.hits > 0, totals.counted > 0, totals.excluded > 0
    parts = (hit, some, some, missing & ~some, some & missing & ~hit)
    hits_of, counted_of, number_of, excluded_of, unsure_of = (part.astype(np.int64) for part in parts)
    return Totals(hits_of, counted_of, number_of, excluded_of, unsure_of)


def _cells(table: VerdictTable) -> Ints:
    """Of each judgment, the place of its model and unit in arrays of (models, units)."""
    if "cells" not in table.memo:
        table.memo["cells"] = table.endpoint * table.units + table.unit
    found: Ints = table.memo["cells"]
    return found


def counts_of(table: VerdictTable, rows: Ints | None) -> Ints:
    """How often each verdict is given, by model and unit: (verdicts, models, units). `rows`: only these judgments.

    The last are kept: several rates are counted of the same judgments.
    """
    known = table.memo.get("counts")
    if known is None or known[0] is not rows:
        shape = (len(table.verdicts), len(table.endpoints), table.units)
        cells, verdict = (_cells(table), table.verdict) if rows is None else (_cells(table)[rows], table.verdict[rows])
        counts = np.bincount(verdict * (shape[1] * shape[2]) + cells, minlength=int(np.prod(shape))).reshape(shape)
        known = table.memo["counts"] = (rows, counts)
    found: Ints = known[1]
    return found


def _per_verdict(table: VerdictTable, weight_of: Mapping[str, int]) -> list[int]:
    return [weight_of.get(each, 0) for each in table.verdicts]


def _outside(table: VerdictTable, rate: Rate) -> list[int]:
    return [int(each not in rate.scope_verdicts) for each in table.verdicts]


def _totals(table: VerdictTable, rate: Rate, rows: Ints | None, weighted: bool) -> Totals:
    """Of a rate in which every rubric weighs the same."""
    counts = counts_of(table, rows)

    def sums(weights: Sequence[int]) -> Ints:
        parts = [counts[at] if weight == 1 else counts[at] * weight for at, weight in enumerate(weights) if weight]
        return reduce(np.add, parts) if parts else np.zeros(counts.shape[1:], dtype=np.int64)

    counted = _per_verdict(table, rate.counted)
    of_all = sums(counted)
    number = sums([int(weight > 0) for weight in counted]) if weighted else of_all
    return Totals(sums(_per_verdict(table, rate.hits)), of_all, number, sums(_outside(table, rate)))


def _weighted_totals(table: VerdictTable, rate: Rate, rows: Ints | None) -> Totals:
    chosen = np.arange(len(table.verdict)) if rows is None else rows
    key, verdict, cells = _cells(table)[chosen], table.verdict[chosen], len(table.endpoints) * table.units

    def sums(values: Ints) -> Ints:
        if not values.any():
            return np.zeros((len(table.endpoints), table.units), dtype=np.int64)
        return sums_of(key, values, cells).reshape(len(table.endpoints), table.units)

    hits, counted = (np.array(_per_verdict(table, of))[verdict] for of in (rate.hits, rate.counted))
    weight, valued = (of_rubric[table.rubric[chosen]] for of_rubric in _weights(table, rate))
    outside = np.array(_outside(table, rate))[verdict]
    unjudged = sums(outside * weight * valued)
    hits, counted = hits * weight * valued, counted * weight * valued
    number, outside = (counted > 0).astype(np.int64), np.where(valued, outside, 1)
    return Totals(sums(hits), sums(counted), sums(number), sums(outside), missing=unjudged)


def _weights(table: VerdictTable, rate: Rate) -> tuple[Ints, Ints]:
    """(weight, whether it has one) of each rubric; of several values the largest."""
    weight, valued = np.zeros(table.rubrics, dtype=np.int64), np.zeros(table.rubrics, dtype=np.int64)
    for value, of in table.members.get(rate.weighted, {}).items():
        if value in rate.weights:
            weight = np.where(of, np.maximum(weight, rate.weights[value]), weight)
            valued = np.where(of, 1, valued)
    return weight, valued


def is_present(table: VerdictTable, rate: Rate) -> bool:
    """Whether a run has anything for a rate of control samples, of a polarity, or of weighted criteria."""
    if rate.arm == "control" and not table.unit_is_control.any():
        return False
    if rate.polarity and rate.polarity not in table.members.get(POLARITY, {}):
        return False
    if rate.rubric and rate.rubric not in table.members.get(RUBRIC, {}):
        return False
    if rate.points:
        return points.has_points(table, rate)
    return not rate.weighted or any(value in rate.weights for value in table.members.get(rate.weighted, {}))


def answered_by_all(table: VerdictTable) -> NDArray[np.bool_]:
    """Of each judgment, whether it is on a sample for which every model has a verdict."""
    has = np.zeros((len(table.endpoints), table.units), dtype=np.bool_)
    judged = table.verdict != table.verdicts.index(UNJUDGED)
    has[table.endpoint[judged], table.unit[judged]] = True
    units: NDArray[np.bool_] = np.logical_and.reduce(has, axis=0)
    found: NDArray[np.bool_] = units[table.unit]
    return found


@dataclass(frozen=True, slots=True)
class Counting:
    """How a run is counted: which rates, from how many clusters on intervals are given."""

    protocol: Protocol
    rates: tuple[Rate, ...]
    pooled: bool
    minimum: int

    def rows(self, table: VerdictTable, value: str = "", rows: Ints | None = None, *, label: str = "") -> list[Row]:
        """A row for each model and data set. `rows`: the judgments of a value of a breakdown, where control samples, which have
        no traps, have no rates."""
        found: dict[tuple[int, str], dict[str, MeasuredRate]] = {}
        kinds = kinds_of(table, self.rates, pooled=self.pooled)
        counts = kinds.counts(rows, missing=not value) if kinds else None
        part = table if kinds and all(map(fits, self.rates)) else part_of(table, rows)
        verdicts = self._named(table, _verdicts(part) if counts is None else counts[:, :, 0, :-1])
        for rate in self.rates:
            if value and rate.arm == "control":
                continue
            better = "low" if self.protocol.is_lower_better(rate) else "high"
            if kinds is not None and counts is not None and fits(rate):
                for endpoint, name, totals in self._of_kinds(kinds, counts, rate):
                    if value:
                        totals = _of(totals, np.flatnonzero(totals.counted + totals.excluded))
                    measured = measure(rate, totals, minimum=self.minimum, better=better, with_bounds=not value)
                    found.setdefault((endpoint, name), {})[rate.name] = measured
                continue
            units = of_units(part, rate)
            for place in places(part, rate, pooled=self.pooled):
                for endpoint in range(len(table.endpoints)):
                    totals = place.totals(units, endpoint)
                    if value:
                        totals = _of(totals, np.flatnonzero(totals.counted + totals.excluded))
                    measured = measure(rate, totals, minimum=self.minimum, better=better, with_bounds=not value)
                    found.setdefault((endpoint, place.name), {})[rate.name] = measured
        names = [*table.datasets, *([COMBINED] if self.pooled else [])]
        return [
            Row(table.endpoints[endpoint], name, value, label, verdicts[endpoint, name], found[endpoint, name])
            for endpoint in range(len(table.endpoints))
            for name in names
        ]

    def _of_kinds(self, kinds: Kinds, counts: Ints, rate: Rate) -> Iterator[tuple[int, str, Totals]]:
        """What a rate counts of each model on each data set, and pooled, by the kinds of units."""
        arm, verdicts = int(rate.arm == "control"), np.arange(kinds.none + 1)
        for endpoint in range(len(kinds.table.endpoints)):
            for at, name in enumerate(kinds.table.datasets):
                yield endpoint, name, kinds.totals(rate, verdicts, counts[endpoint, at, arm])
            if self.pooled:
                yield endpoint, COMBINED, kinds.totals(rate, verdicts, counts[endpoint, :, arm].sum(axis=0))

    def _named(self, table: VerdictTable, counts: Ints) -> dict[tuple[int, str], Counter[str]]:
        found = {
            (endpoint, name): _named(table.verdicts, counts[endpoint, at])
            for endpoint in range(len(table.endpoints))
            for at, name in enumerate(table.datasets)
        }
        if self.pooled:
            found |= {
                (endpoint, COMBINED): _named(table.verdicts, counts[endpoint].sum(axis=0))
                for endpoint in range(len(table.endpoints))
            }
        return found


def _verdicts(table: VerdictTable) -> Ints:
    """How many there are by model, data set and verdict, controls left out."""
    shape = (len(table.endpoints), len(table.datasets), 2, len(table.verdicts))
    arm = table.unit_dataset * 2 + table.unit_is_control
    place = (table.endpoint * (shape[1] * 2) + arm[table.unit]) * shape[3] + table.verdict
    return np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)[:, :, 0]


def _of(totals: Totals, places: Ints) -> Totals:
    return totals.map(lambda values: values[places])


def _named(names: Sequence[str], counts: Iterable[int]) -> Counter[str]:
    return Counter({name: int(n) for name, n in zip(names, counts, strict=True) if n})


@dataclass(frozen=True, slots=True)
class Ending:
    """How responses of one model on one data set ended, and what was made of it.

    `kind`: judged, an outcome without an answer, or why an answer has no verdict. `responses`: None where the kind is one of
    judgments. `criteria`: how many, `counted`: of them with a verdict. `rule`: how the outcome is counted.
    """

    endpoint: str
    dataset: str
    kind: str
    responses: int | None
    criteria: int
    counted: int
    rule: str


def endings(table: VerdictTable, rules: Mapping[str, str]) -> list[Ending]:
    """Every model's, on every data set and in the order of the kinds; those that did not occur are left out."""
    datasets, kinds = len(table.datasets), len(table.kinds)
    key = (table.endpoint * datasets + table.unit_dataset[table.unit]) * kinds + table.kind
    shape = (len(table.endpoints), datasets, kinds)
    criteria = np.bincount(key, minlength=int(np.prod(shape))).reshape(shape)
    judged = table.verdict != table.verdicts.index(UNJUDGED)
    counted = np.bincount(key[judged], minlength=int(np.prod(shape))).reshape(shape)
    found = []
    for who, endpoint in enumerate(table.endpoints):
        for at, dataset in enumerate(table.datasets):
            for place, kind in enumerate(table.kinds):
                outcome = "answered" if not place else kind
                of_responses = outcome in rules and outcome not in JUDGE_FAILURES
                responses = table.responses.get((who, at, outcome), 0) if not place or of_responses else None
                if responses or criteria[who, at, place]:
                    n, of = int(criteria[who, at, place]), int(counted[who, at, place])
                    rule = rules.get(outcome, "excluded")
                    found.append(Ending(endpoint, dataset, kind, responses, n, of, rule))
    return found
