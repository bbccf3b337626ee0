"""Accuracy of the judge, with physicians as the reference.

Positive means failed (hallucinated): sensitivity is the share of the criteria that physicians call
failed that the judge also calls failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.intervals import MINIMUM, RateInterval, rate_interval
from review.quality.agreement import AgreementEstimate, ac1, kappa, table_interval


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """The accuracy of one judge on one model's answers.

    `n`: criteria decided by physicians; `clusters`: the clusters that they come from.
    """

    n: int
    clusters: int
    sensitivity: RateInterval
    specificity: RateInterval
    balanced_f1: AgreementEstimate
    kappa: AgreementEstimate
    ac1: AgreementEstimate


def balanced_f1(tables: NDArray[Any]) -> NDArray[Any]:
    """Macro-averaged F1: the mean of 2 TP / (2 TP + FP + FN) for failed and for passed as positive.

    Opitz & Burst (2019), arXiv:1911.03347; HealthBench compares its judge with physicians by it
    (Arora et al. 2025, arXiv:2505.08775). NaN if physicians called no criterion failed, or none
    passed. `tables`: (..., 2, 2), physician by judge, failed first.
    """
    wrong = tables[..., 0, 1] + tables[..., 1, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        f1 = [2 * tables[..., i, i] / (2 * tables[..., i, i] + wrong) for i in (0, 1)]
    one_class = (tables.sum(axis=-1) == 0).any(axis=-1)
    return np.where(one_class, np.nan, (f1[0] + f1[1]) / 2)


def judge_quality(
    clusters: Sequence[Any] | NDArray[Any],
    physician: ArrayLike,
    judge: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    minimum: int = MINIMUM,
) -> JudgeQuality:
    """The accuracy and agreement of a judge, from one entry per criterion of the validation sample.

    Sensitivity sum(w t j) / sum(w t) and specificity sum(w (1-t) (1-j)) / sum(w (1-t)) are ratio
    estimators weighted by the inverse probability of being drawn (Hajek 1971; Cochran 1977, section
    6.3), with `rate_interval` over clusters. kappa (Cohen 1960), AC1 (Gwet 2008) and balanced F1
    are computed from the weighted table, with the intervals of `review.quality.agreement`. The
    variances ignore stratification, so that intervals are slightly too wide.

    Args:
        clusters: the cluster id of each criterion.
        physician, judge: whether each calls the criterion failed.
        weights: inverse of the sampled share of the stratum; None: all equal.
        minimum: clusters below which there are no intervals.

    Raises:
        ValueError: the arrays differ in shape, or a weight is not positive and finite.
    """
    truth, verdict = np.asarray(physician, dtype=bool), np.asarray(judge, dtype=bool)
    w = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=float)
    if truth.shape != verdict.shape or truth.shape != w.shape:
        raise ValueError("expected both verdicts and a weight per criterion")
    if (w <= 0).any() or not np.isfinite(w).all():
        raise ValueError("a weight must be positive and finite")
    cells = np.stack(
        cluster_totals(clusters, *(w * (truth == t) * (verdict == j) for t in (True, False) for j in (True, False))),
        axis=1,
    )

    tables = cells.reshape(-1, 2, 2)

    def share(right: int, wrong: int, positive: NDArray[np.bool_]) -> RateInterval:
        n = None if weights is None else int(positive.sum())
        return rate_interval(cells[:, right], cells[:, right] + cells[:, wrong], n=n, minimum=minimum)

    return JudgeQuality(
        n=len(truth),
        clusters=len(cells),
        sensitivity=share(0, 1, truth),
        specificity=share(3, 2, ~truth),
        balanced_f1=table_interval(tables, balanced_f1, minimum=minimum),
        kappa=table_interval(tables, kappa, minimum=minimum),
        ac1=table_interval(tables, ac1, minimum=minimum),
    )
