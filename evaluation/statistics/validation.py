"""Accuracy of the judge, with physicians as the reference.

Positive means failed (hallucinated): sensitivity is the share of the criteria that physicians call
failed that the judge also calls failed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics.intervals import MINIMUM, Method, RateInterval
from evaluation.statistics.two_phase import TwoPhaseTable
from review.quality.agreement import AgreementEstimate, ac1, kappa


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


def judge_quality(table: TwoPhaseTable, *, minimum: int = MINIMUM) -> JudgeQuality:
    """The accuracy and agreement of a judge, from the criteria of a run that physicians checked.

    Sensitivity and specificity, kappa (Cohen 1960), AC1 (Gwet 2008) and balanced F1 are those of
    the table of the whole run that the checked criteria stand for, with the intervals of
    `TwoPhaseTable.estimate`. A sensitivity has none below `minimum` clusters in which physicians
    call a criterion failed, a specificity none below as many in which they call one passed.

    Args:
        table: physicians' verdicts by the judge's (`two_phase_table`).
        minimum: clusters below which there are no intervals.
    """
    return JudgeQuality(
        n=table.n,
        clusters=table.clusters_with(np.ones((2, 2), dtype=np.bool_)),
        sensitivity=_share_found(table, 0, minimum),
        specificity=_share_found(table, 1, minimum),
        balanced_f1=table.estimate(balanced_f1, minimum=minimum),
        kappa=table.estimate(kappa, minimum=minimum),
        ac1=table.estimate(ac1, minimum=minimum),
    )


def _share_found(table: TwoPhaseTable, truth: int, minimum: int) -> RateInterval:
    """The share that the judge calls so, too, of what physicians call failed (0) or passed (1)."""

    def share(tables: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = tables[..., truth, truth] / tables[..., truth, :].sum(axis=-1)
        return found

    row = np.zeros((2, 2), dtype=np.bool_)
    row[truth] = True
    n, clusters = int(table.counts[truth].sum()), table.clusters_with(row)
    estimate = table.estimate(share, minimum=minimum, of=row)
    if estimate.value is None:
        return RateInterval(None, None, None, Method.UNDEFINED, clusters, n)
    if estimate.low is None:
        method = Method.TOO_FEW
    else:
        method = Method.TWO_PHASE
    return RateInterval(estimate.value, estimate.low, estimate.high, method, clusters, n)
