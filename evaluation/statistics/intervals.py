"""Confidence intervals of rates, F1 and means over clustered data.

The linearised interval, rate +- t sqrt(CR2), is not used for rates: with few clusters or a rate
near 0 or 1 it undercovers (measured: 34 to 87 % at a rate of 2 % and up to 100 clusters), because
the variance is estimated from the few clusters with a failure, and is 0 if there are none. Wilson's
score interval with the *effective* number of criteria avoids this (Dean & Pagano 2015, J. Surv.
Stat. Methodol. 3; Franco, Little, Louis & Slud 2019, ibid. 7), provided that the variance behind
the effective number does not collapse. Hence the small-sample correction here: CR2 is computed with
two pseudo-clusters of typical size, one failed and one passed, each with weight 1/4.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from evaluation.statistics.clusters import Floats, Ratios, cr2_variance, ratios, rows_of, satterthwaite_df
from evaluation.statistics.distributions import t_quantile
from review.quality.agreement import MINIMUM as MINIMUM
from review.rules.shown_fields import Hidden
from review.rules.wilson_interval import wilson

# Degrees of freedom below which one or two clusters dominate: Tipton (2015), Psychol. Methods 20.
MINIMUM_DF = 4.0
PSEUDO_WEIGHT = 1 / 4  # of each pseudo-cluster: chosen by simulation (docs/statistics.md)
WEIGHT_OF_MEANS = 2 / 3  # likewise: skewed scores in clusters of unequal size need more


class Method(StrEnum):
    """How an interval was computed."""

    WILSON = "wilson"
    CLUSTERED = "clustered-wilson"
    MEAN = "skew-corrected-t"
    TWO_PHASE = "two-phase"  # of a share known from a checked sample (module `two_phase`)
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
    clusters: Hidden[int]
    n: Hidden[int]
    effective_n: Hidden[float | None] = None


def rate_interval(
    hits: ArrayLike,
    sizes: ArrayLike,
    *,
    n: int | None = None,
    minimum: int = MINIMUM,
) -> RateInterval:
    """That of `rate_intervals` of one rate, from its totals per cluster."""
    counts = None
    if n is not None:
        counts = [n]
    [interval] = rate_intervals(*rows_of(hits, sizes), n=counts, minimum=minimum)
    return interval


def rate_intervals(
    hits: Floats, sizes: Floats, *, n: Sequence[int] | None = None, minimum: int = MINIMUM
) -> list[RateInterval]:
    """The rates sum(hits) / sum(sizes) over clusters, with their 95 % intervals.

    If every cluster has one unweighted criterion: Wilson's score interval (Wilson 1927, J. Am.
    Stat. Assoc. 22). Otherwise Wilson's interval with n* in place of n, n* = p~ (1 - p~) / V(p~),
    at most n, V being CR2 (`cr2_variance`). p~ and V come from the clusters and two pseudo-clusters
    of the typical size sum(m^2) / sum(m), one failed and one passed, each with weight
    `PSEUDO_WEIGHT`. This adds to each outcome as Agresti & Coull (1998), Am. Stat. 52, but in whole
    clusters.

    Args:
        hits, sizes: numerators and denominators, (rates, clusters), sums of weights where criteria
            have weights.
        n: the number of criteria of each rate; required where `sizes` are sums of weights.
        minimum: clusters below which there is no interval. Nor is there one below `MINIMUM_DF`
            degrees of freedom.
    """
    estimates = ratios(hits, sizes)
    clusters = np.count_nonzero(sizes > 0, axis=1).tolist()
    has_interval = (satterthwaite_df(estimates.shares) >= MINIMUM_DF).tolist()
    most, totals = sizes.max(axis=1, initial=0.0).tolist(), estimates.total.tolist()
    effective = _effective_counts(estimates).tolist()
    counts = n
    if counts is None:
        counts = [round(total) for total in totals]
    intervals = []
    for row, share in enumerate(estimates.value.tolist()):
        if not totals[row]:
            intervals.append(RateInterval(None, None, None, Method.UNDEFINED, 0, 0))
            continue
        effective_n: float | None = None
        low = high = None
        if clusters[row] < minimum or not has_interval[row]:
            method = Method.TOO_FEW
        elif n is None and most[row] <= 1:
            method, effective_n = Method.WILSON, float(counts[row])
        else:
            method, effective_n = Method.CLUSTERED, min(float(counts[row]), effective[row])
        value = min(1.0, max(0.0, share))
        if effective_n is not None:
            low, high = wilson(value * effective_n, effective_n)
        intervals.append(RateInterval(value, low, high, method, clusters[row], counts[row], effective_n))
    return intervals


def _effective_counts(estimates: Ratios) -> Floats:
    """The number of independent criteria that would give each rate the same precision."""
    value, shares = np.clip(estimates.value, 0.0, 1.0), estimates.shares
    typical = (shares**2).sum(axis=1)
    padded = 1 + 2 * PSEUDO_WEIGHT * typical  # the denominator with the pseudo-clusters
    centre, share, width = (value + PSEUDO_WEIGHT * typical) / padded, typical / padded, padded[:, None]
    variance = cr2_variance((estimates.residuals + (value - centre)[:, None] * shares) / width, shares / width)
    variance += PSEUDO_WEIGHT * share**2 * ((1 - centre) ** 2 + centre**2) / (1 - share)
    effective: Floats = centre * (1 - centre) / variance / padded
    return effective


def f_intervals(hits: Floats, sizes: Floats, *, weight: float = 2.0, minimum: int = MINIMUM) -> list[RateInterval]:
    """F1, or other ratios in which a hit counts `weight` times, with their 95 % intervals.

    F = w a / (w a + b), a being the hits and b the rest, is a rising function of the proportion
    J = a / (a + b), Jaccard's index: F = w J / (1 + (w - 1) J). So its interval is that of J
    (`rate_intervals`), with the ends transformed, and is as good when small. `n` counts a + b.

    Args:
        hits, sizes: w a and w a + b of each cluster: 2 TP and 2 TP + FP + FN for F1; (rates,
            clusters).
        weight: w.
        minimum: as of `rate_intervals`.
    """
    once = hits / weight

    def weighted(share: float | None) -> float | None:
        if share is None:
            return None
        return weight * share / (1 + (weight - 1) * share)

    intervals = []
    for index in rate_intervals(once, sizes - hits + once, minimum=minimum):
        low, high = weighted(index.low), weighted(index.high)
        intervals.append(replace(index, value=weighted(index.value), low=low, high=high))
    return intervals


def mean_interval(
    sums: ArrayLike,
    sizes: ArrayLike,
    *,
    minimum: int = MINIMUM,
    limits: tuple[float, float] = (float("-inf"), float("inf")),
) -> tuple[float, float | None, float | None, int]:
    """The mean sum(sums) / sum(sizes), the ends of its 95 % interval, and the number of clusters.

    T = (mean - mu) / sqrt(V), V being CR2 over clusters, is skewed where the numbers are. Hall's
    transformation g(T) = T + b T^2 / 3 + b^2 T^3 / 27 + b / 6, b being the skewness of the mean,
    takes this out, and is inverted exactly (Hall 1992, J. R. Stat. Soc. B 54; Johnson 1978, J. Am.
    Stat. Assoc. 73, for the first term): the ends are mean - sqrt(V) g^-1(+-t), with
    Satterthwaite's degrees of freedom (module `clusters`). V has two pseudo-clusters of typical
    size added at the ends of the observed range, each with weight `WEIGHT_OF_MEANS`. The ends are
    None below `minimum` clusters or `MINIMUM_DF` degrees of freedom, where all clusters have the
    same mean (then the numbers do not say how much they vary), and where all of the interval is
    beyond the limits.

    Args:
        sums, sizes: the sum of the numbers of each cluster, and how many they are.
        minimum: clusters below which there is no interval.
        limits: the range of possible means, to which the interval is cut.

    Raises:
        ValueError: there are no numbers.
    """
    y, m = np.asarray(sums, dtype=float), np.asarray(sizes, dtype=float)
    y, m = y[m > 0], m[m > 0]
    if not len(m):
        raise ValueError("no numbers")
    total, clusters = float(m.sum()), len(m)
    mean, shares = float(y.sum()) / total, m / total
    df = float(satterthwaite_df(shares))
    means = y / m
    reach = float(np.ptp(means))
    if clusters < minimum or df < MINIMUM_DF or reach <= 1e-12 * max(1.0, abs(mean)):
        return mean, None, None, clusters
    residuals = (y - mean * m) / total
    variance = float(cr2_variance(residuals, shares))
    third_moment = float((residuals**3 / ((1 - shares) * np.maximum(1 - 2 * shares, 0.5))).sum())
    skewness = third_moment / variance**1.5
    error = (variance + WEIGHT_OF_MEANS / 2 * (float((shares**2).sum()) * reach) ** 2) ** 0.5
    t = t_quantile(0.975, df)

    def inverse(z: float) -> float:
        if abs(skewness) < 1e-6:
            return z
        return float(3 * (np.cbrt(1 + skewness * (z - skewness / 6)) - 1) / skewness)

    low, high = max(limits[0], mean - inverse(t) * error), min(limits[1], mean - inverse(-t) * error)
    if low >= high:
        return mean, None, None, clusters
    return mean, low, high, clusters
