"""Rates computed from verdicts, with numerator, denominator, interval and number of exclusions."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from evaluation.numbers.rates import Rate
from evaluation.numbers.scores import Score
from evaluation.statistics.intervals import MINIMUM, Method, f_interval, mean_interval, rate_interval
from review.rules.answers import Hidden, Shown, shown


@dataclass(frozen=True, slots=True)
class RateBounds:
    """The rate if all exclusions had counted for the model (`best`), or against it (`worst`).

    `low`, `high`: the outer ends of the intervals of these two rates, if they have any.
    """

    best: float
    worst: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
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
) -> MeasuredRate:
    """The rate with its interval over clusters, which are samples or their source records.

    `sums`: of each cluster. `better`: whether a 'low' or a 'high' rate speaks for the model.
    """
    hits, counted, excluded = _total(sums["hits"]), _total(sums["counted"]), _total(sums["excluded"])
    if not counted and rate.score:
        return MeasuredRate(0, counted, excluded)
    if not counted:
        return MeasuredRate(hits, counted, excluded)
    if rate.score:
        return _measure_score(rate.score, sums, minimum)
    bounds = _bounds(rate, sums, minimum, better, with_bounds)
    nonempty = sums[sums["counted"] > 0]
    n, clusters = _total(nonempty["number"]), len(nonempty)
    weights = set(rate.hits.values())
    if rate.is_proportion:
        interval = rate_interval(nonempty["hits"], nonempty["counted"], minimum=minimum)
    elif not rate.weights and len(weights) == 1:
        interval = f_interval(nonempty["hits"], nonempty["counted"], weights.pop(), minimum=minimum)
    else:
        interval = rate_interval(nonempty["hits"], nonempty["counted"], n=n, minimum=minimum)
    return MeasuredRate(
        hits, counted, excluded, interval.low, interval.high, interval.method.value, clusters, n, bounds=bounds
    )


def _total(values: NDArray[Any]) -> int:
    """The sum over all clusters."""
    return round(float(values.sum()))


def _measure_score(score: Score, sums: Sums, minimum: int) -> MeasuredRate:
    """The mean score of samples with its interval over clusters, both cut off at its limits."""
    samples = _total(sums["counted"])
    _, low, high, clusters = mean_interval(sums["hits"], sums["counted"], minimum=minimum, limits=score.limits)
    method = Method.MEAN
    if low is None:
        method = Method.TOO_FEW
    return MeasuredRate(
        _total(sums["reached"]),
        _total(sums["possible"]),
        _total(sums["excluded"]),
        low,
        high,
        method.value,
        clusters,
        samples,
        score=score.cut(float(sums["hits"].sum()) / samples),
    )


def _bounds(rate: Rate, sums: Sums, minimum: int, better: str, with_intervals: bool) -> RateBounds | None:
    """The worst-case bounds of a rate: excluded outcomes all passed, and all failed.

    sum(y) / sum(m + x) and sum(y + x) / sum(m + x), y being the hits, m the counted and x the
    excluded, with no assumption on why outcomes are missing (Manski 1989, J. Hum. Resour. 24;
    Horowitz & Manski 2000, J. Am. Stat. Assoc. 95). From `low` to `high` they cover the rate with
    at least 95 %, whatever the excluded outcomes would have been.
    """
    if not rate.is_proportion:
        return _bounds_of_weights(rate, sums, better)
    y, x = sums["hits"], sums["excluded"] + sums["unsure"]
    all_outcomes = sums["counted"] - sums["unsure"] + x
    whole = _total(all_outcomes)
    least, most = _total(y) / whole, _total(y + x) / whole
    low = high = None
    if with_intervals and x.any():
        nonempty = all_outcomes > 0
        low = rate_interval(y[nonempty], all_outcomes[nonempty], minimum=minimum).low
        high = rate_interval((y + x)[nonempty], all_outcomes[nonempty], minimum=minimum).high
    if better == "low":
        return RateBounds(least, most, low, high)
    return RateBounds(most, least, low, high)


def _bounds_of_weights(rate: Rate, sums: Sums, better: str) -> RateBounds:
    """The lowest and highest rate that any single verdict on all exclusions would give.

    Single verdicts suffice: a ratio of sums, to both of which each missing item adds, is extreme
    when all items add the same. Criteria without a weight are not part of a weighted rate, whatever
    their verdict.
    """
    hits, counted, missing = _total(sums["hits"]), _total(sums["counted"]), _total(sums["missing"])
    ends = []
    for verdict in rate.scope_verdicts:
        y, m = rate.hits.get(verdict, 0), rate.counted.get(verdict, 0)
        ends.append((hits + missing * y) / (counted + missing * m))
    if better == "low":
        return RateBounds(min(ends), max(ends))
    return RateBounds(max(ends), min(ends))
