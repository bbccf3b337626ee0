"""Confidence intervals of rates and means over clustered data.

The linearised interval, rate +- t sqrt(CR2), is not used for rates: with few clusters or a rate
near 0 or 1 it undercovers (measured: 34 to 87 % at a rate of 2 % and up to 100 clusters), because
the variance is estimated from the few clusters with a failure, and is 0 if there are none. Wilson's
score interval with the *effective* number of criteria avoids this (Dean & Pagano 2015, J. Surv.
Stat. Methodol. 3; Franco, Little, Louis & Slud 2019, ibid. 7), provided that the variance behind
the effective number does not collapse. Hence the small-sample correction here: CR2 is computed with
two pseudo-clusters of typical size, one failed and one passed, each with weight 1/4.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.clusters import Floats, cr2_variance, ratio, satterthwaite_df, weighted_sum
from evaluation.statistics.distributions import t_quantile
from review.rules.wilson_interval import wilson

MINIMUM = 10  # clusters below which no interval is given
# Degrees of freedom below which one or two clusters dominate: Tipton (2015), Psychol. Methods 20.
MINIMUM_DF = 4.0
PSEUDO_WEIGHT = 1 / 4  # of each pseudo-cluster: chosen by simulation (docs/statistics.md)


class Method(StrEnum):
    """How an interval was computed."""

    WILSON = "wilson"
    CLUSTERED = "clustered-wilson"
    BOOTSTRAP = "cluster-bootstrap"
    TOO_FEW = "too-few"  # below the minimum: no interval
    UNDEFINED = "undefined"  # nothing was counted: no rate


@dataclass(frozen=True, slots=True)
class RateInterval:
    """A rate with its 95 % interval.

    `n`: the criteria in the denominator. `effective_n`: the number of independent criteria that
    would give the same precision.
    """

    value: float | None
    low: float | None
    high: float | None
    method: Method
    clusters: int
    n: int
    effective_n: float | None = None


def rate_interval(
    hits: ArrayLike,
    sizes: ArrayLike,
    *,
    n: int | None = None,
    minimum: int = MINIMUM,
    frequencies: Floats | None = None,
) -> RateInterval:
    """The rate sum(hits) / sum(sizes) over clusters, with its 95 % interval.

    If every cluster has one unweighted criterion: Wilson's score interval (Wilson 1927, J. Am.
    Stat. Assoc. 22). Otherwise Wilson's interval with n* in place of n, n* = p~ (1 - p~) / V(p~),
    at most n, V being CR2 (`cr2_variance`). p~ and V come from the clusters and two pseudo-clusters
    of the typical size sum(m^2) / sum(m), one failed and one passed, each with weight
    `PSEUDO_WEIGHT`. This adds to each outcome as Agresti & Coull (1998), Am. Stat. 52, but in whole
    clusters.

    Args:
        hits, sizes: numerator and denominator per cluster (`cluster_totals`), sums of weights where
            criteria have weights.
        n: the number of criteria; required where `sizes` are sums of weights.
        minimum: clusters below which there is no interval. Nor is there one below `MINIMUM_DF`
            degrees of freedom.
        frequencies: the number of clusters that each entry stands for; None: one each.
    """
    estimate = ratio(hits, sizes, frequencies)
    denominators = np.asarray(sizes, dtype=float)
    clusters = round(weighted_sum((denominators > 0).astype(float), frequencies))
    if estimate is None:
        return RateInterval(None, None, None, Method.UNDEFINED, 0, 0)
    weighted, n = n is not None, round(estimate.total) if n is None else n
    value = min(1.0, max(0.0, estimate.value))
    if clusters < minimum or satterthwaite_df(estimate.shares, frequencies) < MINIMUM_DF:
        return RateInterval(value, None, None, Method.TOO_FEW, clusters, n)
    if not weighted and denominators.max() <= 1:
        return RateInterval(value, *wilson(estimate.total * value, n), Method.WILSON, clusters, n, float(n))
    typical = weighted_sum(estimate.shares**2, frequencies)
    padded = 1 + 2 * PSEUDO_WEIGHT * typical  # the denominator with the pseudo-clusters
    centre = (value + PSEUDO_WEIGHT * typical) / padded
    residuals = (estimate.residuals + (value - centre) * estimate.shares) / padded
    variance = cr2_variance(residuals, estimate.shares / padded, frequencies)
    variance += PSEUDO_WEIGHT * (typical / padded) ** 2 * ((1 - centre) ** 2 + centre**2) / (1 - typical / padded)
    effective = min(float(n), centre * (1 - centre) / variance / padded)
    low, high = wilson(value * effective, effective)
    return RateInterval(value, low, high, Method.CLUSTERED, clusters, n, effective)


def mean_interval(
    numbers: NDArray[np.float64],
    clusters: NDArray[np.int64] | None,
    *,
    minimum: int = MINIMUM,
    limits: tuple[float, float] = (float("-inf"), float("inf")),
) -> tuple[float, float | None, float | None, int]:
    """The mean of numbers with the ends of its 95 % interval, and the number of clusters.

    Mean +- t sqrt(V), V being CR2 over clusters, with Satterthwaite's degrees of freedom (module
    `clusters`). Without clusters, Student's interval. The ends are None below `minimum` clusters or
    `MINIMUM_DF` degrees of freedom.

    Args:
        numbers: at least one.
        clusters: the cluster id of each number; None if all numbers are independent.
        limits: the range of possible numbers, to which the interval is cut.
    """
    mean = float(numbers.mean())
    if clusters is None:
        count = len(numbers)
        if count < minimum or count - 1 < MINIMUM_DF:
            return mean, None, None, count
        half = t_quantile(0.975, count - 1.0) * float(numbers.std(ddof=1)) / count**0.5
        return mean, max(limits[0], mean - half), min(limits[1], mean + half), count
    cluster_ids, index = np.unique(clusters, return_inverse=True)
    count = len(cluster_ids)
    sums, sizes = np.bincount(index, numbers, count), np.bincount(index, minlength=count)
    shares = sizes / len(numbers)
    df = satterthwaite_df(shares)
    if count < minimum or df < MINIMUM_DF:
        return mean, None, None, count
    half = t_quantile(0.975, df) * cr2_variance((sums - mean * sizes) / len(numbers), shares) ** 0.5
    return mean, max(limits[0], mean - half), min(limits[1], mean + half), count
