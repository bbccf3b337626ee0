"""Rates under other rules: weighted by harm, and with excluded outcomes counted for or against a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.clusters import Floats, cluster_totals
from evaluation.statistics.intervals import MINIMUM, RateInterval, rate_interval


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rate if every excluded outcome had been passed, and if every one had been failed."""

    best: RateInterval
    worst: RateInterval


def outcome_bounds(
    hits: ArrayLike,
    counted: ArrayLike,
    excluded: ArrayLike,
    *,
    minimum: int = MINIMUM,
    times: Floats | None = None,
) -> Bounds:
    """What the excluded outcomes can hide: sum(y) / sum(m + x) and sum(y + x) / sum(m + x), totals per cluster.

    Worst-case bounds (Manski 1989, J. Hum. Resour. 24; Horowitz & Manski 2000, J. Am. Stat. Assoc. 95): no
    assumption on why they are missing. From `best.low` to `worst.high` is an interval for the rate whatever they
    were, of at least 95 %.
    """
    y, m, x = (np.asarray(part, dtype=float) for part in (hits, counted, excluded))
    best = rate_interval(y, m + x, minimum=minimum, times=times)
    return Bounds(best, rate_interval(y + x, m + x, minimum=minimum, times=times))


def weighted_rate(
    clusters: Sequence[Any] | NDArray[Any],
    failed: ArrayLike,
    weights: ArrayLike,
    *,
    minimum: int = MINIMUM,
) -> RateInterval:
    """The harm-weighted rate sum(w y) / sum(w), one entry a criterion, with `rate_interval` over its clusters.

    The ratio estimator with weighted totals (Cochran 1977, section 6.3). A weight of 0 leaves a criterion out. With
    equal weights the rate is that of `rate_interval`, and so is the interval but for clusters of one criterion
    each.
    """
    w = np.asarray(weights, dtype=float)
    if (w < 0).any() or not np.isfinite(w).all():
        raise ValueError("a weight is negative or not a number")
    hits, counted = cluster_totals(clusters, w * np.asarray(failed, dtype=bool), w)
    return rate_interval(hits, counted, n=int((w > 0).sum()), minimum=minimum)
