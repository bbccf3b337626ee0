"""Rates corrected for the judge's errors by a validation sample, including its uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.clusters import cr2_variance, satterthwaite_df
from evaluation.statistics.intervals import MINIMUM, MINIMUM_DF, RateInterval
from review.rules.wilson_interval import Z95, wilson

# Weight of each pseudo-cluster (one failed and one passed for each of the judge's verdicts): chosen
# by simulation (docs/statistics.md).
PSEUDO_WEIGHT = 1 / 12


class UncorrectedReason(StrEnum):
    """Why there is no corrected rate."""

    # There is no rate, or the validation sample lacks failed (or passed) criteria.
    NOTHING = "nothing"
    NO_BETTER_THAN_CHANCE = "no-better-than-chance"  # sensitivity + specificity <= 1


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """The rate that physicians would have found, with its 95 % interval.

    `clipped`: the estimate lay outside 0 to 1 and was set to the nearer end. `why`: the reason for
    a missing value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    clipped: bool = False
    why: UncorrectedReason | None = None


def corrected_rate(
    clusters: Sequence[Any] | NDArray[Any],
    judge: ArrayLike,
    physician: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    minimum: int = MINIMUM,
) -> CorrectedRate:
    """The corrected failure rate of a run of which physicians checked a sample of criteria.

    pi = (q + Sp - 1) / (Se + Sp - 1) (Rogan & Gladen 1978, Am. J. Epidemiol. 107), with Se and Sp
    weighted to the run's own number of each verdict. Then it equals the sum over verdicts h of
    N_h p_h / N, p_h being the weighted share that physicians call failed among criteria with
    verdict h, and so lies between 0 and 1 without clipping (Marshall 1990, J. Clin. Epidemiol. 43:
    the more precise of the two corrections where the validation sample was drawn from the data to
    be corrected).

    Variance: e = (sum of p_h over the cluster's criteria - pi m + sum of w (t - p_h) over its
    validated ones) / N, the difference estimator of two-phase sampling (Sarndal, Swensson & Wretman
    1992, chapter 9), with CR2 over clusters. It includes the covariance of the rate and its
    correction. Interval: Wilson's at pi (1 - pi) / V criteria, at most N, as in `rate_interval`.
    Two pseudo-clusters per verdict, of the typical size of a validated cluster, one failed and one
    passed, each with weight `PSEUDO_WEIGHT`, keep V above 0 where physicians always agree.

    Args:
        clusters: the cluster id of each criterion of the run.
        judge: whether the judge calls the criterion failed.
        physician: 1 failed, 0 passed, NaN if no physician decided.
        weights: inverse probability of being drawn, used only where a physician decided; None: all
            equal.
        minimum: clusters with a physician's verdict below which there is no interval.

    Raises:
        ValueError: the arrays differ in shape, or a weight is not positive and finite.
    """
    verdict, truth = np.asarray(judge, dtype=bool), np.asarray(physician, dtype=float)
    w = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=float)
    validated = ~np.isnan(truth)
    if not verdict.shape == truth.shape == w.shape:
        raise ValueError("expected a judge's verdict, a physician's (or NaN) and a weight per criterion")
    if (w[validated] <= 0).any() or not np.isfinite(w[validated]).all():
        raise ValueError("a weight must be positive and finite")
    total = len(truth)
    verdicts = [verdict == outcome for outcome in (True, False) if (verdict == outcome).any()]
    if not total or any(not (validated & has_verdict).any() for has_verdict in verdicts):
        return CorrectedRate(None, why=UncorrectedReason.NOTHING)
    _, cluster = np.unique(np.asarray(clusters), return_inverse=True)
    cluster_count = int(cluster.max()) + 1
    value = centre = pseudo_variance = 0.0
    residuals = np.zeros(cluster_count)
    for has_verdict in verdicts:
        size, checked = int(has_verdict.sum()), has_verdict & validated
        scaled = w[checked] * size / w[checked].sum()
        by_cluster = np.bincount(cluster[checked], scaled, cluster_count)
        typical = float((by_cluster**2).sum()) / size
        padded = size + 2 * PSEUDO_WEIGHT * typical
        failed = float((scaled * truth[checked]).sum())
        share = (failed + PSEUDO_WEIGHT * typical) / padded
        value += failed / total
        centre += size * share / total
        deviations = np.bincount(cluster[checked], scaled * (truth[checked] - share), cluster_count)
        residuals += share * np.bincount(cluster[has_verdict], minlength=cluster_count) + deviations / np.sqrt(
            1 - by_cluster / padded
        )
        pseudo_variance += PSEUDO_WEIGHT * (typical / total) ** 2 * ((1 - share) ** 2 + share**2)
    value = min(1.0, value)
    shares = np.bincount(cluster, minlength=cluster_count) / total
    if len(np.unique(cluster[validated])) < minimum or satterthwaite_df(shares) < MINIMUM_DF:
        return CorrectedRate(value)
    variance = cr2_variance(residuals / total - centre * shares, shares) + pseudo_variance
    effective = min(float(total), centre * (1 - centre) / variance)
    return CorrectedRate(value, *wilson(value * effective, effective))


