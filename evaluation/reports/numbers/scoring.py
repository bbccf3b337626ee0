"""Scores beside verdicts: means, spread and intervals of what code gave each response, by model, data set and breakdown."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import UNJUDGED
from evaluation.models import ResponseScore, Run
from evaluation.protocol import ScoreRule
from evaluation.reports.numbers.columns import requested_floats
from evaluation.reports.numbers.contingency import independent
from evaluation.reports.numbers.counting import COMBINED
from evaluation.reports.numbers.verdict_table import Ints, Places, VerdictTable
from evaluation.statistics.intervals import mean_interval

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


Stored = list[tuple[tuple[Any, ...], tuple[Ints, ...], Floats]]


def requested_scores(run: Run) -> Callable[[], Stored]:
    """What gives the stored numbers of a run, which the database looks for from now on where statements are `pipelined`."""
    return requested_floats(ResponseScore.objects.filter(run=run), ["names"], ["response_id", "rubric_id"], "numbers")


def with_scores(stored: Stored, table: VerdictTable, rules: Sequence[ScoreRule]) -> VerdictTable:
    """The table with the numbers of each judgment beside it. What has no verdict has none."""
    found = {rule.name: np.full(len(table.verdict), np.nan) for rule in rules}
    place_of = _judgment_places(table)
    unjudged = table.verdict == table.verdicts.index(UNJUDGED)
    for (told,), (responses, rubrics), numbers in stored:
        names = told.split()
        lines = numbers.reshape(-1, len(names))
        place, there = place_of(responses, rubrics)
        for at, name in enumerate(names):
            if name in found:
                found[name][place] = lines[there, at]
    for each in found.values():
        each[unjudged] = np.nan
    return replace(table, scores=found)


def _judgment_places(table: VerdictTable) -> Callable[[Ints, Ints], tuple[Ints, NDArray[np.bool_]]]:
    """Finds judgments by the numbers of response and rubric: (their places, which of those that were sought are there)."""
    responses = Places(table.response)
    if len(responses) == len(table.response):  # one judgment each
        place = np.empty(len(responses), dtype=np.int64)
        place[responses(table.response)] = np.arange(len(place))
        rubric_ids = table.rubric_ids[table.rubric]

        def by_response(response: Ints, rubric: Ints) -> tuple[Ints, NDArray[np.bool_]]:
            there = responses.has(response)
            found = place[responses(response[there])]
            same = rubric_ids[found] == rubric[there]
            there[there] = same
            return found[same], there

        return by_response
    known = max(len(table.rubric_ids), 1)
    key = table.response * known + table.rubric
    order = np.argsort(key)
    in_order = key[order]

    def by_both(response: Ints, rubric: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        wanted = response * known + np.searchsorted(table.rubric_ids, rubric)
        place = np.minimum(np.searchsorted(in_order, wanted), len(in_order) - 1)
        there = in_order[place] == wanted
        return order[place[there]], there

    return by_both


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
    judged, is_scored = _cells(table, rules)
    datasets, chosen = len(table.datasets), slice(None) if rows is None else rows
    count = len(table.endpoints) * datasets
    of_all = np.bincount(judged[chosen], minlength=count + 1)
    scored = np.flatnonzero(is_scored) if rows is None else rows[is_scored[rows]]
    cell = judged[scored]
    in_order = scored[np.argsort(cell, kind="stable")]
    parts = np.split(in_order, np.cumsum(np.bincount(cell, minlength=count + 1))[: count - 1])
    alone = independent(table, pooled=pooled) is not None
    found = []
    for who, endpoint in enumerate(table.endpoints):
        places = [(name, [who * datasets + at]) for at, name in enumerate(table.datasets)]
        if pooled:
            places.append((COMBINED, [who * datasets + at for at in range(datasets)]))
        for name, cells in places:
            n = int(of_all[cells].sum())
            if n:
                own = np.concatenate([parts[at] for at in cells])
                measured = {rule.name: _measure(table, rule, own, n, minimum, alone=alone) for rule in rules}
                found.append(ScoreRow(endpoint, name, value, label, measured))
    return tuple(found)


def _cells(table: VerdictTable, rules: Sequence[ScoreRule]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Of each judgment, (model and data set as one number, and whether it has a score); without a verdict, or of a control
    sample, it has the number after the last."""
    known: tuple[NDArray[Any], NDArray[np.bool_]] | None = table.memo.get("scored")
    if known is None:
        count = len(table.endpoints) * len(table.datasets)
        out = (table.verdict == table.verdicts.index(UNJUDGED)) | table.unit_is_control[table.unit]
        cell = table.endpoint * len(table.datasets) + table.unit_dataset[table.unit]
        some = np.logical_or.reduce([np.isfinite(table.scores[rule.name]) for rule in rules]) & ~out
        # Of the smallest type, as numbers of two bytes are sorted ten times as fast.
        known = table.memo["scored"] = np.where(out, count, cell).astype(np.min_scalar_type(count)), some
    return known


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
    mean, low, high, count = mean_interval(numbers, clusters, minimum=minimum, limits=(rule.low, rule.high))
    deviation = sqrt(float(numbers.var(ddof=1))) if len(numbers) > 1 else None
    return MeasuredScore(len(numbers), judged - len(numbers), mean, deviation, low, high, count, _quantiles(numbers))


def _quantiles(numbers: Floats) -> tuple[float, ...]:
    """What `np.quantile` says of `SHARES`, without its checks, which take longer for a few thousand numbers. All are sorted:
    that takes a third of the time of its partition into nine."""
    places = [share * (len(numbers) - 1) for share in SHARES]
    below = [int(place) for place in places]
    above = [min(at + 1, len(numbers) - 1) for at in below]
    ordered = np.sort(numbers)
    found = []
    for place, low, high in zip(places, below, above, strict=True):
        first, last, part = float(ordered[low]), float(ordered[high]), place - low
        found.append(last - (last - first) * (1 - part) if part >= 0.5 else first + (last - first) * part)
    return tuple(found)
