"""Rates computed from verdicts, with numerator, denominator, interval and number of exclusions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from evaluation.numbers.rates import Rate
from evaluation.numbers.scores import Score
from evaluation.statistics.intervals import MINIMUM, Method, f_interval, mean_interval, rate_interval
from review.rules.answers import Hidden, Shown, shown

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a rate in each cluster.

    `hits`, `counted`: weights of the numerator and of the denominator.
    `number`, `excluded`: how many criteria or samples are counted, or excluded, without weights.
    `scope`: how many criteria or samples have a verdict in the scope of the rate, counted or not: a
    true negative is in the scope of F1 and precision, though neither counts it. None: as `number`.
    `unsure`: samples counted as passed although some of their criteria are excluded.
    `missing`: the weights of the exclusions, if these are not 1.
    `reached`, `possible`: points, for a rate whose hits are scores of samples.
    """

    hits: Integers | Floats  # numbers of samples, for a rate with a score
    counted: Integers
    number: Integers
    excluded: Integers
    unsure: Integers | None = None
    missing: Integers | None = None
    reached: Floats | None = None
    possible: Floats | None = None
    scope: Integers | None = None

    @property
    def in_scope(self) -> NDArray[np.bool_]:
        """Which clusters have a verdict in the scope of the rate: those that a comparison pairs."""
        in_scope = self.scope
        if in_scope is None:
            in_scope = self.number
        result: NDArray[np.bool_] = in_scope > 0
        return result

    def total(self, values: NDArray[Any]) -> int:
        """The sum over all clusters."""
        return round(float(values.sum()))

    def only(self, chosen: NDArray[np.bool_]) -> "Totals":
        """The totals of the chosen clusters."""
        return self.map(lambda values: values[chosen])

    def map(self, change: Callable[[Any], Any]) -> "Totals":
        """The totals with `change` applied to each array."""
        changed: dict[str, Any] = {}
        for field_of in fields(self):
            values = getattr(self, field_of.name)
            if values is not None:
                changed[field_of.name] = change(values)
        return Totals(**changed)


def measure(
    rate: Rate, totals: Totals, *, minimum: int = MINIMUM, better: str = "low", with_bounds: bool = True
) -> MeasuredRate:
    """The rate with its interval over clusters, which are samples or their source records.

    `better`: whether a 'low' or a 'high' rate speaks for the model.
    """
    hits, counted, excluded = totals.total(totals.hits), totals.total(totals.counted), totals.total(totals.excluded)
    if not counted and rate.score:
        return MeasuredRate(0, counted, excluded)
    if not counted:
        return MeasuredRate(hits, counted, excluded)
    if rate.score:
        return _measure_score(rate.score, totals, minimum)
    n, clusters = totals.total(totals.number), totals.total((totals.counted > 0).astype(np.int64))
    bounds = _bounds(rate, totals, minimum, better, with_bounds)
    nonempty = totals.counted > 0
    hit, of = totals.hits, totals.counted
    if not nonempty.all():
        hit, of = hit[nonempty], of[nonempty]
    weights = set(rate.hits.values())
    if rate.is_proportion:
        interval = rate_interval(hit, of, minimum=minimum)
    elif not rate.weights and len(weights) == 1:
        interval = f_interval(hit, of, weights.pop(), minimum=minimum)
    else:
        interval = rate_interval(hit, of, n=n, minimum=minimum)
    return MeasuredRate(
        hits, counted, excluded, interval.low, interval.high, interval.method.value, clusters, n, bounds=bounds
    )


def _measure_score(score: Score, totals: Totals, minimum: int) -> MeasuredRate:
    """The mean score of samples with its interval over clusters, both cut off at its limits."""
    samples = int(totals.counted.sum())
    _, low, high, clusters = mean_interval(totals.hits, totals.counted, minimum=minimum, limits=score.limits)
    reached = possible = 0.0
    if totals.reached is not None and totals.possible is not None:
        reached, possible = float(totals.reached.sum()), float(totals.possible.sum())
    method = Method.MEAN
    if low is None:
        method = Method.TOO_FEW
    return MeasuredRate(
        round(reached),
        round(possible),
        int(totals.excluded.sum()),
        low,
        high,
        method.value,
        clusters,
        samples,
        score=score.cut(float(totals.hits.sum()) / samples),
    )


def _bounds(rate: Rate, totals: Totals, minimum: int, better: str, with_intervals: bool) -> RateBounds | None:
    """The worst-case bounds of a rate: excluded outcomes all passed, and all failed.

    sum(y) / sum(m + x) and sum(y + x) / sum(m + x), y being the hits, m the counted and x the
    excluded, with no assumption on why outcomes are missing (Manski 1989, J. Hum. Resour. 24;
    Horowitz & Manski 2000, J. Am. Stat. Assoc. 95). From `low` to `high` they cover the rate with
    at least 95 %, whatever the excluded outcomes would have been.
    """
    if not rate.is_proportion:
        return _bounds_of_weights(rate, totals, better)
    hits, missing, counted = totals.hits, totals.excluded, totals.counted
    if totals.unsure is not None:
        missing, counted = missing + totals.unsure, counted - totals.unsure
    whole = totals.total(counted + missing)
    least, most = totals.total(hits) / whole, totals.total(hits + missing) / whole
    low = high = None
    if with_intervals and missing.any():
        nonempty = counted + missing > 0
        y, m, x = hits[nonempty], counted[nonempty], missing[nonempty]
        low = rate_interval(y, m + x, minimum=minimum).low
        high = rate_interval(y + x, m + x, minimum=minimum).high
    if better == "low":
        return RateBounds(least, most, low, high)
    return RateBounds(most, least, low, high)


def _bounds_of_weights(rate: Rate, totals: Totals, better: str) -> RateBounds:
    """The lowest and highest rate that any single verdict on all exclusions would give.

    Single verdicts suffice: a ratio of sums, to both of which each missing item adds, is extreme
    when all items add the same. Criteria without a weight are not part of a weighted rate, whatever
    their verdict.
    """
    hits, counted = totals.total(totals.hits), totals.total(totals.counted)
    missing = totals.total(totals.excluded)
    if totals.missing is not None:
        missing = totals.total(totals.missing)
    ends = []
    for verdict in rate.scope_verdicts:
        y, m = rate.hits.get(verdict, 0), rate.counted.get(verdict, 0)
        ends.append((hits + missing * y) / (counted + missing * m))
    if better == "low":
        return RateBounds(min(ends), max(ends))
    return RateBounds(max(ends), min(ends))
