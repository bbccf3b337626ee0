"""Scores beside verdicts: means, spread and intervals of what code gave each response, by model, data set and breakdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
from django.db.models import F
from numpy.typing import NDArray

from evaluation.metrics import UNJUDGED
from evaluation.models import ResponseScore, Run
from evaluation.protocol import ScoreRule
from evaluation.reports.numbers.counting import COMBINED
from evaluation.reports.numbers.kinds import independent
from evaluation.reports.numbers.verdict_table import Ints, VerdictTable, listed
from evaluation.statistics.means import mean_interval

Floats = NDArray[np.float64]
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of a box: whiskers, quartiles, median


@dataclass(frozen=True, slots=True)
class MeasuredScore:
    """The mean of a score with its 95 % interval over clusters; None where nothing has it. `n`: how many have it.

    `without`: judgments with a verdict that have no such number, as the score's rule says. `low`, `high`: None where there
    are too few clusters. `box`: the 5th, 25th, 50th, 75th and 95th percentiles.
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


def with_scores(run: Run, table: VerdictTable, rules: Sequence[ScoreRule]) -> VerdictTable:
    """The table with the numbers of each judgment beside it. What has no verdict has none."""
    if not rules:
        return table
    found = {rule.name: np.full(len(table.verdict), np.nan) for rule in rules}
    known = max(len(table.rubric_ids), 1)
    key = table.response * known + table.rubric
    order: Any = slice(None)
    if not (key[1:] > key[:-1]).all():
        order = np.argsort(key, kind="stable")
    in_order = key[order]
    unjudged = table.verdict == table.verdicts.index(UNJUDGED)
    for names, numbers in _stored(run):
        rubric = np.searchsorted(table.rubric_ids, numbers[:, 1].astype(np.int64))
        wanted = numbers[:, 0].astype(np.int64) * known + rubric
        place = np.searchsorted(in_order, wanted)
        place[place == len(in_order)] = 0
        there = in_order[place] == wanted if len(in_order) else np.zeros(len(wanted), dtype=np.bool_)
        for at, name in enumerate(names, 2):
            if name in found:
                rows = place[there] if isinstance(order, slice) else order[place[there]]
                found[name][rows] = numbers[there, at]
    for each in found.values():
        each[unjudged] = np.nan
    return replace(table, scores=found)


def _stored(run: Run) -> list[tuple[list[str], Floats]]:
    """(names, a row for each response and rubric: their numbers, and the scores): one statement for all of a run."""
    rows = ResponseScore.objects.filter(run=run).order_by()
    columns = F("response_id"), F("rubric_id"), F("numbers")
    return [
        (names.split(), np.fromstring(text, dtype=np.float64, sep=" ").reshape(-1, 2 + len(names.split())))
        for names, text in rows.values_list("names").annotate(listed=listed(*columns))
    ]


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
    """A row for each model and data set in which something is scored. `rows`: the judgments of a value of a breakdown."""
    if not rules:
        return ()
    chosen = np.arange(len(table.verdict)) if rows is None else rows
    chosen = chosen[~table.unit_is_control[table.unit[chosen]]]
    judged = chosen[table.verdict[chosen] != table.verdicts.index(UNJUDGED)]
    some = np.zeros(len(judged), dtype=np.bool_)
    for rule in rules:
        some |= np.isfinite(table.scores[rule.name][judged])
    datasets = len(table.datasets)
    of_all = np.bincount(_cell(table, judged), minlength=len(table.endpoints) * datasets)
    scored = judged[some]
    cell = _cell(table, scored)
    in_order = scored[np.argsort(cell, kind="stable")]
    ends = np.cumsum(np.bincount(cell, minlength=len(table.endpoints) * datasets))
    parts = np.split(in_order, ends[:-1])
    alone = independent(table, pooled=pooled) is not None
    found = []
    for who, endpoint in enumerate(table.endpoints):
        places = [(name, [who * datasets + at]) for at, name in enumerate(table.datasets)]
        if pooled:
            places.append((COMBINED, [who * datasets + at for at in range(datasets)]))
        for name, cells in places:
            own = np.concatenate([parts[at] for at in cells])
            n = int(of_all[cells].sum())
            if n:
                measured = {rule.name: _measure(table, rule, own, n, minimum, alone=alone) for rule in rules}
                found.append(ScoreRow(endpoint, name, value, label, measured))
    return tuple(found)


def _cell(table: VerdictTable, rows: Ints) -> Ints:
    found: Ints = table.endpoint[rows] * len(table.datasets) + table.unit_dataset[table.unit[rows]]
    return found


def _measure(
    table: VerdictTable, rule: ScoreRule, rows: Ints, judged: int, minimum: int, *, alone: bool
) -> MeasuredScore:
    numbers = table.scores[rule.name][rows]
    has = np.isfinite(numbers)
    if not has.all():
        numbers, rows = numbers[has], rows[has]
    if not len(numbers):
        return MeasuredScore(0, judged)
    clusters = None if alone else table.unit_cluster[table.unit[rows]]
    mean, low, high, count = mean_interval(numbers, clusters, minimum=minimum, within=(rule.low, rule.high))
    deviation = sqrt(float(numbers.var(ddof=1))) if len(numbers) > 1 else None
    box: Any = np.quantile(numbers, SHARES)
    return MeasuredScore(len(numbers), judged - len(numbers), mean, deviation, low, high, count, tuple(map(float, box)))
