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
class Ratio:
    """The ratio estimate r = sum(y) / sum(m) over clusters.

    Attributes:
        value: r.
        total: sum(m).
        shares: m / sum(m) of each cluster.
        residuals: (y - r m) / sum(m) of each cluster, the linearisation of r.
    """

    value: float
    total: float
    shares: Floats
    residuals: Floats


def ratio(hits: ArrayLike, sizes: ArrayLike) -> Ratio | None:
    """The ratio estimator of totals per cluster (Cochran 1977, section 6.3); None if sum(m) is 0.

    Its residuals are those of Taylor linearisation, (y - r m) / sum(m) (Cochran 1977, chapter 6).
    A cluster of size 0 has share 0 and contributes nothing.

    Args:
        hits: y, the numerator of each cluster, such as its failed criteria.
        sizes: m, its denominator, such as its judged criteria.
    """
    y, m = np.asarray(hits, dtype=float), np.asarray(sizes, dtype=float)
    if y.shape != m.shape or y.ndim != 1:
        raise ValueError(f"expected one total per cluster, not {y.shape} and {m.shape}")
    if np.count_nonzero((y < 0) | (y > m)):
        raise ValueError("the hits of a cluster must lie between 0 and its size")
    total = float(m.sum())
    if not total:
        return None
    value = float(y.sum()) / total
    return Ratio(value, total, m / total, (y - value * m) / total)


def cr2_variance(residuals: Floats, shares: Floats) -> float:
    """The bias-reduced variance CR2 of a mean over clusters.

    sum(e^2 / (1 - h)), h being the cluster's share of the denominator. Bell & McCaffrey (2002),
    Survey Methodology 28: residuals times (I - H)^(-1/2). For a mean, the hat matrix of a cluster
    with m of M rows has one nonzero eigenvalue, m/M, which gives this form. It is unbiased where
    rows are independent, and infinite where one cluster has all rows.
    """
    if shares.max(initial=0.0) >= 1:
        return float("inf")
    return float((residuals**2 / (1 - shares)).sum())


def satterthwaite_df(shares: Floats) -> float:
    """Degrees of freedom of `cr2_variance`: 2 E(V)^2 / Var(V).

    The working model is independent rows: Bell & McCaffrey (2002); Pustejovsky & Tipton (2018), J.
    Bus. Econ. Stat. 36. For a mean this is
    1 / (sum(s^2) + (sum(s^2/(1-s)))^2 - sum(s^4/(1-s)^2)), s being the shares: C - 1 for C clusters
    of equal size.
    """
    if shares.max(initial=0.0) >= 1:
        return 0.0
    squares = shares**2
    adjusted = squares / (1 - shares)
    return 1 / (float(squares.sum()) + float(adjusted.sum()) ** 2 - float((adjusted**2).sum()))
