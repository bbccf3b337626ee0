"""Runs whose samples have one judgment each and are independent: samples with the same verdict are one kind, counted once.

A million judgments of one criterion come to a handful of kinds, and every rate, interval and comparison follows from how many
there are of each. The figures are those of `counting` and `comparing`, which list every sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import Totals
from evaluation.protocol import Rate
from evaluation.reports.numbers.verdict_table import PLACE, Ints, VerdictTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Kinds:
    """`code`: by model and unit the place of its verdict, `none` where there is none. `arm`: of each unit, 1: a control.
    `place`: of each judgment, one number for its model, data set, arm and verdict."""

    table: VerdictTable
    code: Ints
    none: int
    arm: Ints
    place: Ints

    def counts(self, rows: Ints | None, *, missing: bool) -> Ints:
        """How many units there are by model, data set, arm and verdict. `missing`: those without a judgment too."""
        table = self.table
        datasets = len(table.datasets)
        shape = (len(table.endpoints), datasets, 2, self.none + 1)
        place = self.place if rows is None else self.place[rows]
        found = np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)
        if missing:
            units = np.bincount(table.unit_dataset * 2 + self.arm, minlength=datasets * 2).reshape(datasets, 2)
            found[..., self.none] = units - found.sum(axis=-1)
        return found

    def pairs(self, models: Sequence[tuple[int, int]], rows: Ints | None) -> list[Ints]:
        """How many units there are by data set, arm, verdict of one model and of the other, for each pair of models.

        `rows`: of these judgments; without them, each pair is counted once.
        """
        table, size = self.table, self.none + 1
        shape = (len(table.datasets), 2, size, size)
        chosen: Any = slice(None)
        known: dict[tuple[int, int], Ints] = {}
        if rows is None:
            known = table.memo.setdefault("pairs of kinds", known)
        else:
            chosen = np.zeros(table.units, dtype=np.bool_)
            chosen[table.unit[rows]] = True
        missing = [pair for pair in models if pair not in known]
        if missing:
            place = (table.unit_dataset[chosen] * 2 + self.arm[chosen]) * size
            code = {one: self.code[one][chosen] for pair in missing for one in pair}
        for one, other in missing:
            key = (place + code[one]) * size + code[other]
            known[one, other] = np.bincount(key, minlength=int(np.prod(shape))).reshape(shape)
        return [known[pair] for pair in models]

    def totals(self, rate: Rate, verdicts: Ints, frequencies: Ints) -> Totals:
        """What a rate counts of units of these verdicts, so many of each."""
        hits, counted, number, outside = self._weights(rate)
        some = frequencies > 0
        verdicts = verdicts[some]
        of_all = counted[verdicts]
        whole = number[verdicts] if max(rate.counted.values()) > 1 else of_all
        return Totals(
            hits[verdicts], of_all, whole, outside[verdicts], frequencies=frequencies[some].astype(np.float64)
        )

    def _weights(self, rate: Rate) -> tuple[Ints, ...]:
        """Of each verdict, and of none: its weight among the hits, in all, whether it counts, whether it is excluded."""
        known: tuple[Ints, ...] | None = self.table.memo.get(("weights", rate.name))
        if known is None:
            names = [*self.table.verdicts, ""]
            hits, counted = ([of.get(name, 0) for name in names] for of in (rate.hits, rate.counted))
            outside = [name not in rate.scope_verdicts and name != "" for name in names]
            rows = hits, counted, [weight > 0 for weight in counted], outside
            known = self.table.memo["weights", rate.name] = tuple(np.array(row, dtype=np.int64) for row in rows)
        return known


def fits(rate: Rate) -> bool:
    """Whether a rate follows from the verdicts of units alone."""
    return rate.unit == "criterion" and not any((rate.weighted, rate.polarity, rate.rubric, rate.points))


def kinds_of(table: VerdictTable, rates: Sequence[Rate], *, pooled: bool) -> Kinds | None:
    """The kinds by which some of these rates can be counted."""
    return independent(table, pooled=pooled) if any(map(fits, rates)) else None


def independent(table: VerdictTable, *, pooled: bool) -> Kinds | None:
    """None where a sample has several judgments of a model, or samples belong together."""
    known = ("kinds", pooled)
    if known not in table.memo:
        table.memo[known] = _kinds(table, pooled=pooled)
    found: Kinds | None = table.memo[known]
    return found


def _kinds(table: VerdictTable, *, pooled: bool) -> Kinds | None:
    cells = len(table.endpoints) * table.units
    key = table.endpoint * table.units + table.unit  # less than the number of cells
    if not cells or (len(key) and np.bincount(key, minlength=cells).max() > 1):
        return None
    arm = table.unit_is_control.astype(PLACE)
    place = arm if pooled else table.unit_dataset * 2 + arm
    _known, cluster = np.unique(table.unit_cluster, return_inverse=True)
    if np.bincount(cluster * (int(place.max(initial=0)) + 1) + place).max(initial=0) > 1:
        return None
    none = len(table.verdicts)
    code = np.full(cells, none, dtype=PLACE)
    code[key] = table.verdict
    of_unit = table.unit_dataset * 2 + arm
    of_judgment = (table.endpoint * len(table.datasets) * 2 + of_unit[table.unit]) * (none + 1) + table.verdict
    return Kinds(table, code.reshape(len(table.endpoints), table.units), none, arm, of_judgment)