def externally_corrected_rate(raw: RateInterval, sensitivity: RateInterval, specificity: RateInterval) -> CorrectedRate:
    """A rate corrected with sensitivity and specificity from other data (external validation).

    The other data may be another run or a published study. The correction assumes that the judge
    errs equally often in both, which need not hold for another model's answers. Where physicians
    checked this run, use `corrected_rate`: it does not need the assumption, and is narrower.

    pi = (q + Sp - 1) / (Se + Sp - 1) (Rogan & Gladen 1978, Am. J. Epidemiol. 107). Interval: Lang &
    Reiczigel (2014), Prev. Vet. Med. 113: with q' = (n q + z^2/2) / (n + z^2),
    Se' = (n Se + 1) / (n + 2), Sp' likewise, each with its own n, J = Se' + Sp' - 1,
    pi' = (q' + Sp' - 1) / J, a = Se' (1 - Se') / (n + 2), b = Sp' (1 - Sp') / (n + 2),
        pi' + 2 z^2 (pi' a - (1 - pi') b)
            +- z sqrt(q' (1 - q') / (n + z^2) + pi'^2 a + (1 - pi')^2 b) / J.
    Every n is the effective one of `rate_interval`, which accounts for clusters and weights. There
    is no interval where one of the three rates has none.
    """
    if raw.value is None or sensitivity.value is None or specificity.value is None:
        return CorrectedRate(None, why=UncorrectedReason.NOTHING)
    gain = sensitivity.value + specificity.value - 1
    if gain <= 0:
        return CorrectedRate(None, why=UncorrectedReason.NO_BETTER_THAN_CHANCE)
    estimate = (raw.value + specificity.value - 1) / gain
    value = min(1.0, max(0.0, estimate))
    clipped = abs(value - estimate) > 1e-12
    sizes = raw.effective_n, sensitivity.effective_n, specificity.effective_n
    if sizes[0] is None or sizes[1] is None or sizes[2] is None:
        return CorrectedRate(value, clipped=clipped)
    q = (sizes[0] * raw.value + Z95**2 / 2) / (sizes[0] + Z95**2)
    se = (sizes[1] * sensitivity.value + 1) / (sizes[1] + 2)
    sp = (sizes[2] * specificity.value + 1) / (sizes[2] + 2)
    gain = se + sp - 1
    if gain <= 0:
        return CorrectedRate(value, clipped=clipped)
    centre = (q + sp - 1) / gain
    a, b = se * (1 - se) / (sizes[1] + 2), sp * (1 - sp) / (sizes[2] + 2)
    half = Z95 * sqrt(q * (1 - q) / (sizes[0] + Z95**2) + centre**2 * a + (1 - centre) ** 2 * b) / gain
    centre += 2 * Z95**2 * (centre * a - (1 - centre) * b)
    low, high = min(1.0, max(0.0, centre - half)), min(1.0, max(0.0, centre + half))
    return CorrectedRate(value, low, high, clipped)
