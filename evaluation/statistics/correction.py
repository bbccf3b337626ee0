"""The rate that the judge's errors hide: corrected by a validation sample, with that sample's uncertainty."""

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

ADDED = (
    1 / 12
)  # of a typical validated cluster, failed and passed, per verdict: chosen by simulation (docs/statistics.md)


class Uncorrected(StrEnum):
    """Why there is no corrected rate."""

    NOTHING = "nothing"  # no rate, or no criterion failed (or passed) in the validation sample
    NO_BETTER_THAN_CHANCE = "no-better-than-chance"  # sensitivity + specificity <= 1: the judge tells nothing


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """The rate that physicians would have found. `clipped`: the estimate lay outside 0..1 and is given as its end."""

    value: float | None
    low: float | None = None
    high: float | None = None
    clipped: bool = False
    why: Uncorrected | None = None


def corrected_rate(
    clusters: Sequence[Any] | NDArray[Any],
    judge: ArrayLike,
    physician: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    minimum: int = MINIMUM,
) -> CorrectedRate:
    """The corrected rate of a run, on a share of whose criteria physicians decided. One entry a criterion of the run.

    pi = (q + Sp - 1) / (Se + Sp - 1) (Rogan & Gladen 1978, Am. J. Epidemiol. 107), Se and Sp with weights scaled to
    the run's own number of each verdict. With those it equals sum over verdicts h of N_h p_h / N, p_h the weighted
    share that physicians call failed among verdict h (Marshall 1990, J. Clin. Epidemiol. 43: the more precise of
    the two corrections where the sample was drawn from the data to be corrected), and so lies between 0 and 1
    without clipping.

    Variance: e = (sum of p_h over the cluster's criteria - pi m + sum of w (t - p_h) over its validated ones) / N,
    the difference estimator of two-phase sampling (Sarndal, Swensson & Wretman 1992, chapter 9), with CR2 over
    clusters. What the rate and its correction have in common is in it. Interval: Wilson's at pi (1 - pi) / V, at
    most N, as in `rate_interval`; `ADDED` of a typical validated cluster as failed and as passed, per verdict,
    keeps V from 0 where physicians always agree.

    Args:
        judge: failed or not, as the judge says, for every criterion.
        physician: 1 failed, 0 passed, NaN where no physician looked.
        weights: one over the chance of being drawn, used where a physician looked; None: all the same.
        minimum: clusters with a physician's verdict below which there is no interval.
    """
    verdict, truth = np.asarray(judge, dtype=bool), np.asarray(physician, dtype=float)
    w = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=float)
    validated = ~np.isnan(truth)
    if not verdict.shape == truth.shape == w.shape:
        raise ValueError("one verdict, one physician's (or NaN) and one weight a criterion are needed")
    if (w[validated] <= 0).any() or not np.isfinite(w[validated]).all():
        raise ValueError("a weight is one over a chance: it is positive")
    total = len(truth)
    verdicts = [verdict == one for one in (True, False) if (verdict == one).any()]
    if not total or any(not (validated & those).any() for those in verdicts):
        return CorrectedRate(None, why=Uncorrected.NOTHING)
    _, place = np.unique(np.asarray(clusters), return_inverse=True)
    count = int(place.max()) + 1
    value = centre = extra = 0.0
    residuals = np.zeros(count)
    for those in verdicts:
        size, drawn = int(those.sum()), those & validated
        each = w[drawn] * size / w[drawn].sum()
        by_cluster = np.bincount(place[drawn], each, count)
        typical = float((by_cluster**2).sum()) / size
        grown = size + 2 * ADDED * typical
        failed = float((each * truth[drawn]).sum())
        share = (failed + ADDED * typical) / grown
        value += failed / total
        centre += size * share / total
        surprise = np.bincount(place[drawn], each * (truth[drawn] - share), count)
        residuals += share * np.bincount(place[those], minlength=count) + surprise / np.sqrt(1 - by_cluster / grown)
        extra += ADDED * (typical / total) ** 2 * ((1 - share) ** 2 + share**2)
    value = min(1.0, value)
    shares = np.bincount(place, minlength=count) / total
    if len(np.unique(place[validated])) < minimum or satterthwaite_df(shares) < MINIMUM_DF:
        return CorrectedRate(value)
    variance = cr2_variance(residuals / total - centre * shares, shares) + extra
    effective = min(float(total), centre * (1 - centre) / variance)
    return CorrectedRate(value, *wilson(value * effective, effective))


def corrected_elsewhere(raw: RateInterval, sensitivity: RateInterval, specificity: RateInterval) -> CorrectedRate:
    """A rate corrected with sensitivity and specificity from other data, such as another run or a published study.

    It assumes that the judge errs as often here as there, which another model's answers need not bear out. Where
    physicians looked at this run, use `corrected_rate`: it assumes nothing, and is narrower.

    pi = (q + Sp - 1) / (Se + Sp - 1) (Rogan & Gladen 1978, Am. J. Epidemiol. 107). Interval: Lang & Reiczigel (2014),
    Prev. Vet. Med. 113: with q' = (n q + z^2/2) / (n + z^2), Se' = (n Se + 1) / (n + 2), Sp' likewise, each over its
    own n, J = Se' + Sp' - 1, pi' = (q' + Sp' - 1) / J, a = Se' (1 - Se') / (n + 2), b = Sp' (1 - Sp') / (n + 2),
        pi' + 2 z^2 (pi' a - (1 - pi') b) +- z sqrt(q' (1 - q') / (n + z^2) + pi'^2 a + (1 - pi')^2 b) / J.
    Every n is the effective one of `rate_interval`, so clusters and weights count. No interval where one of the
    three has none.
    """
    if raw.value is None or sensitivity.value is None or specificity.value is None:
        return CorrectedRate(None, why=Uncorrected.NOTHING)
    gain = sensitivity.value + specificity.value - 1
    if gain <= 0:
        return CorrectedRate(None, why=Uncorrected.NO_BETTER_THAN_CHANCE)
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
