"""The interval of a rate whose criteria come in clusters.

Why not the linearised rate +- t sqrt(CR2): with few clusters or a rate near 0 or 1 it misses far too often
(measured: 34 to 87 % at a rate of 2 % and up to 100 clusters), because the variance is estimated from the few
clusters that failed, and is 0 where none did. Wilson's score interval over the *effective* number of criteria does
not have that fault (Dean & Pagano 2015, J. Surv. Stat. Methodol. 3; Franco, Little, Louis & Slud 2019, ibid. 7), if
the variance that the effective number comes from is kept from collapsing. That is the small-sample correction here:
CR2, computed with a quarter of a typical cluster added as failed and a quarter as passed.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from evaluation.statistics.clusters import Floats, cr2_variance, ratio, satterthwaite_df, summed
from review.rules.wilson_interval import wilson

MINIMUM = 10  # clusters, below which no interval is given
MINIMUM_DF = 4.0  # below it one or two clusters decide everything: Tipton (2015), Psychol. Methods 20
ADDED = 1 / 4  # of a typical cluster, failed and passed: chosen by simulation (docs/statistics.md)


class Method(StrEnum):
    """How an interval was made."""

    WILSON = "wilson"
    CLUSTERED = "clustered-wilson"
    BOOTSTRAP = "cluster-bootstrap"
    TOO_FEW = "too-few"  # below the minimum: no interval
    UNDEFINED = "undefined"  # nothing was counted: no rate


@dataclass(frozen=True, slots=True)
class RateInterval:
    """A rate with its 95 % interval. `n`: criteria counted; `effective_n`: as many independent ones would say as much."""

    value: float | None
    low: float | None
    high: float | None
    method: Method
    clusters: int
    n: int
    effective_n: float | None = None


def rate_interval(
    hits: ArrayLike,
    counted: ArrayLike,
    *,
    n: int | None = None,
    minimum: int = MINIMUM,
    times: Floats | None = None,
) -> RateInterval:
    """The rate sum(hits) / sum(counted) over clusters, with its 95 % interval.

    Args:
        hits, counted: totals per cluster (`cluster_totals`); weighted where criteria have weights.
        n: the number of criteria, where `counted` is a sum of weights.
        times: how many clusters are like each entry, where they are not listed one by one.
        minimum: clusters below which there is no interval; never less than `MINIMUM_DF` degrees of freedom.

    Where every cluster has one criterion and no weights: Wilson's score interval (Wilson 1927, J. Am. Stat. Assoc.
    22). Else the same interval with n* in place of n, n* = p~ (1 - p~) / V(p~), at most n, with CR2 for V
    (`cr2_variance`). p~ and V come from the clusters and two more of the typical size s = sum(m^2) / sum(m), one
    failed and one passed, each counted `ADDED` times: as Agresti & Coull (1998), Am. Stat. 52, add to each outcome,
    but whole clusters.
    """
    estimate = ratio(hits, counted, times)
    sizes = np.asarray(counted, dtype=float)
    clusters = round(summed((sizes > 0).astype(float), times))
    if estimate is None:
        return RateInterval(None, None, None, Method.UNDEFINED, 0, 0)
    weighted, n = n is not None, round(estimate.total) if n is None else n
    value = min(1.0, max(0.0, estimate.value))
    if clusters < minimum or satterthwaite_df(estimate.shares, times) < MINIMUM_DF:
        return RateInterval(value, None, None, Method.TOO_FEW, clusters, n)
    if not weighted and sizes.max() <= 1:
        return RateInterval(value, *wilson(estimate.total * value, n), Method.WILSON, clusters, n, float(n))
    typical = summed(estimate.shares**2, times)
    grown = 1 + 2 * ADDED * typical  # of the denominator
    centre = (value + ADDED * typical) / grown
    residuals = (estimate.residuals + (value - centre) * estimate.shares) / grown
    variance = cr2_variance(residuals, estimate.shares / grown, times)
    variance += ADDED * (typical / grown) ** 2 * ((1 - centre) ** 2 + centre**2) / (1 - typical / grown)
    effective = min(float(n), centre * (1 - centre) / variance / grown)
    low, high = wilson(value * effective, effective)
    return RateInterval(value, low, high, Method.CLUSTERED, clusters, n, effective)
