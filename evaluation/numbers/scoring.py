"""Scores that code gives responses: mean, spread and interval by model, data set, breakdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np

from evaluation.numbers.frame import Frame, as_array
from evaluation.numbers.late import pl
from evaluation.numbers.rules import COMBINED, UNJUDGED
from evaluation.protocol import ScoreRule
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.intervals import mean_interval
from review.rules.shown_fields import Hidden, Shown, shown

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
    deviation: Annotated[float | None, Shown("sd")] = None
    low: float | None = field(default=None, compare=False)
    high: float | None = field(default=None, compare=False)
    clusters: int = 0
    box: Hidden[tuple[float, ...]] = ()

    @property
    def too_few(self) -> bool:
        return bool(self.n) and self.low is None

    @property
    @shown
    def p5(self) -> float | None:
        if self.box:
            return self.box[0]
        return None

    @property
    @shown
    def q1(self) -> float | None:
        if self.box:
            return self.box[1]
        return None

    @property
    @shown
    def median(self) -> float | None:
        if self.box:
            return self.box[2]
        return None

    @property
    @shown
    def q3(self) -> float | None:
        if self.box:
            return self.box[3]
        return None

    @property
    @shown
    def p95(self) -> float | None:
        if self.box:
            return self.box[4]
        return None


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The scores of one model on one data set, overall or for one value of a breakdown."""

    endpoint: str
    dataset: str
    value: str
    label: str
    scores: Mapping[str, MeasuredScore]


def with_scores(frame: Frame, rules: Sequence[ScoreRule], scores: pl.DataFrame) -> Frame:
    """The frame with a column `score/NAME` for each score that code gave responses.

    `scores`: response, rubric, and a column for each name. Judgments without a verdict have none.
    """
    is_judged = pl.col("verdict") != UNJUDGED
    columns = []
    for rule in rules:
        if rule.name in scores.columns:
            known = pl.col(rule.name)
        else:
            known = pl.lit(None, dtype=pl.Float64)
        columns.append(pl.when(is_judged).then(known.fill_nan(None)).alias(f"score/{rule.name}"))
    names = [name for name in scores.columns if name not in ("response", "rubric")]
    rows = frame.rows.join(scores, on=["response", "rubric"], how="left", maintain_order="left")
    return replace(frame, rows=rows.with_columns(columns).drop(names))


def score_rows(
    frame: Frame, rows: pl.DataFrame, rules: Sequence[ScoreRule], labels: Mapping[str, str], minimum: int
) -> tuple[ScoreRow, ...]:
    """A row for each value of a facet, model and data set that has judged responses.

    `rows`: from `Frame.by_value`. `labels`: of the values, in their order.
    """
    if not rules:
        return ()
    judged = rows.filter(pl.col("verdict") != UNJUDGED)
    cells = judged.partition_by("value", "model", "dataset", as_dict=True)
    result = []
    for value, label in labels.items():
        for model in frame.models:
            parts = {}
            for name in frame.datasets:
                if (value, model, name) in cells:
                    parts[name] = cells[value, model, name]
            if frame.pooled and parts:
                parts[COMBINED] = pl.concat(parts.values())
            for name, of_cell in parts.items():
                scores = {rule.name: _measure(of_cell, rule, minimum) for rule in rules}
                result.append(ScoreRow(model, name, value, label, scores))
    return tuple(result)


def _measure(rows: pl.DataFrame, rule: ScoreRule, minimum: int) -> MeasuredScore:
    scored = rows.drop_nulls(f"score/{rule.name}")
    if scored.is_empty():
        return MeasuredScore(0, len(rows))
    numbers = as_array(scored[f"score/{rule.name}"])
    sums, sizes = cluster_totals(as_array(scored["cluster"]), numbers, np.ones(len(scored)))
    mean, low, high, count = mean_interval(sums, sizes, minimum=minimum, limits=(rule.low, rule.high))
    deviation = None
    if len(numbers) > 1:
        deviation = float(numbers.std(ddof=1))
    box = tuple(np.quantile(numbers, SHARES).tolist())
    return MeasuredScore(len(numbers), len(rows) - len(numbers), mean, deviation, low, high, count, box)
