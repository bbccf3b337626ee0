"""Bounds of a rate for its excluded outcomes, and rates weighted by harm."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.clusters import Floats, cluster_totals
from evaluation.statistics.intervals import MINIMUM, RateInterval, rate_interval


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rate with every excluded outcome counted as passed (`best`) and as failed (`worst`)."""

    best: RateInterval
    worst: RateInterval


def outcome_bounds(
    hits: ArrayLike,
    sizes: ArrayLike,
    excluded: ArrayLike,
    *,
    minimum: int = MINIMUM,
    frequencies: Floats | None = None,
) -> Bounds:
    """Worst-case bounds of a rate: excluded outcomes all passed, and all failed.

    sum(y) / sum(m + x) and sum(y + x) / sum(m + x), with no assumption on why outcomes are missing
    (Manski 1989, J. Hum. Resour. 24; Horowitz & Manski 2000, J. Am. Stat. Assoc. 95). The interval
    from `best.low` to `worst.high` covers the rate with at least 95 %, whatever the excluded
    outcomes would have been.

    Args:
        hits, sizes, excluded: y, m and x: criteria failed, judged and excluded, per cluster.
        minimum, frequencies: as of `rate_interval`.
    """
    y, m, x = (np.asarray(part, dtype=float) for part in (hits, sizes, excluded))
    best = rate_interval(y, m + x, minimum=minimum, frequencies=frequencies)
    return Bounds(best, rate_interval(y + x, m + x, minimum=minimum, frequencies=frequencies))


def weighted_rate(
    clusters: Sequence[Any] | NDArray[Any],
    failed: ArrayLike,
    weights: ArrayLike,
    *,
    minimum: int = MINIMUM,
) -> RateInterval:
    """The harm-weighted rate sum(w y) / sum(w), with the interval of `rate_interval` over clusters.

    The ratio estimator with weighted totals (Cochran 1977, section 6.3). With equal weights, the
    rate equals that of `rate_interval`; so does the interval, except where each cluster has one
    criterion.

    Args:
        clusters, failed, weights: one entry per criterion. A weight of 0 leaves a criterion out.
        minimum: clusters below which there is no interval.

    Raises:
        ValueError: a weight is negative or not finite.
    """
    w = np.asarray(weights, dtype=float)
    if (w < 0).any() or not np.isfinite(w).all():
        raise ValueError("a weight is negative or not finite")
    hits, sizes = cluster_totals(clusters, w * np.asarray(failed, dtype=bool), w)
    return rate_interval(hits, sizes, n=int((w > 0).sum()), minimum=minimum)
