"""Figures of a table of two verdicts of which only a sample was checked: two-phase sampling.

A judge decides every criterion of a run (the first phase), and physicians a sample of them, drawn
by the judge's verdicts (the second). So what the judge passed stands for many criteria each, and no
miss among sixty of them does not mean that there is none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.clusters import Floats, satterthwaite_df
from evaluation.statistics.distributions import t_quantile
from review.quality.agreement import CONFIDENCE, DRAWS, MINIMUM, AgreementEstimate, MissingReason

# (..., 2, 2), reference by rated, failed first -> a figure that does not depend on their sum.
Figure = Callable[[NDArray[Any]], NDArray[Any]]
# Criteria added to each stratum before drawing: half an agreement and half a disagreement, which is
# Jeffreys' prior of a share where the rated verdict is that of the stratum.
ADDED = 0.5
# Weight of each pseudo-cluster, one of each cell of either verdict on average, in the variance over
# clusters: few clusters may show none of the failures that others have. Chosen by simulation
# (docs/statistics.md).
PSEUDO_WEIGHT = 1 / 12
SEED = 1978
MINIMUM_DF = 4.0  # of the run's clusters, as for rates (`intervals.MINIMUM_DF`)
AGREES = np.eye(2).ravel()


@dataclass(frozen=True)
class TwoPhaseTable:
    """The table of two verdicts on the criteria of a run, from those that were checked.

    Attributes:
        shares: (2,): of the run's criteria, those that the judge failed and those that it passed.
        cells: (2, 4): of each of these, the weighted share in each cell of the table (reference by
            rated verdict, failed first).
        criteria: of the run.
        checked: (2,): Kish's effective number of checked criteria of each verdict,
            (sum w)^2 / sum(w^2).
        of_run, of_checked: (clusters, 2) criteria of the run; (clusters, 2, 4) weights checked.
        possible: (2, 4): the cells that criteria of each verdict can be in.
        counts: (2, 2): the checked criteria in each cell of the table, without weights.
    """

    shares: Floats
    cells: Floats
    criteria: float
    checked: Floats
    of_run: Floats
    of_checked: Floats
    possible: NDArray[np.bool_]
    counts: NDArray[np.int64]

    @property
    def table(self) -> Floats:
        """(2, 2): the estimated share of the run's criteria in each cell."""
        table: Floats = (self.shares @ self.cells).reshape(2, 2)
        return table

    @property
    def is_known(self) -> bool:
        """Whether some criterion of each verdict that the judge gave was checked."""
        return bool(self.criteria and (self.checked[self.shares > 0] > 0).all())

    @property
    def n(self) -> int:
        """The checked criteria."""
        return int(self.counts.sum())

    def clusters_with(self, cells: NDArray[np.bool_]) -> int:
        """How many clusters have a checked criterion in one of these cells, (2, 2)."""
        return int((self.of_checked.sum(axis=1)[:, cells.ravel()] > 0).any(axis=1).sum())

    def estimate(
        self, figure: Figure, *, minimum: int = MINIMUM, of: NDArray[np.bool_] | None = None
    ) -> AgreementEstimate:
        """A figure of the table with its 95 % interval.

        The share of criteria that the judge failed, and the cells of either verdict, are drawn from
        their Dirichlet distributions given the counts, with half an agreement and half a
        disagreement added to each stratum (Gelman et al. 2013, Bayesian Data Analysis, sections 3.4
        and 8.3; for a corrected prevalence: Lang & Reiczigel 2014, Prev. Vet. Med. 113, who replace
        the draws by normal approximations). Weights count by Kish's effective number (1965,
        section 11.7). Where criteria share clusters, all counts are divided by the design effect of
        the figure: the variance of its linearisation over clusters, both phases in one residual
        (Sarndal, Swensson & Wretman 1992, chapter 9), divided by that over independent criteria
        (Rao & Scott 1992, Biometrics 48). Pseudo-clusters (`PSEUDO_WEIGHT`) add to that variance.

        Args:
            figure: of tables.
            minimum: clusters with a checked criterion below which there is no interval. Nor is
                there one below 4 degrees of freedom of the run's clusters.
            of: (2, 2): the cells that the figure is a share of, if `minimum` counts these.
        """
        if not self.is_known:
            return AgreementEstimate(None, why=MissingReason.NOTHING)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(figure(self.table))
        if not np.isfinite(value):
            return AgreementEstimate(None, why=MissingReason.ONE_CATEGORY)
        clusters = self.clusters_with(np.ones((2, 2), dtype=np.bool_) if of is None else of)
        if clusters < max(2, minimum) or satterthwaite_df(self.of_run.sum(axis=1) / self.criteria) < MINIMUM_DF:
            return AgreementEstimate(value, why=MissingReason.TOO_FEW)
        drawn = self._draws(max(1.0, self._design_effect(figure)))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = figure(drawn)
        low, high = np.quantile(values[np.isfinite(values)], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return AgreementEstimate(value, min(value, float(low)), max(value, float(high)))

    def _added(self) -> Floats:
        agreements, disagreements = self.possible * AGREES, self.possible * (1 - AGREES)
        shares = [part / part.sum(axis=1, keepdims=True) for part in (agreements, disagreements)]
        added: Floats = ADDED * (shares[0] + shares[1])
        return added

    def _draws(self, design_effect: float) -> Floats:
        """(draws, 2, 2) tables."""
        # Rounded, so that sums in another order give the same draws and the same interval.
        of_judge = np.round(self.shares * self.criteria / design_effect + ADDED, 9)
        of_cells = np.round(self.cells * self.checked[:, None] / design_effect + self._added(), 9)
        random = np.random.default_rng(SEED)
        sizes = random.standard_gamma(of_judge, size=(DRAWS, 2))
        cells = random.standard_gamma(of_cells, size=(DRAWS, 2, 4))
        sizes /= sizes.sum(axis=1, keepdims=True)
        cells /= cells.sum(axis=2, keepdims=True)
        drawn: Floats = (sizes[:, :, None] * cells).sum(axis=1).reshape(DRAWS, 2, 2)
        return drawn

    def _design_effect(self, figure: Figure) -> float:
        added = self._added()
        counts = self.cells * self.checked[:, None] + added
        cells = counts / counts.sum(axis=1, keepdims=True)
        shares = (self.shares * self.criteria + ADDED) / (self.criteria + 2 * ADDED)
        centre, step = shares @ cells, 1e-6
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = figure((centre + step * np.eye(4)).reshape(4, 2, 2))
            slope = (moved - figure(centre.reshape(2, 2))) / step
        by_verdict = cells @ slope  # the slope of the share of each of the judge's verdicts
        overall = float(shares @ by_verdict)
        residuals = (self.of_run @ by_verdict - self.of_run.sum(axis=1) * overall) / self.criteria
        independent = float(shares @ (by_verdict - overall) ** 2) / self.criteria
        weights, pseudo = self.of_checked.sum(axis=2), 0.0
        for verdict in np.flatnonzero(self.checked):
            total = weights[:, verdict].sum()
            deviations = self.of_checked[:, verdict] @ slope - weights[:, verdict] * by_verdict[verdict]
            # As in CR2 (module `clusters`): a cluster pulls the share towards its own.
            shrinking = np.sqrt(np.maximum(1 - weights[:, verdict] / total, 0.25))
            residuals = residuals + shares[verdict] * deviations / total / shrinking
            distances = (slope - by_verdict[verdict]) ** 2
            spread = float(cells[verdict] @ distances)
            independent += float(shares[verdict]) ** 2 * spread / float(self.checked[verdict])
            typical = float((weights[:, verdict] ** 2).sum()) / total
            within = float(distances[self.possible[verdict]].mean())
            pseudo += 2 * PSEUDO_WEIGHT * within * (float(shares[verdict]) * typical / total) ** 2
        if independent <= 0:
            return 1.0
        # As many clusters as were checked tell the variance: Student's t, one share by verdict.
        freedom = max(1, int((weights.sum(axis=1) > 0).sum()) - 2)
        widening = (t_quantile(0.975, freedom) / t_quantile(0.975, float("inf"))) ** 2
        return widening * (float((residuals**2).sum()) + pseudo) / independent


def two_phase_table(
    clusters: Sequence[Any] | NDArray[Any],
    judge: ArrayLike,
    reference: ArrayLike,
    rated: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> TwoPhaseTable:
    """The table of a reference's and a rated verdict, from one entry per criterion of a run.

    Args:
        clusters: the cluster id of each criterion.
        judge: whether the judge calls it failed.
        reference, rated: 1 failed, 0 passed, NaN if it was not checked. `rated` None: the judge.
        weights: inverse probability of being drawn, used only where both are known; None: equal.

    Raises:
        ValueError: the arrays differ in shape, or a weight is not positive and finite.
    """
    verdict = np.asarray(judge, dtype=bool)
    one = np.asarray(reference, dtype=float)
    other = np.asarray(verdict if rated is None else rated, dtype=float)
    if weights is None:
        w = np.ones(len(one))
    else:
        w = np.asarray(weights, dtype=float)
    if not verdict.shape == one.shape == other.shape == w.shape:
        raise ValueError("expected a judge's verdict, two others (or NaN) and a weight per criterion")
    known = ~(np.isnan(one) | np.isnan(other))
    if (w[known] <= 0).any() or not np.isfinite(w[known]).all():
        raise ValueError("a weight must be positive and finite")
    names, cluster = np.unique(np.asarray(clusters), return_inverse=True)
    stratum = np.where(verdict, 0, 1)
    of_run, of_checked = np.zeros((len(names), 2)), np.zeros((len(names), 2, 4))
    np.add.at(of_run, (cluster, stratum), 1.0)
    cell = 2 * (one[known] == 0).astype(np.int64) + (other[known] == 0)
    np.add.at(of_checked, (cluster[known], stratum[known], cell), w[known])
    sums = of_checked.sum(axis=(0, 2))
    squares = np.bincount(stratum[known], w[known] ** 2, 2)
    totals = of_run.sum(axis=0)
    is_checked, possible = sums > 0, np.ones((2, 4), dtype=np.bool_)
    if rated is None:
        possible = np.array([[1, 0, 1, 0], [0, 1, 0, 1]], dtype=np.bool_)
    return TwoPhaseTable(
        shares=totals / max(1.0, totals.sum()),
        cells=np.divide(of_checked.sum(axis=0), sums[:, None], out=np.zeros((2, 4)), where=is_checked[:, None]),
        criteria=float(totals.sum()),
        checked=np.divide(sums**2, squares, out=np.zeros(2), where=is_checked),
        of_run=of_run,
        of_checked=of_checked,
        possible=possible,
        counts=np.bincount(cell, minlength=4).reshape(2, 2),
    )
