"""Contingency tables of verdicts, for runs whose samples are independent and have one criterion.

Samples with the same verdict are then interchangeable: rates, intervals and comparisons follow from
a handful of counts, even for a million judgments. The results equal those of `counting` and
`comparing` over single samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import Totals
from evaluation.protocol import Rate
from evaluation.reports.numbers.verdict_table import INDEX_TYPE, Ints, VerdictTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ContingencyTable:
    """Counts units (a sample in one data set) by model, data set, arm and verdict.

    Attributes:
        table: the verdicts that are counted.
        verdicts: (models, units), the index of the verdict; `no_verdict` without a judgment.
        no_verdict: the index after the last verdict.
        arm: of each unit, 0 for a trap sample, 1 for a control.
        cell: of each judgment, its model, data set, arm and verdict as one index.
    """

    table: VerdictTable
    verdicts: Ints
    no_verdict: int
    arm: Ints
    cell: Ints

    def unit_counts(self, rows: Ints | None, *, missing: bool) -> Ints:
        """The numbers of units, by model, data set, arm and verdict.

        `rows`: the judgments to count; None: all. `missing`: also count units without a judgment.
        """
        table = self.table
        datasets = len(table.datasets)
        shape = (len(table.endpoints), datasets, 2, self.no_verdict + 1)
        cell = self.cell if rows is None else self.cell[rows]
        counts = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape)
        if missing:
            units = np.bincount(table.unit_dataset * 2 + self.arm, minlength=datasets * 2).reshape(datasets, 2)
            counts[..., self.no_verdict] = units - counts.sum(axis=-1)
        return counts

    def pair_counts(self, models: Sequence[tuple[int, int]], rows: Ints | None) -> list[Ints]:
        """For each pair of models, the numbers of units by data set, arm and both verdicts.

        `rows`: judgments whose units are counted; None: all units, each pair computed only once.
        """
        table, size = self.table, self.no_verdict + 1
        shape = (len(table.datasets), 2, size, size)
        chosen: Any = slice(None)
        counts: dict[tuple[int, int], Ints] = {}
        if rows is None:
            counts = table.memo.setdefault("pair counts", counts)
        else:
            chosen = np.zeros(table.units, dtype=np.bool_)
            chosen[table.unit[rows]] = True
        uncounted = [pair for pair in models if pair not in counts]
        if uncounted:
            cell = (table.unit_dataset[chosen] * 2 + self.arm[chosen]) * size
            verdicts = {model: self.verdicts[model][chosen] for pair in uncounted for model in pair}
        for first, second in uncounted:
            key = (cell + verdicts[first]) * size + verdicts[second]
            counts[first, second] = np.bincount(key, minlength=int(np.prod(shape))).reshape(shape)
        return [counts[pair] for pair in models]

    def totals(self, rate: Rate, verdicts: Ints, frequencies: Ints) -> Totals:
        """The totals of a rate over units, `frequencies` of each of these verdicts."""
        hits, denominators, is_counted, excluded = self._verdict_weights(rate)
        nonzero = frequencies > 0
        verdicts = verdicts[nonzero]
        counted = denominators[verdicts]
        numbers = is_counted[verdicts] if max(rate.counted.values()) > 1 else counted
        return Totals(
            hits[verdicts], counted, numbers, excluded[verdicts], frequencies=frequencies[nonzero].astype(np.float64)
        )

    def _verdict_weights(self, rate: Rate) -> tuple[Ints, ...]:
        """Of each verdict, and of its absence, four arrays.

        Its weights in numerator and denominator, whether it counts, whether it is excluded.
        """
        arrays: tuple[Ints, ...] | None = self.table.memo.get(("weights", rate.name))
        if arrays is None:
            names = [*self.table.verdicts, ""]
            hits, denominators = ([weights.get(name, 0) for name in names] for weights in (rate.hits, rate.counted))
            excluded = [name not in rate.scope_verdicts and name != "" for name in names]
            rows = hits, denominators, [weight > 0 for weight in denominators], excluded
            arrays = self.table.memo["weights", rate.name] = tuple(np.array(row, dtype=np.int64) for row in rows)
        return arrays


def depends_on_verdicts_alone(rate: Rate) -> bool:
    """Whether the rate can be computed from the verdicts of units alone."""
    return rate.unit == "criterion" and not any((rate.weighted, rate.polarity, rate.rubric, rate.points))


def contingency_for(table: VerdictTable, rates: Sequence[Rate], *, pooled: bool) -> ContingencyTable | None:
    """The contingency table, if it can serve at least one of these rates."""
    return contingency_table(table, pooled=pooled) if any(map(depends_on_verdicts_alone, rates)) else None


def contingency_table(table: VerdictTable, *, pooled: bool) -> ContingencyTable | None:
    """The contingency table of all verdicts.

    None where a model has several judgments on a sample, or several samples share a cluster.
    """
    key = ("contingency", pooled)
    if key not in table.memo:
        table.memo[key] = _contingency_table(table, pooled=pooled)
    contingency: ContingencyTable | None = table.memo[key]
    return contingency


def _contingency_table(table: VerdictTable, *, pooled: bool) -> ContingencyTable | None:
    cells = len(table.endpoints) * table.units
    key = table.endpoint * table.units + table.unit  # less than the number of cells
    if not cells or (len(key) and np.bincount(key, minlength=cells).max() > 1):
        return None
    arm = table.unit_is_control.astype(INDEX_TYPE)
    cell = arm if pooled else table.unit_dataset * 2 + arm
    _known, cluster = np.unique(table.unit_cluster, return_inverse=True)
    if np.bincount(cluster * (int(cell.max(initial=0)) + 1) + cell).max(initial=0) > 1:
        return None
    no_verdict = len(table.verdicts)
    verdicts = np.full(cells, no_verdict, dtype=INDEX_TYPE)
    verdicts[key] = table.verdict
    of_unit = table.unit_dataset * 2 + arm
    of_judgment = (table.endpoint * len(table.datasets) * 2 + of_unit[table.unit]) * (no_verdict + 1) + table.verdict
    return ContingencyTable(table, verdicts.reshape(len(table.endpoints), table.units), no_verdict, arm, of_judgment)
