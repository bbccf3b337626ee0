"""Scores that code gives responses: mean, spread and interval by model, data set, breakdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.protocol import ScoreRule
from evaluation.reports.numbers.counting import COMBINED
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.intervals import mean_interval
from evaluation.verdicts.selection import UNJUDGED, Ints
from evaluation.verdicts.table import ScoreGroup, VerdictTable

Floats = NDArray[np.float64]
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of a box plot: whiskers, quartiles, median


@dataclass(frozen=True, slots=True)
class MeasuredScore:
    """The mean of a score with its 95 % interval over clusters; None if no judgment has the score.

    `n`: the judgments that have it. `without`: those with a verdict that do not, by the score's
    rule. `low`, `high`: None if there are too few clusters. `box`: the 5th, 25th, 50th, 75th and
    95th percentiles.
    """

    n: int
    without: int
    mean: float | None = None
    deviation: float | None = None
    low: float | None = field(default=None, compare=False)
    high: float | None = field(default=None, compare=False)
    clusters: int = 0
    box: tuple[float, ...] = ()

    @property
    def too_few(self) -> bool:
        return bool(self.n) and self.low is None


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The scores of one model on one data set, overall or for one value of a breakdown."""

    endpoint: str
    dataset: str
    value: str
    label: str
    scores: Mapping[str, MeasuredScore]


def with_scores(table: VerdictTable, rules: Sequence[ScoreRule], groups: Iterable[ScoreGroup]) -> VerdictTable:
    """The table with the scores of each judgment added.

    Judgments without a verdict have none.
    """
    scores = {rule.name: np.full(len(table.verdict), np.nan) for rule in rules}
    for group in groups:
        places = table.places(group.responses, group.rubrics)
        is_found = places >= 0
        for column, name in enumerate(group.names):
            if name in scores:
                scores[name][places[is_found]] = group.numbers[is_found, column]
    unjudged = table.verdict == table.verdicts.index(UNJUDGED)
    for values in scores.values():
        values[unjudged] = np.nan
    return replace(table, scores=scores)


def score_rows(
    table: VerdictTable,
    rules: Sequence[ScoreRule],
    *,
    pooled: bool,
    minimum: int,
    value: str = "",
    rows: Ints | None = None,
    label: str = "",
) -> tuple[ScoreRow, ...]:
    """A row for each model and data set that has judged responses.

    `rows`: the judgments with `value` of a breakdown; None: all.
    """
    if not rules:
        return ()
    cells, is_scored = _cells(table, rules)
    datasets, chosen = len(table.datasets), slice(None) if rows is None else rows
    count = len(table.endpoints) * datasets
    judged_counts = np.bincount(cells[chosen], minlength=count + 1)
    scored = np.flatnonzero(is_scored) if rows is None else rows[is_scored[rows]]
    scored_cells = cells[scored]
    by_cell = scored[np.argsort(scored_cells, kind="stable")]
    parts = np.split(by_cell, np.cumsum(np.bincount(scored_cells, minlength=count + 1))[: count - 1])
    result = []
    for endpoint_position, endpoint in enumerate(table.endpoints):
        groups = [(name, [endpoint_position * datasets + position]) for position, name in enumerate(table.datasets)]
        if pooled:
            groups.append((COMBINED, [endpoint_position * datasets + position for position in range(datasets)]))
        for name, dataset_cells in groups:
            n = int(judged_counts[dataset_cells].sum())
            if n:
                scored_rows = np.concatenate([parts[position] for position in dataset_cells])
                measured = {rule.name: _measure(table, rule, scored_rows, n, minimum) for rule in rules}
                result.append(ScoreRow(endpoint, name, value, label, measured))
    return tuple(result)


def _cells(table: VerdictTable, rules: Sequence[ScoreRule]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The cell (model and data set as one number) of each judgment, and whether it has a score.

    Judgments without a verdict or on control samples are in the cell after the last.
    """
    count = len(table.endpoints) * len(table.datasets)
    is_left_out = (table.verdict == table.verdicts.index(UNJUDGED)) | table.unit_is_control[table.unit]
    cell = table.endpoint * len(table.datasets) + table.unit_dataset[table.unit]
    has_score = np.logical_or.reduce([np.isfinite(table.scores[rule.name]) for rule in rules]) & ~is_left_out
    return np.where(is_left_out, count, cell), has_score


def _measure(table: VerdictTable, rule: ScoreRule, rows: Ints, judged: int, minimum: int) -> MeasuredScore:
    numbers = table.scores[rule.name][rows]
    has_score = np.isfinite(numbers)
    if not has_score.all():
        numbers, rows = numbers[has_score], rows[has_score]
    if not len(numbers):
        return MeasuredScore(0, judged)
    sums, sizes = cluster_totals(table.unit_cluster[table.unit[rows]], numbers, np.ones(len(rows)))
    mean, low, high, count = mean_interval(sums, sizes, minimum=minimum, limits=(rule.low, rule.high))
    deviation = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
    box = tuple(np.quantile(numbers, SHARES).tolist())
    return MeasuredScore(len(numbers), judged - len(numbers), mean, deviation, low, high, count, box)
