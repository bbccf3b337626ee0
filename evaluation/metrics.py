"""Numbers from verdicts: every rate with its numerator, its denominator, its interval and what it leaves out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.protocol import Rate
from evaluation.statistics.bootstrap import bootstrap_kinds, cluster_bootstrap, kinds_of, ratio_of_totals
from evaluation.statistics.bounds import outcome_bounds
from evaluation.statistics.intervals import MINIMUM, Method, rate_interval

UNJUDGED = "unjudged"
Whole = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RateBounds:
    """The rate if all that it excludes had counted for the model, and if all had counted against it.

    `low`, `high`: the outer ends of their intervals, where there are some.
    """

    best: float
    worst: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """A rate as counted. `value` is None where nothing was counted: undefined is said, not zero.

    Numerator and denominator are sums of weights; `excluded` is a number of criteria, or of samples where these are counted.
    `low`, `high`: 95 %, by `method`; None where there are too few `clusters`. `n`: what was counted, without weights.
    `undefined_draws`: in how many draws of a bootstrap nothing was counted. `score`: the value, where it is a mean over samples
    and not the quotient; numerator and denominator are points then, reached and possible.
    """

    numerator: int
    denominator: int
    excluded: int
    low: float | None = field(default=None, compare=False)
    high: float | None = field(default=None, compare=False)
    method: str = field(default=Method.UNDEFINED.value, compare=False)
    clusters: int = field(default=0, compare=False)
    n: int = field(default=0, compare=False)
    undefined_draws: int = field(default=0, compare=False)
    bounds: RateBounds | None = field(default=None, compare=False)
    score: float | None = field(default=None, compare=False)

    @property
    def value(self) -> float | None:
        if self.score is not None:
            return self.score
        return self.numerator / self.denominator if self.denominator else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def too_few(self) -> bool:
        """Whether something was counted, and not enough to say how sure it is."""
        return bool(self.denominator) and self.interval is None

    def __add__(self, other: "MeasuredRate") -> "MeasuredRate":
        return MeasuredRate(
            self.numerator + other.numerator, self.denominator + other.denominator, self.excluded + other.excluded
        )


NOTHING = MeasuredRate(0, 0, 0)


def pool(parts: Iterable[MeasuredRate]) -> MeasuredRate:
    """Micro-average: numerators and denominators are added before dividing (MHB, Metric: criteria over all criteria)."""
    return sum(parts, NOTHING)


@dataclass(frozen=True, slots=True)
class Totals:
    """What a rate counts of each cluster: weights of the hits, of all that is counted; without weights, how much is counted and
    how much excluded. `unsure`: what is counted as passed although something of it is excluded. `missing`: the weights of what
    is excluded, where they are not 1. `reached`, `possible`: points, where hits are scores of samples."""

    hits: Whole
    counted: Whole
    number: Whole
    excluded: Whole
    unsure: Whole | None = None
    missing: Whole | None = None
    reached: Floats | None = None
    possible: Floats | None = None
    times: NDArray[np.float64] | None = None  # how many clusters are like each entry; None: each is one

    def total(self, values: Whole) -> int:
        """The sum over all clusters."""
        return round(self.summed(values))

    def summed(self, values: Any) -> float:
        """The sum over all clusters of what need not be whole."""
        return float((values if self.times is None else values * self.times).sum())

    def each(self, change: Callable[[Any], Any]) -> "Totals":
        """All of them changed in one way."""
        counted = change(self.counted)
        number = counted if self.number is self.counted else change(self.number)
        unsure = None if self.unsure is None else change(self.unsure)
        times = None if self.times is None else change(self.times)
        missing = None if self.missing is None else change(self.missing)
        reached, possible = (None if each is None else change(each) for each in (self.reached, self.possible))
        return Totals(
            change(self.hits), counted, number, change(self.excluded), unsure, missing, reached, possible, times
        )


def measure(
    rate: Rate, totals: Totals, *, minimum: int = MINIMUM, better: str = "low", with_bounds: bool = True
) -> MeasuredRate:
    """The rate over clusters (samples, or the source records above them) with its interval. `better`: 'low' or 'high'."""
    hits, counted, excluded = (totals.total(each) for each in (totals.hits, totals.counted, totals.excluded))
    if not counted:
        return MeasuredRate(0 if rate.points else hits, counted, excluded)
    if rate.points:
        return _measure_score(totals, minimum)
    n, clusters = totals.total(totals.number), totals.total((totals.counted > 0).astype(np.int64))
    bounds = _bounds(rate, totals, minimum, better, with_bounds)
    if rate.interval == "bootstrap":
        rows = np.column_stack([totals.hits, totals.counted])
        if totals.times is None:
            ends, undefined = cluster_bootstrap(rows, ratio_of_totals)
        else:
            ends, undefined = bootstrap_kinds(*kinds_of(rows, totals.times), ratio_of_totals)
        low, high = ends if ends is not None and clusters >= minimum else (None, None)
        method = Method.TOO_FEW if low is None else Method.BOOTSTRAP
        return MeasuredRate(hits, counted, excluded, low, high, method.value, clusters, n, undefined, bounds)
    some = totals.counted > 0
    all_some = bool(some.all())
    found = rate_interval(
        totals.hits if all_some else totals.hits[some],
        totals.counted if all_some else totals.counted[some],
        n=n if rate.weighted else None,
        minimum=minimum,
        times=totals.times if all_some or totals.times is None else totals.times[some],
    )
    return MeasuredRate(hits, counted, excluded, found.low, found.high, found.method.value, clusters, n, bounds=bounds)


def _measure_score(totals: Totals, minimum: int) -> MeasuredRate:
    """The mean of scores of samples, cut off at 0 and 1, with its bootstrap over clusters."""
    samples, clusters = int(totals.counted.sum()), int((totals.counted > 0).sum())
    ends, undefined = cluster_bootstrap(np.column_stack([totals.hits, totals.counted]), ratio_of_totals)
    low, high = map(clip_score, ends) if ends is not None and clusters >= minimum else (None, None)
    reached, possible = (0.0 if each is None else float(each.sum()) for each in (totals.reached, totals.possible))
    return MeasuredRate(
        round(reached),
        round(possible),
        int(totals.excluded.sum()),
        low,
        high,
        (Method.TOO_FEW if low is None else Method.BOOTSTRAP).value,
        clusters,
        samples,
        undefined,
        score=clip_score(float(totals.hits.sum()) / samples),
    )


def clip_score(value: float) -> float:
    """A mean score, cut off at 0 and 1 as HealthBench does; samples by themselves are not."""
    return min(1.0, max(0.0, value))


def _bounds(rate: Rate, totals: Totals, minimum: int, better: str, with_intervals: bool) -> RateBounds | None:
    if rate.weighted or rate.interval == "bootstrap":
        return _bounds_of_weights(rate, totals, better)
    hits, missing, counted = totals.hits, totals.excluded, totals.counted
    if totals.unsure is not None:
        missing, counted = missing + totals.unsure, counted - totals.unsure
    whole = totals.total(counted + missing)
    least, most = totals.total(hits) / whole, totals.total(hits + missing) / whole
    low = high = None
    if with_intervals and missing.any():
        some = counted + missing > 0
        times = None if totals.times is None else totals.times[some]
        found = outcome_bounds(hits[some], counted[some], missing[some], minimum=minimum, times=times)
        low, high = found.best.low, found.worst.high
    return RateBounds(least, most, low, high) if better == "low" else RateBounds(most, least, low, high)


def _bounds_of_weights(rate: Rate, totals: Totals, better: str) -> RateBounds:
    """If all that is excluded had had one verdict: which makes the most of the rate, and which the least.

    A ratio of sums in which each missing item adds to both is greatest, and least, where all add the same. What has no weight
    in a weighted rate is no part of it, whatever its verdict had been.
    """
    hits, counted = totals.total(totals.hits), totals.total(totals.counted)
    missing = totals.total(totals.excluded if totals.missing is None else totals.missing)
    options = [(rate.hits.get(each, 0), rate.counted.get(each, 0)) for each in rate.scope_verdicts]
    ends = [(hits + missing * y) / (counted + missing * m) for y, m in options]
    return RateBounds(min(ends), max(ends)) if better == "low" else RateBounds(max(ends), min(ends))
