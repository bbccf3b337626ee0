"""Rates computed from verdicts, with numerator, denominator, interval and number of exclusions."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from evaluation.numbers.rates import Rate
from evaluation.numbers.scores import Score
from evaluation.statistics.clusters import Floats
from evaluation.statistics.intervals import MINIMUM, Method, f_intervals, mean_interval, rate_intervals
from review.rules.shown_fields import Hidden, Shown, shown


@dataclass(frozen=True)  # no slots: they pickle slowly
class RateBounds:
    """The rate if all exclusions had counted for the model (`best`), or against it (`worst`).

    `low`, `high`: the outer ends of the intervals of these two rates, if they have any.
    """

    best: float
    worst: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)  # no slots: they pickle slowly
class MeasuredRate:
    """A rate as counted. `value` is None, not zero, if nothing was counted.

    Numerator and denominator are sums of weights. `excluded` is a number of criteria, or of samples
    for a rate over samples.
    `low`, `high`: the 95 % interval by `method`; None if there are too few `clusters`.
    `n`: how many criteria or samples were counted, without weights.
    `score`: the value, if it is a mean over samples instead of a quotient. Numerator and
    denominator are then the points reached and the points possible.
    `partial`: it pools data sets of which one was asked and has no verdict. It then has no value,
    which would be that of the others alone.
    """

    numerator: int
    denominator: int
    excluded: Annotated[int, Shown("unjudged")]
    low: float | None = field(default=None, compare=False)
    high: float | None = field(default=None, compare=False)
    method: str = field(default=Method.UNDEFINED.value, compare=False)
    clusters: int = field(default=0, compare=False)
    n: int = field(default=0, compare=False)
    bounds: Hidden[RateBounds | None] = field(default=None, compare=False)
    score: Hidden[float | None] = field(default=None, compare=False)
    partial: Hidden[bool] = False

    @property
    @Shown("rate")
    def value(self) -> float | None:
        if self.partial:
            return None
        if self.score is not None:
            return self.score
        if self.denominator:
            return self.numerator / self.denominator
        return None

    @property
    def interval(self) -> tuple[float, float] | None:
        if self.low is None or self.high is None:
            return None
        return (self.low, self.high)

    @property
    def too_few(self) -> bool:
        """Whether there is a value, and not enough to say how sure it is."""
        return self.value is not None and self.interval is None

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to judge for this rate."""
        return not (self.denominator or self.excluded)

    def pooling(self, parts: Iterable["MeasuredRate"]) -> "MeasuredRate":
        """This rate over all data sets, `partial` if one of its `parts` has exclusions alone."""
        if not self.denominator or not any(part.excluded and not part.denominator for part in parts):
            return self
        return replace(self, low=None, high=None, method=Method.UNDEFINED.value, bounds=None, score=None, partial=True)

    @property
    @shown
    def best(self) -> float | None:
        if self.bounds:
            return self.bounds.best
        return None

    @property
    @shown
    def worst(self) -> float | None:
        if self.bounds:
            return self.bounds.worst
        return None


# The sums of a rate in a unit or a cluster.
# `hits`, `counted`: weights of the numerator and of the denominator; for a rate with a score, the
# scores of samples, and how many they are.
# `number`, `excluded`: how many criteria or samples are counted, or excluded, without weights.
# `scope`: how many criteria or samples have a verdict in the scope of the rate, counted or not: a
# true negative is in the scope of F1 and precision, though neither counts it.
# `unsure`: samples counted as passed although some of their criteria are excluded.
# `missing`: the weights of the exclusions.
# `reached`, `possible`: points, for a rate with a score.
FIELDS = ("hits", "counted", "number", "excluded", "scope", "unsure", "missing", "reached", "possible")
SUMS = np.dtype([(name, np.float64) for name in FIELDS])
Sums = NDArray[np.void]  # an array of `SUMS`: `sums["hits"]` is an array of numbers


