"""Totals per cluster, the ratio estimator and its variance: criteria of one sample are dependent.

The caller chooses the clusters: samples, or source records where several samples come from one
record. Clustering by the outermost level covers every dependence inside it, so one id per row is
enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def cluster_totals(clusters: Sequence[Any] | NDArray[Any], *columns: ArrayLike) -> tuple[Floats, ...]:
    """The sums of each column by cluster, in ascending order of the cluster's id."""
    _, index = np.unique(np.asarray(clusters), return_inverse=True)
    size = 0
    if len(index):
        size = int(index.max()) + 1
    return tuple(np.bincount(index, np.asarray(column, dtype=float), size).astype(float) for column in columns)


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratio estimates r = sum(y) / sum(m) over clusters, one of each row of totals.

    Attributes:
        value: r, of each row; NaN where sum(m) is 0.
        total: sum(m), of each row.
        shares: m / sum(m) of each cluster, by row.
        residuals: (y - r m) / sum(m) of each cluster, the linearisation of r.
    """

    value: Floats
    total: Floats
    shares: Floats
    residuals: Floats


def ratios(hits: Floats, sizes: Floats) -> Ratios:
    """The ratio estimator of totals per cluster (Cochran 1977, section 6.3), of each row.

    Its residuals are those of Taylor linearisation, (y - r m) / sum(m) (Cochran 1977, chapter 6).
    A cluster of size 0 has share 0 and contributes nothing.

    Args:
        hits: y, the numerators of clusters, such as their failed criteria; (rows, clusters).
        sizes: m, their denominators, such as their judged criteria.
    """
    if hits.shape != sizes.shape or hits.ndim != 2:
        raise ValueError(f"expected one total per cluster, not {hits.shape} and {sizes.shape}")
    if np.count_nonzero((hits < 0) | (hits > sizes)):
        raise ValueError("the hits of a cluster must lie between 0 and its size")
    total = sizes.sum(axis=1)
    divisor = np.where(total > 0, total, np.nan)
    value = hits.sum(axis=1) / divisor
    of_cluster = divisor[:, None]
    return Ratios(value, total, sizes / of_cluster, (hits - value[:, None] * sizes) / of_cluster)


def rows_of(*totals: ArrayLike) -> tuple[Floats, ...]:
    """Totals per cluster as arrays of one row."""
    return tuple([np.asarray(of_clusters, dtype=float)[None] for of_clusters in totals])


def cr2_variance(residuals: Floats, shares: Floats) -> Floats:
    """The bias-reduced variance CR2 of a mean over clusters.

    sum(e^2 / (1 - h)), h being the cluster's share of the denominator. Bell & McCaffrey (2002),
    Survey Methodology 28: residuals times (I - H)^(-1/2). For a mean, the hat matrix of a cluster
    with m of M rows has one nonzero eigenvalue, m/M, which gives this form. It is unbiased where
    rows are independent, and infinite where one cluster has all rows. Of each row of arrays.
    """
    has_rest = shares.max(axis=-1, initial=0.0, keepdims=True) < 1
    variance: Floats = (residuals**2 / np.where(has_rest, 1 - shares, np.nan)).sum(axis=-1)
    return np.where(has_rest[..., 0], variance, np.inf)


def satterthwaite_df(shares: Floats) -> Floats:
    """Degrees of freedom of `cr2_variance`: 2 E(V)^2 / Var(V).

    The working model is independent rows: Bell & McCaffrey (2002); Pustejovsky & Tipton (2018), J.
    Bus. Econ. Stat. 36. For a mean this is
    1 / (sum(s^2) + (sum(s^2/(1-s)))^2 - sum(s^4/(1-s)^2)), s being the shares: C - 1 for C clusters
    of equal size, and 0 where one cluster has all rows, or none has any.
    """
    largest = shares.max(axis=-1, initial=0.0, keepdims=True)
    has_rest = (largest > 0) & (largest < 1)
    squares = shares**2
    adjusted = squares / np.where(has_rest, 1 - shares, np.nan)
    inverse = squares.sum(axis=-1) + adjusted.sum(axis=-1) ** 2 - (adjusted**2).sum(axis=-1)
    return np.where(has_rest[..., 0], 1 / np.where(has_rest[..., 0], inverse, 1.0), 0.0)
