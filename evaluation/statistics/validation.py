"""The judge against physicians: how often it is right.

Positive means failed (hallucinated): sensitivity is the share of what physicians call failed that the judge calls
failed too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.bootstrap import DRAWS, cluster_bootstrap
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.intervals import MINIMUM, RateInterval, rate_interval
from review.quality.agreement import ac1, kappa


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """A figure with the 95 % percentiles of the cluster bootstrap; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """One judge on one model's answers. `n`: criteria that a physician decided on; `clusters`: samples they come from."""

    n: int
    clusters: int
    sensitivity: RateInterval
    specificity: RateInterval
    balanced_f1: Bootstrapped
    kappa: Bootstrapped
    ac1: Bootstrapped


def balanced_f1(tables: NDArray[Any]) -> NDArray[Any]:
    """The mean of both classes' F1, 2 TP / (2 TP + FP + FN) with failed and with passed as positive; NaN without
    one class.

    Macro-averaged F1 (Opitz & Burst 2019, arXiv:1911.03347), as HealthBench compares its judge with physicians (Arora
    et al. 2025, arXiv:2505.08775). `tables`: (..., 2, 2), physician by judge, failed first.
    """
    wrong = tables[..., 0, 1] + tables[..., 1, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        each = [2 * tables[..., i, i] / (2 * tables[..., i, i] + wrong) for i in (0, 1)]
    one_class = (tables.sum(axis=-1) == 0).any(axis=-1)
    return np.where(one_class, np.nan, (each[0] + each[1]) / 2)


def judge_quality(
    clusters: Sequence[Any] | NDArray[Any],
    physician: ArrayLike,
    judge: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    minimum: int = MINIMUM,
    draws: int = DRAWS,
) -> JudgeQuality:
    """How a judge does against physicians, from one entry a criterion of the validation sample.

    Sensitivity sum(w t j) / sum(w t) and specificity sum(w (1-t) (1-j)) / sum(w (1-t)) are ratio estimators with
    the inverse chance of being drawn as weight (Hajek 1971; Cochran 1977, section 6.3), with `rate_interval` over
    clusters. kappa (Cohen 1960), AC1 (Gwet 2008) and balanced F1 are computed from the weighted table
    (`review.quality.agreement`), intervals by the cluster bootstrap. That strata were drawn separately is left out
    of the variance, which makes it slightly too wide.

    Args:
        physician, judge: failed or not, as each says.
        weights: one over the share of the stratum that was drawn; None: all the same.
        draws: of the bootstrap; 0: no intervals for kappa, AC1 and F1.
    """
    truth, verdict = np.asarray(physician, dtype=bool), np.asarray(judge, dtype=bool)
    w = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=float)
    if truth.shape != verdict.shape or truth.shape != w.shape:
        raise ValueError("one verdict of each and one weight a criterion are needed")
    if (w <= 0).any() or not np.isfinite(w).all():
        raise ValueError("a weight is one over a chance: it is positive")
    cells = np.stack(
        cluster_totals(clusters, *(w * (truth == t) * (verdict == j) for t in (True, False) for j in (True, False))),
        axis=1,
    )

    def share(right: int, wrong: int, positive: NDArray[np.bool_]) -> RateInterval:
        n = None if weights is None else int(positive.sum())
        return rate_interval(cells[:, right], cells[:, right] + cells[:, wrong], n=n, minimum=minimum)

    def figure(of: Any) -> Bootstrapped:
        value = float(of(cells.sum(axis=0).reshape(2, 2))) if len(cells) else float("nan")
        if not np.isfinite(value):
            return Bootstrapped(None, None, None)
        if len(cells) < minimum or not draws:
            return Bootstrapped(value, None, None)
        # Clusters that differ by rounding alone are alike: the order of the rows does not change the interval.
        interval, _ = cluster_bootstrap(np.round(cells, 9), lambda totals: of(totals.reshape(-1, 2, 2)), draws=draws)
        low, high = interval or (None, None)
        return Bootstrapped(value, low, high)

    return JudgeQuality(
        n=len(truth),
        clusters=len(cells),
        sensitivity=share(0, 1, truth),
        specificity=share(3, 2, ~truth),
        balanced_f1=figure(balanced_f1),
        kappa=figure(kappa),
        ac1=figure(ac1),
    )
