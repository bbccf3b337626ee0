"""Before a launch: how wide the intervals of a planned release will be, and which differences it can show."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from evaluation.statistics.clusters import ratio
from evaluation.statistics.distributions import NORMAL
from evaluation.statistics.intervals import MINIMUM
from review.rules.wilson_interval import wilson

ALPHA = 0.05
POWER = 0.8


@dataclass(frozen=True, slots=True)
class Expected:
    """What a cell of a release will tell about one model. `half_width` is None below the minimum of clusters."""

    clusters: int
    n: int
    design_effect: float
    effective_n: float
    half_width: float | None


def design_effect(sizes: ArrayLike, correlation: float) -> float:
    """How many times the variance of independent criteria: 1 + (sum(m^2) / sum(m) - 1) rho.

    Kish (1965), Survey Sampling, section 5.4; for unequal clusters Eldridge, Ashby & Kerry (2006), Int. J.
    Epidemiol. 35, as sum(m^2) / sum(m) is the mean size times 1 + cv^2. At least 1: a plan does not count on a
    negative correlation.
    """
    m = np.asarray(sizes, dtype=float)
    return 1 + max(0.0, float((m**2).sum() / m.sum()) - 1) * min(1.0, max(0.0, correlation))


def expected(rate: float, sizes: ArrayLike, correlation: float, *, minimum: int = MINIMUM) -> Expected:
    """The interval to expect of a rate over clusters of these sizes: half the width of Wilson's at n / design effect."""
    m = np.asarray(sizes, dtype=float)
    m = m[m > 0]
    if not len(m):
        return Expected(0, 0, 1.0, 0.0, None)
    effect, n = design_effect(m, correlation), round(float(m.sum()))
    low, high = wilson(rate * n / effect, n / effect)
    return Expected(len(m), n, effect, n / effect, (high - low) / 2 if len(m) >= minimum else None)


def correlation_of_models(
    first_hits: ArrayLike, first_counted: ArrayLike, second_hits: ArrayLike, second_counted: ArrayLike
) -> float | None:
    """How far the same samples are hard for both models: the correlation of their residuals y - r m over shared clusters.

    The covariance term of `paired_difference`'s variance over the two own ones (Cochran 1977, chapter 6; Miller 2024,
    arXiv:2411.00640). None where a model failed nothing, or everything.
    """
    y1, m1, y2, m2 = (
        np.asarray(part, dtype=float) for part in (first_hits, first_counted, second_hits, second_counted)
    )
    shared = (m1 > 0) & (m2 > 0)
    one, other = ratio(y1[shared], m1[shared]), ratio(y2[shared], m2[shared])
    if one is None or other is None:
        return None
    spread = sqrt(float((one.residuals**2).sum() * (other.residuals**2).sum()))
    return float((one.residuals * other.residuals).sum()) / spread if spread else None


def power_of_difference(
    first: float, second: float, effective_n: float, *, pairing: float = 0.0, alpha: float = ALPHA, pairs: int = 1
) -> float:
    """The chance that `paired_difference` finds rates `first` and `second` different.

    Phi(|d| / se - z) + Phi(-|d| / se - z), se^2 = (v1 + v2 - 2 pairing sqrt(v1 v2)) / n*, v = r (1 - r), z at 1 -
    alpha / (2 pairs) (Connor 1987, Biometrics 43, for paired proportions; Bonferroni's level is that of Holm's
    first step, so no promise is too large). Normal where the test uses t: with 30 clusters or more the two differ
    by less than .02.

    Args:
        effective_n: criteria over design effect, of `expected`.
        pairing: correlation over samples of what both models fail (`correlation_of_models`). 0 promises least.
        pairs: comparisons that Holm adjusts for: k (k - 1) / 2 for k models.
    """
    spread = [rate * (1 - rate) for rate in (first, second)]
    variance = (sum(spread) - 2 * pairing * sqrt(spread[0] * spread[1])) / effective_n
    if variance <= 0:
        return 1.0 if first != second else 0.0
    z, shift = NORMAL.inv_cdf(1 - alpha / (2 * pairs)), abs(first - second) / sqrt(variance)
    return NORMAL.cdf(shift - z) + NORMAL.cdf(-shift - z)


def detectable_difference(
    rate: float,
    effective_n: float,
    *,
    pairing: float = 0.0,
    alpha: float = ALPHA,
    pairs: int = 1,
    power: float = POWER,
) -> float | None:
    """The smallest excess over `rate` that is found with this power; None if even a rate of 1 would not be.

    `power_of_difference` solved by bisection. Found from the lower rate upwards; downwards the same holds for 1 -
    rate.
    """

    def reaches(difference: float) -> bool:
        reached = power_of_difference(rate, rate + difference, effective_n, pairing=pairing, alpha=alpha, pairs=pairs)
        return reached >= power

    small, large = 0.0, 1 - rate
    if not reaches(large):
        return None
    for _ in range(50):
        middle = (small + large) / 2
        small, large = (small, middle) if reaches(middle) else (middle, large)
    return large
