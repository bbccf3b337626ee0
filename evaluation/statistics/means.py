"""The interval of a mean of numbers that come in clusters: several answers to one question are not independent."""

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics.clusters import cr2_variance, satterthwaite_df
from evaluation.statistics.distributions import t_quantile
from evaluation.statistics.intervals import MINIMUM, MINIMUM_DF

Found = tuple[float, float | None, float | None, int]


def mean_interval(
    numbers: NDArray[np.float64],
    clusters: NDArray[np.int64] | None,
    *,
    minimum: int = MINIMUM,
    within: tuple[float, float] = (float("-inf"), float("inf")),
) -> Found:
    """The mean of one or more numbers, the ends of its 95 % interval, and how many clusters there are.

    The mean +- t sqrt(V), V by CR2 over clusters and t with Satterthwaite's degrees of freedom (`clusters`); cut to `within`,
    what a number can be. `clusters`: None where each number is one of its own: Student's interval then. No ends below
    `minimum` clusters, or where a few of them decide everything.
    """
    mean = float(numbers.mean())
    if clusters is None:
        count = len(numbers)
        if count < minimum or count - 1 < MINIMUM_DF:
            return mean, None, None, count
        half = t_quantile(0.975, count - 1.0) * float(numbers.std(ddof=1)) / count**0.5
        return mean, max(within[0], mean - half), min(within[1], mean + half), count
    known, places = np.unique(clusters, return_inverse=True)
    count = len(known)
    sums, sizes = np.bincount(places, numbers, count), np.bincount(places, minlength=count)
    shares = sizes / len(numbers)
    df = satterthwaite_df(shares)
    if count < minimum or df < MINIMUM_DF:
        return mean, None, None, count
    half = t_quantile(0.975, df) * cr2_variance((sums - mean * sizes) / len(numbers), shares) ** 0.5
    return mean, max(within[0], mean - half), min(within[1], mean + half), count
