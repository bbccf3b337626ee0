"""The cluster bootstrap, for statistics that are not means: F1, kappa, a median, a rank."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Totals (draws, columns) -> the statistic of each draw, NaN where it is undefined.
Statistic = Callable[[NDArray[Any]], NDArray[Any]]

DRAWS = 2_000
SEED = 20260101  # fixed, so that the same numbers have the same interval on every machine
MIN_DEFINED = 0.95  # share of draws in which the statistic must be defined to give an interval
DRAWS_IN_MEMORY = 200  # at a time; more where there are fewer than 1,000 patterns


def bootstrap_patterns(
    patterns: ArrayLike, counts: ArrayLike, statistic: Statistic, *, draws: int = DRAWS, seed: int = SEED
) -> tuple[tuple[float, float] | None, int]:
    """The 95 % percentile interval of a statistic, from clusters grouped by their totals.

    Each draw resamples, with replacement, as many clusters as there are: Efron (1979), Ann. Stat.
    7; percentiles: Efron & Tibshirani (1993), chapter 13; whole clusters: Davison & Hinkley (1997),
    section 3.8. Clusters with the same totals share a pattern, so drawing clusters is exactly a
    multinomial draw over patterns. Draws in which the statistic is undefined are left out.

    Args:
        patterns: the distinct totals of clusters, (patterns, columns).
        counts: the number of clusters with each pattern.
        statistic: computed from the sums of all clusters drawn, for many draws at once.
        draws: the number of bootstrap draws.
        seed: of the random generator.

    Returns:
        The ends of the interval, None where fewer than 95 % of the draws define the statistic; and
        the number of draws in which it is undefined.
    """
    totals, frequencies = np.asarray(patterns, dtype=float), np.asarray(counts)
    clusters = int(frequencies.sum())
    if not clusters:
        return None, draws
    probabilities, generator = frequencies / clusters, np.random.default_rng(seed)
    batches, batch_size = [], DRAWS_IN_MEMORY * max(1, 1_000 // len(probabilities))
    for start in range(0, draws, batch_size):
        drawn = generator.multinomial(clusters, probabilities, size=min(batch_size, draws - start))
        with np.errstate(divide="ignore", invalid="ignore"):
            batches.append(np.asarray(statistic(drawn @ totals), dtype=float))
    values = np.concatenate(batches)
    defined = values[np.isfinite(values)]
    undefined = draws - len(defined)
    if len(defined) < MIN_DEFINED * draws:
        return None, undefined
    low, high = np.quantile(defined, [0.025, 0.975])
    return (float(low), float(high)), undefined


def cluster_bootstrap(
    totals: ArrayLike, statistic: Statistic, *, draws: int = DRAWS, seed: int = SEED
) -> tuple[tuple[float, float] | None, int]:
    """The 95 % percentile interval of a statistic, from one row of totals per cluster.

    Returns what `bootstrap_patterns` does. Neither the order of the rows nor the machine changes
    the interval.
    """
    rows = np.asarray(totals, dtype=float)
    if not len(rows):
        return None, draws
    patterns, counts = np.unique(rows, axis=0, return_counts=True)
    return bootstrap_patterns(patterns, counts, statistic, draws=draws, seed=seed)