def measure(
    rate: Rate, sums: Sums, *, minimum: int = MINIMUM, better: str = "low", with_bounds: bool = True
) -> list[MeasuredRate]:
    """The rate of each model with its interval over clusters, which are samples or their records.

    `sums`: (models, clusters). `better`: whether a 'low' or a 'high' rate speaks for the model.
    """
    if rate.score:
        return [_measure_score(rate.score, of_model, minimum) for of_model in sums]
    is_counted = sums["counted"] > 0
    hits, counted = np.where(is_counted, sums["hits"], 0.0), np.where(is_counted, sums["counted"], 0.0)
    n = _totals(np.where(is_counted, sums["number"], 0.0))
    weights = set(rate.hits.values())
    if rate.is_proportion:
        intervals = rate_intervals(hits, counted, minimum=minimum)
    elif not rate.weights and len(weights) == 1:
        intervals = f_intervals(hits, counted, weight=weights.pop(), minimum=minimum)
    else:
        intervals = rate_intervals(hits, counted, n=n, minimum=minimum)
    bounds = _bounds(rate, sums, minimum, better, with_bounds)
    clusters = np.count_nonzero(is_counted, axis=1).tolist()
    columns = _totals(sums["hits"]), _totals(sums["counted"]), _totals(sums["excluded"])
    measured = []
    for model, (numerator, denominator, excluded) in enumerate(zip(*columns, strict=True)):
        if not denominator:
            measured.append(MeasuredRate(numerator, denominator, excluded))
            continue
        found = intervals[model]
        ends = found.low, found.high, found.method.value, clusters[model], n[model]
        measured.append(MeasuredRate(numerator, denominator, excluded, *ends, bounds=bounds[model]))
    return measured


def _totals(values: Floats) -> list[int]:
    """The sum of each row over its clusters."""
    return [round(total) for total in values.sum(axis=1).tolist()]


def _measure_score(score: Score, sums: Sums, minimum: int) -> MeasuredRate:
    """The mean score of samples with its interval over clusters, both cut off at its limits."""
    names = ("counted", "excluded", "reached", "possible")
    samples, excluded, reached, possible = [round(float(sums[name].sum())) for name in names]
    if not samples:
        return MeasuredRate(0, 0, excluded)
    _, low, high, clusters = mean_interval(sums["hits"], sums["counted"], minimum=minimum, limits=score.limits)
    method = Method.MEAN
    if low is None:
        method = Method.TOO_FEW
    mean = score.cut(float(sums["hits"].sum()) / samples)
    return MeasuredRate(reached, possible, excluded, low, high, method.value, clusters, samples, score=mean)


def _bounds(rate: Rate, sums: Sums, minimum: int, better: str, with_intervals: bool) -> list[RateBounds | None]:
    """The worst-case bounds of each model's rate: excluded outcomes all passed, and all failed.

    sum(y) / sum(m + x) and sum(y + x) / sum(m + x), y being the hits, m the counted and x the
    excluded, with no assumption on why outcomes are missing (Manski 1989, J. Hum. Resour. 24;
    Horowitz & Manski 2000, J. Am. Stat. Assoc. 95). From `low` to `high` they cover the rate with
    at least 95 %, whatever the excluded outcomes would have been. None where nothing is counted.
    """
    if not rate.is_proportion:
        return _bounds_of_weights(rate, sums, better)
    y, x = sums["hits"], sums["excluded"] + sums["unsure"]
    possible = sums["counted"] + sums["excluded"]
    lows, highs = list[float | None]([None] * len(sums)), list[float | None]([None] * len(sums))
    if with_intervals:
        unsure = np.flatnonzero(x.any(axis=1))
        passed = rate_intervals(y[unsure], possible[unsure], minimum=minimum)
        failed = rate_intervals((y + x)[unsure], possible[unsure], minimum=minimum)
        for model, best, worst in zip(unsure, passed, failed, strict=True):
            lows[model], highs[model] = best.low, worst.high
    bounds: list[RateBounds | None] = []
    for hits, excluded, whole, low, high in zip(_totals(y), _totals(x), _totals(possible), lows, highs, strict=True):
        if not whole:
            bounds.append(None)
            continue
        ends = hits / whole, (hits + excluded) / whole
        if better != "low":
            ends = ends[1], ends[0]
        bounds.append(RateBounds(*ends, low, high))
    return bounds


def _bounds_of_weights(rate: Rate, sums: Sums, better: str) -> list[RateBounds | None]:
    """The lowest and highest rate that any single verdict on all exclusions would give.

    Single verdicts suffice: a ratio of sums, to both of which each missing item adds, is extreme
    when all items add the same. Criteria without a weight are not part of a weighted rate, whatever
    their verdict.
    """
    bounds: list[RateBounds | None] = []
    columns = _totals(sums["hits"]), _totals(sums["counted"]), _totals(sums["missing"])
    for hits, counted, missing in zip(*columns, strict=True):
        if not counted:
            bounds.append(None)
            continue
        ends = []
        for verdict in rate.scope_verdicts:
            y, m = rate.hits.get(verdict, 0), rate.counted.get(verdict, 0)
            ends.append((hits + missing * y) / (counted + missing * m))
        best, worst = min(ends), max(ends)
        if better != "low":
            best, worst = worst, best
        bounds.append(RateBounds(best, worst))
    return bounds
