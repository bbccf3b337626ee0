"""Rates and differences corrected for the errors of a judge, with the uncertainty of that."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.clusters import cr2_variance, satterthwaite_df
from evaluation.statistics.comparisons import PairedDifference
from evaluation.statistics.distributions import t_p_value, t_quantile
from evaluation.statistics.intervals import MINIMUM, MINIMUM_DF
from evaluation.statistics.two_phase import two_phase_table

# Weight of each pseudo-cluster (one failed and one passed for each of the judge's verdicts): chosen
# by simulation (docs/statistics.md).
PSEUDO_WEIGHT = 1 / 12


class UncorrectedReason(StrEnum):
    """Why there is no corrected rate."""

    # There is no rate, or the validation sample lacks failed (or passed) criteria.
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """The rate that physicians would have found, with its 95 % interval.

    `why`: the reason for a missing value.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
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
    be corrected). Interval: `two_phase.TwoPhaseTable.estimate`. It knows what rate and correction
    have in common, and that no miss among the checked answers does not mean that there is none.

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
    found = two_phase_table(clusters, judge, physician, weights=weights).estimate(failed_share, minimum=minimum)
    if found.value is None:
        return CorrectedRate(None, why=UncorrectedReason.NOTHING)
    return CorrectedRate(found.value, found.low, found.high)


def failed_share(tables: NDArray[Any]) -> NDArray[Any]:
    """The share of criteria that the reference calls failed, of tables (..., 2, 2)."""
    share: NDArray[Any] = tables[..., 0, :].sum(axis=-1) / tables.sum(axis=(-1, -2))
    return share


@dataclass(frozen=True, slots=True)
class CheckedVerdicts:
    """A judge's verdicts on one model's answers, some of them checked: see `corrected_rate`."""

    clusters: Sequence[Any] | NDArray[Any]
    judge: ArrayLike
    physician: ArrayLike
    weights: ArrayLike | None = None


def corrected_difference(
    first: CheckedVerdicts, second: CheckedVerdicts, *, minimum: int = MINIMUM
) -> PairedDifference:
    """The first corrected rate minus the second, on the clusters that both models have.

    A judge that errs more on one model's answers than on the other's makes equal models differ:
    `paired_difference` of its verdicts then measures the judge. Here each rate is corrected by its
    own validation sample, d = pi1 - pi2, and both are linearised together: the residuals of
    `corrected_rate` per cluster, e1 - e2, so that the difficulty that the models share cancels, and
    the uncertainty of both validations counts (difference estimator of two-phase sampling: Sarndal,
    Swensson & Wretman 1992, chapter 9). d +- t sqrt(V), V being CR2 with the pseudo-clusters of
    both rates. The degrees of freedom are two fewer than the validated clusters of the model that
    has fewer, as one share is estimated for each verdict. p and interval agree.

    Args:
        first, second: the verdicts on both models' answers; cluster ids mean the same in both.
        minimum: validated clusters of either model below which there is neither interval nor p.
    """
    shared = np.intersect1d(np.asarray(first.clusters), np.asarray(second.clusters))
    sides = []
    for side in (first, second):
        ids = np.asarray(side.clusters)
        kept = np.isin(ids, shared)
        if side.weights is None:
            weights = None
        else:
            weights = np.asarray(side.weights)[kept]
        verdicts = CheckedVerdicts(ids[kept], np.asarray(side.judge)[kept], np.asarray(side.physician)[kept], weights)
        sides.append(_linearised(verdicts, shared, np.searchsorted(shared, ids[kept])))
    one, other = sides
    if one is None or other is None:
        return PairedDifference(
            one.value if one else None, other.value if other else None, None, len(shared) if one or other else 0
        )
    value, df = one.value - other.value, float(min(one.validated, other.validated) - 2)
    shares = (one.shares + other.shares) / 2
    if min(one.validated, other.validated) < minimum or min(df, float(satterthwaite_df(shares))) < MINIMUM_DF:
        return PairedDifference(one.value, other.value, value, len(shared))
    variance = (
        float(cr2_variance(one.residuals - other.residuals, shares)) + one.pseudo_variance + other.pseudo_variance
    )
    centre, error, t = one.centre - other.centre, sqrt(variance), t_quantile(0.975, df)
    return PairedDifference(
        one.value,
        other.value,
        value,
        len(shared),
        low=max(-1.0, centre - t * error),
        high=min(1.0, centre + t * error),
        p=t_p_value(centre / error, df),
    )


@dataclass(frozen=True, slots=True)
class _Linearised:
    """A corrected rate and its residuals per cluster, both of the padded estimate `centre`.

    `validated`: clusters with a physician's verdict. `shares`: of the criteria, by cluster.
    """

    value: float
    centre: float
    total: int
    validated: int
    shares: NDArray[np.float64]
    residuals: NDArray[np.float64]
    pseudo_variance: float


def _linearised(verdicts: CheckedVerdicts, names: NDArray[Any], cluster: NDArray[Any]) -> _Linearised | None:
    """`cluster`: the place of each criterion's cluster in `names`."""
    verdict, truth = np.asarray(verdicts.judge, dtype=bool), np.asarray(verdicts.physician, dtype=float)
    if verdicts.weights is None:
        w = np.ones(len(truth))
    else:
        w = np.asarray(verdicts.weights, dtype=float)
    validated = ~np.isnan(truth)
    if not verdict.shape == truth.shape == w.shape:
        raise ValueError("expected a judge's verdict, a physician's (or NaN) and a weight per criterion")
    if (w[validated] <= 0).any() or not np.isfinite(w[validated]).all():
        raise ValueError("a weight must be positive and finite")
    total, cluster_count = len(truth), len(names)
    if not total:
        return None
    given = []
    for has_verdict in (verdict, ~verdict):
        if not has_verdict.any():
            continue
        if not (validated & has_verdict).any():
            return None
        given.append(has_verdict)
    value = centre = pseudo_variance = 0.0
    residuals = np.zeros(cluster_count)
    for has_verdict in given:
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
    shares = np.bincount(cluster, minlength=cluster_count) / total
    return _Linearised(
        min(1.0, value),
        centre,
        total,
        len(np.unique(cluster[validated])),
        shares,
        residuals / total - centre * shares,
        pseudo_variance,
    )
