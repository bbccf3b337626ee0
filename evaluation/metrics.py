"""Numbers from verdicts: every rate with its numerator, its denominator, its interval and what it leaves out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from evaluation.protocol import Rate
from evaluation.statistics.bootstrap import bootstrap_kinds, cluster_bootstrap, kinds_of, ratio_of_totals
from evaluation.statistics.bounds import outcome_bounds
from evaluation.statistics.intervals import MINIMUM, Method, rate_interval

UNJUDGED = "unjudged"
Whole = NDArray[np.int64]


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
    `undefined_draws`: in how many draws of a bootstrap nothing was counted.
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

    @property
    def value(self) -> float | None:
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
    how much excluded. `unsure`: what is counted as passed although something of it is excluded."""

    hits: Whole
    counted: Whole
    number: Whole
    excluded: Whole
    unsure: Whole | None = None
    times: NDArray[np.float64] | None = None  # how many clusters are like each entry; None: each is one

    def total(self, values: Whole) -> int:
        """The sum over all clusters."""
        return int(values.sum()) if self.times is None else round(float((values * self.times).sum()))

    def each(self, change: Callable[[Whole], Whole]) -> "Totals":
        """All of them changed in one way."""
        counted = change(self.counted)
        number = counted if self.number is self.counted else change(self.number)
        unsure = None if self.unsure is None else change(self.unsure)
        times = None if self.times is None else change(self.times)  # type: ignore[arg-type]
        return Totals(change(self.hits), counted, number, change(self.excluded), unsure, times)  # type: ignore[arg-type]


def measure(
    rate: Rate, totals: Totals, *, minimum: int = MINIMUM, better: str = "low", with_bounds: bool = True
) -> MeasuredRate:
    """The rate over clusters (samples, or the source records above them) with its interval. `better`: 'low' or 'high'."""
    hits, counted, excluded = (totals.total(each) for each in (totals.hits, totals.counted, totals.excluded))
    if not counted:
        return MeasuredRate(hits, counted, excluded)
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


def _bounds(rate: Rate, totals: Totals, minimum: int, better: str, with_intervals: bool) -> RateBounds | None:
    """None for weighted sums: what was not judged has no weight."""
    if rate.weighted or rate.interval == "bootstrap":
        return None
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


def points_score(points: Sequence[float], met: Sequence[bool]) -> float | None:
    """HealthBench's score of one answer: points of the criteria that it meets over all positive points (Arora et al. 2025,
    arXiv:2505.08775). Points may be negative, and so may the score; None where no criterion has positive points."""
    most = sum(each for each in points if each > 0)
    if not most:
        return None
    return sum(each for each, is_met in zip(points, met, strict=True) if is_met) / most


def mean_score(scores: Iterable[float | None]) -> float | None:
    """HealthBench's score of a model: the mean over answers, clipped to 0 to 1; undefined ones are left out."""
    defined = [score for score in scores if score is not None]
    return min(1.0, max(0.0, sum(defined) / len(defined))) if defined else None
