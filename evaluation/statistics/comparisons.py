"""Two models on the same samples: the difference of their rates, and exact tests on samples."""

from dataclasses import dataclass
from math import asin, exp, log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from evaluation.statistics.clusters import Floats, Ratio, ratio, satterthwaite_df, summed
from evaluation.statistics.distributions import binomial_cdf, t_p_value, t_quantile
from evaluation.statistics.intervals import MINIMUM, MINIMUM_DF

ADDED = (
    1 / 12
)  # of a typical cluster, for the first and for the second model: chosen by simulation (docs/statistics.md)


@dataclass(frozen=True, slots=True)
class OddsRatio:
    """The odds of the first rate over those of the second, with the 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The first rate less the second, in shares of 1; None where there is too little to say. `clusters`: with both models."""

    first: float | None
    second: float | None
    difference: float | None
    clusters: int
    low: float | None = None
    high: float | None = None
    p: float | None = None
    df: float | None = None
    odds_ratio: OddsRatio | None = None
    cohens_h: float | None = None


def paired_difference(
    first_hits: ArrayLike,
    first_counted: ArrayLike,
    second_hits: ArrayLike,
    second_counted: ArrayLike,
    *,
    minimum: int = MINIMUM,
    times: Floats | None = None,
) -> PairedDifference:
    """The difference of two rates on the clusters in which both models have criteria counted, with interval and p.

    d = r1 - r2, linearised per cluster: e = (y1 - r1 m1) / M1 - (y2 - r2 m2) / M2, so that what is hard for both
    models drops out (Cochran 1977, chapter 6; Miller 2024, arXiv:2411.00640). Interval and p: d~ +- t se with
    CR2 and Satterthwaite's degrees of freedom (`clusters`). d~ and se come from the clusters and two more of
    typical size, one failed by the first model alone, one by the second alone, each counted `ADDED` times (as
    Agresti & Min 2005, Stat. Med. 24, add to discordant pairs): where hardly any cluster differs, the variance is
    not taken for 0. p and interval say the same: p < .05 where the interval leaves 0 out.

    Effect sizes: d itself, the odds ratio, and Cohen's h = 2 asin(sqrt(r1)) - 2 asin(sqrt(r2)) (Cohen 1988, section
    6.2). `times`: how many clusters are like each entry, where they are not listed one by one.
    """
    y1, m1, y2, m2 = (
        np.asarray(part, dtype=float) for part in (first_hits, first_counted, second_hits, second_counted)
    )
    shared = (m1 > 0) & (m2 > 0)
    times = None if times is None else times[shared]
    one, other = ratio(y1[shared], m1[shared], times), ratio(y2[shared], m2[shared], times)
    clusters = int(shared.sum()) if times is None else round(float(times.sum()))
    if one is None or other is None:
        return PairedDifference(None, None, None, 0)
    sizes = cluster_sizes((one.shares + other.shares) / 2, times)
    return difference_of(one, other, sizes, clusters, minimum=minimum, times=times)


@dataclass(frozen=True, slots=True)
class ClusterSizes:
    """What follows from the sizes of the clusters alone: once for all pairs of models in which they are the same.

    `grown`: the denominator with the clusters that are added; `left`, `grown_left`: 1 less each cluster's share.
    """

    shares: Floats
    df: float
    typical: float
    grown: float
    left: Floats | None  # None where one cluster has everything
    grown_left: Floats | None


def cluster_sizes(shares: Floats, times: Floats | None = None) -> ClusterSizes:
    """Of the mean shares of both models in each cluster."""
    typical = summed(shares**2, times)
    grown = 1 + 2 * ADDED * typical
    of_grown = shares / grown
    left, grown_left = (None if each.max(initial=0.0) >= 1 else 1 - each for each in (shares, of_grown))
    return ClusterSizes(shares, satterthwaite_df(shares, times), typical, grown, left, grown_left)


def _variance(residuals: Floats, left: Floats | None, times: Floats | None) -> float:
    """`cr2_variance`, with 1 less the shares known."""
    return float("inf") if left is None else summed(residuals**2 / left, times)


def difference_of(
    one: Ratio, other: Ratio, sizes: ClusterSizes, clusters: int, *, minimum: int = MINIMUM, times: Floats | None = None
) -> PairedDifference:
    """`paired_difference` of two rates on the same clusters, from their ratio estimates."""
    value = one.value - other.value
    h = 2 * asin(sqrt(min(1.0, one.value))) - 2 * asin(sqrt(min(1.0, other.value)))
    shares, df, typical, grown = sizes.shares, sizes.df, sizes.typical, sizes.grown
    if clusters < minimum or df < MINIMUM_DF:
        return PairedDifference(one.value, other.value, value, clusters, cohens_h=h)
    centre = value / grown
    apart = one.residuals - other.residuals
    variance = _variance((apart + (value - centre) * shares) / grown, sizes.grown_left, times)
    variance += ADDED * (typical / grown) ** 2 * ((1 - centre) ** 2 + (1 + centre) ** 2) / (1 - typical / grown)
    error, t = sqrt(variance), t_quantile(0.975, df)
    return PairedDifference(
        one.value,
        other.value,
        value,
        clusters,
        low=max(-1.0, centre - t * error),
        high=min(1.0, centre + t * error),
        p=t_p_value(centre / error, df),
        df=df,
        odds_ratio=_odds_ratio(one, other, sizes, t, times),
        cohens_h=h,
    )


def _odds_ratio(one: Ratio, other: Ratio, sizes: ClusterSizes, t: float, times: Floats | None) -> OddsRatio | None:
    """None where a rate is 0 or 1. Interval: the logarithm linearised, sum of e1 / (r1 (1 - r1)) - e2 / (r2 (1 -
    r2)).

    The delta method (Agresti 2013, Categorical Data Analysis, section 3.1) on the residuals of `ratio`, with CR2.
    """
    if not (0 < one.value < 1 and 0 < other.value < 1):
        return None
    error = sqrt(_variance(one.of_odds - other.of_odds, sizes.left, times))
    value = log(one.value / (1 - one.value)) - log(other.value / (1 - other.value))
    return OddsRatio(exp(value), exp(min(700.0, value - t * error)), exp(min(700.0, value + t * error)))


@dataclass(frozen=True, slots=True)
class McNemar:
    """Samples that only one of two models failed, and the exact p."""

    only_first: int
    only_second: int
    p: float


def mcnemar(first: ArrayLike, second: ArrayLike, times: Floats | None = None) -> McNemar:
    """The exact McNemar test on samples: of those that only one model failed, is it as often the first as the second?

    p = min(1, 2 P(X <= min(b, c))), X binomial with b + c draws and 1/2 (McNemar 1947, Psychometrika 12; exact:
    Agresti 2013, section 11.1). `first` and `second`: failed or not, one entry a sample that both models answered.
    Exact only where samples are independent: where several come from one source record, use `paired_difference`
    over records.
    """
    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if one.shape != other.shape:
        raise ValueError("both models need an entry for every sample")
    b, c = (
        int(np.count_nonzero(flips)) if times is None else round(summed(flips.astype(float), times))
        for flips in (one & ~other, other & ~one)
    )
    return McNemar(b, c, min(1.0, 2 * binomial_cdf(min(b, c), b + c, 0.5)))
