"""Criteria of one sample are not independent: totals per cluster, the ratio estimator and its variance.

A cluster is whatever the caller says: the sample, or the source record above it where several samples come from
one. To cluster by the outermost level covers every dependence inside it, so one id a row is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def cluster_totals(clusters: Sequence[Any] | NDArray[Any], *columns: ArrayLike) -> tuple[Floats, ...]:
    """The sum of each column in each cluster, clusters in ascending order of their id."""
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    size = int(place.max()) + 1 if len(place) else 0
    return tuple(np.bincount(place, np.asarray(column, dtype=float), size).astype(float) for column in columns)


def summed(values: Floats, times: Floats | None) -> float:
    """The sum over clusters. `times`: how many clusters are like each entry; None: one."""
    return float(values.sum() if times is None else (values * times).sum())


@dataclass(frozen=True)
class Ratio:
    """r = sum(y) / sum(m) over clusters; `shares`: m / sum(m); `residuals`: (y - r m) / sum(m), the linearisation of r."""

    value: float
    total: float
    shares: Floats
    residuals: Floats

    @cached_property
    def of_odds(self) -> Floats:
        """The residuals of the logarithm of the odds; of a rate that is neither 0 nor 1."""
        return self.residuals / (self.value * (1 - self.value))


def ratio(hits: ArrayLike, counted: ArrayLike, times: Floats | None = None) -> Ratio | None:
    """The ratio estimator (Cochran 1977, section 6.3) of totals per cluster; None where nothing was counted.

    Its residuals are those of Taylor linearisation, (y - r m) / sum(m) (Cochran 1977, chapter 6). Clusters in which
    nothing was counted have share 0 and add nothing. `times`: as of `summed`, here and below.
    """
    y, m = _pair(hits, counted)
    total = summed(m, times)
    if not total:
        return None
    value = summed(y, times) / total
    return Ratio(value, total, m / total, (y - value * m) / total)


def cr2_variance(residuals: Floats, shares: Floats, times: Floats | None = None) -> float:
    """The bias-reduced variance CR2 of a mean over clusters: sum(e^2 / (1 - h)), h the cluster's share of the
    denominator.

    Bell & McCaffrey (2002), Survey Methodology 28: residuals times (I - H)^(-1/2). For a mean the hat matrix of a
    cluster of m rows of M has one eigenvalue other than 0, m/M, which gives this form. It is unbiased where rows are
    independent. Infinite where one cluster has everything.
    """
    if shares.max(initial=0.0) >= 1:
        return float("inf")
    return summed(residuals**2 / (1 - shares), times)


def satterthwaite_df(shares: Floats, times: Floats | None = None) -> float:
    """Degrees of freedom of `cr2_variance`: 2 E(V)^2 / Var(V), with independent rows as the working model.

    Bell & McCaffrey (2002); Pustejovsky & Tipton (2018), J. Bus. Econ. Stat. 36. For a mean it is
    1 / (sum(s^2) + (sum(s^2/(1-s)))^2 - sum(s^4/(1-s)^2)), s the shares; C - 1 for C clusters of one size.
    """
    if shares.max(initial=0.0) >= 1:
        return 0.0
    one = shares**2 / (1 - shares)
    return 1 / (summed(shares**2, times) + summed(one, times) ** 2 - summed(one**2, times))


def intracluster_correlation(hits: ArrayLike, counted: ArrayLike) -> float | None:
    """How alike the criteria of one sample come out: the analysis-of-variance estimate for yes-no answers.

    (MSB - MSW) / (MSB + (m0 - 1) MSW), MSB = sum(m (p - r)^2) / (C - 1), MSW = sum(m p (1 - p)) / (M - C), m0 = (M
    - sum(m^2) / M) / (C - 1): Ridout, Demetrio & Firth (1999), Biometrics 55; Donner (1986), Int. Stat. Rev. 54.
    Negative where criteria of one sample differ more than those of two. None with one cluster, without a cluster of
    two, or where all answers are the same.
    """
    y, m = _pair(hits, counted)
    y, m = y[m > 0], m[m > 0]
    total, clusters = m.sum(), len(m)
    if clusters < 2 or total <= clusters:
        return None
    p = y / m
    between = (m * (p - y.sum() / total) ** 2).sum() / (clusters - 1)
    within = (m * p * (1 - p)).sum() / (total - clusters)
    typical = (total - (m**2).sum() / total) / (clusters - 1)
    spread = between + (typical - 1) * within
    return float((between - within) / spread) if spread else None


def _pair(hits: ArrayLike, counted: ArrayLike) -> tuple[Floats, Floats]:
    y, m = np.asarray(hits, dtype=float), np.asarray(counted, dtype=float)
    if y.shape != m.shape or y.ndim != 1:
        raise ValueError(f"one total a cluster is needed, not {y.shape} and {m.shape}")
    if (y < 0).any() or (y > m).any():
        raise ValueError("a cluster has more hits than were counted, or fewer than none")
    return y, m
