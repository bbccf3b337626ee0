"""Planning a run: expected width of intervals, power, and detectable differences."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from evaluation.statistics.clusters import Floats, satterthwaite_df
from evaluation.statistics.comparisons import padding
from evaluation.statistics.distributions import noncentral_t_cdf, t_quantile
from evaluation.statistics.intervals import MINIMUM
from review.rules.wilson_interval import wilson

ALPHA = 0.05
POWER = 0.8
# Clusters of one criterion up to which power is exact, and of several up to which it is simulated:
# few outcomes are possible there, and the noncentral t promises up to 8 points too much
# (docs/statistics.md).
EXACT, SIMULATED = 50, 20
STUDIES, SEED = 2_000, 2014


@dataclass(frozen=True, slots=True)
class ExpectedPrecision:
    """The precision to expect for one model's rate in a cell of a release.

    `n`: criteria; `half_width`: of the 95 % interval, None below the minimum number of clusters.
    """

    clusters: int
    n: int
    design_effect: float
    effective_n: float
    half_width: float | None


def design_effect(sizes: ArrayLike, correlation: float) -> float:
    """Variance inflation by clustering: 1 + (sum(m^2) / sum(m) - 1) rho.

    Kish (1965), Survey Sampling, section 5.4; for unequal clusters Eldridge, Ashby & Kerry (2006),
    Int. J. Epidemiol. 35, as sum(m^2) / sum(m) is the mean size times 1 + cv^2. At least 1: a plan
    does not rely on a negative correlation.

    Args:
        sizes: m, the number of criteria in each cluster.
        correlation: rho, within clusters.
    """
    m = np.asarray(sizes, dtype=float)
    return 1 + max(0.0, float((m**2).sum() / m.sum()) - 1) * min(1.0, max(0.0, correlation))


def expected_precision(
    rate: float, sizes: ArrayLike, correlation: float, *, minimum: int = MINIMUM
) -> ExpectedPrecision:
    """The precision to expect for a rate over clusters of these sizes.

    The half-width is that of Wilson's interval at n / design effect. Args as of `design_effect`.
    """
    m = np.asarray(sizes, dtype=float)
    m = m[m > 0]
    if not len(m):
        return ExpectedPrecision(0, 0, 1.0, 0.0, None)
    effect, n = design_effect(m, correlation), round(float(m.sum()))
    low, high = wilson(rate * n / effect, n / effect)
    return ExpectedPrecision(len(m), n, effect, n / effect, (high - low) / 2 if len(m) >= minimum else None)


def power_of_difference(
    first: float,
    second: float,
    sizes: ArrayLike,
    correlation: float,
    *,
    pairing: float = 0.0,
    alpha: float = ALPHA,
    pairs: int = 1,
) -> float:
    """The power of `paired_difference` to distinguish the rates `first` and `second`.

    That of the test itself, so that it holds for small samples too: its statistic has a noncentral
    t distribution with Satterthwaite's degrees of freedom, the variance (v1 + v2 -
    2 pairing sqrt(v1 v2)) / n*, v = r (1 - r) (Connor 1987, Biometrics 43, for paired proportions),
    and the pseudo-clusters in the difference and in its standard error (Chow, Shao & Wang 2008,
    Sample Size Calculations in Clinical Research, section 3.2, for the noncentral t). Bonferroni's
    level is that of Holm's first step. Up to `EXACT` clusters of one criterion, the power is exact:
    the chances of all outcomes in which the test rejects. Up to `SIMULATED` clusters of several
    criteria, it is the share of `STUDIES` simulated studies in which the test rejects.

    Args:
        sizes: the criteria in each cluster; n* is their sum divided by the design effect.
        correlation: of criteria within a cluster.
        pairing: correlation of both models' failures over samples; 0 is
            the conservative choice.
        alpha: the two-sided level of the family of comparisons.
        pairs: comparisons that Holm adjusts for: k (k - 1) / 2 for k models.
    """
    m = np.asarray(sizes, dtype=float)
    shares = m[m > 0] / m.sum()
    typical, df = float((shares**2).sum()), float(satterthwaite_df(shares))
    if df <= 0:
        return 0.0
    variances = [rate * (1 - rate) for rate in (first, second)]
    if len(shares) <= EXACT and m.max() <= 1:
        both = first * second + pairing * sqrt(variances[0] * variances[1])
        both = min(first, second, max(0.0, first + second - 1, both))
        return _exact_power(len(shares), first - both, second - both, alpha / pairs)
    if len(shares) <= SIMULATED:
        return _simulated_power((first, second), m[m > 0], correlation, pairing, alpha / pairs)
    effective_n = m.sum() / design_effect(m[m > 0], correlation)
    true_variance = (sum(variances) - 2 * pairing * sqrt(variances[0] * variances[1])) / effective_n
    padded, pseudo = padding(typical, first - second)
    centre = (first - second) / padded
    estimated = (true_variance + typical * (first - second - centre) ** 2) / padded**2 + pseudo
    spread = sqrt(true_variance) / padded
    if spread <= 0:
        if first != second:
            return 1.0
        return 0.0
    critical = t_quantile(1 - alpha / (2 * pairs), df) * sqrt(estimated) / spread
    shift = abs(centre) / spread
    return 1 - noncentral_t_cdf(critical, df, shift) + noncentral_t_cdf(-critical, df, shift)


def _exact_power(n: int, only_first: float, only_second: float, alpha: float) -> float:
    """The chance that `n` samples are found to differ, of which one model alone fails these shares.

    The test is `paired_difference` with equal sizes, on every possible number of such samples.
    """
    from scipy import stats

    one, other = np.indices((n + 1, n + 1)).reshape(2, -1)
    possible = one + other <= n
    one, other = one[possible], other[possible]
    differences = (one - other) / n
    padded, pseudo = padding(1 / n, differences)
    centre = differences / padded
    squares = one * (1 - centre) ** 2 + other * (1 + centre) ** 2 + (n - one - other) * centre**2
    variance = squares / (n * padded) ** 2 / (1 - 1 / (n * padded)) + pseudo
    rejected = np.abs(centre) > t_quantile(1 - alpha / 2, n - 1) * np.sqrt(variance)
    counts = np.column_stack([one, other, n - one - other])[rejected]
    chances = [only_first, only_second, max(0.0, 1 - only_first - only_second)]
    if len(counts):
        return min(1.0, float(stats.multinomial.pmf(counts, n, chances).sum()))
    return 0.0


def _simulated_power(rates: tuple[float, float], m: Floats, correlation: float, pairing: float, alpha: float) -> float:
    """The share of studies in which `paired_difference` finds these rates to differ.

    Failures in a cluster are beta-binomial with this correlation. Both models take the same
    quantile in a share `pairing` of the clusters (the opposite one for a negative pairing). The
    draws have a fixed seed, so that the power depends smoothly on the rates.
    """
    random = np.random.default_rng(SEED)
    place, others, shared = random.random((3, STUDIES, len(m)))
    paired = place
    if pairing <= 0:
        paired = 1 - place
    other = np.where(shared < abs(pairing), paired, others)
    one, two = _failures(rates[0], m, correlation, place), _failures(rates[1], m, correlation, other)
    shares = m / m.sum()
    difference = (one - two).sum(axis=1) / m.sum()
    padded, pseudo = padding(float((shares**2).sum()), difference)
    centre = difference / padded
    residuals = ((one - two) / m.sum() - np.outer(centre, shares)) / padded
    variance = (residuals**2 / (1 - shares / padded)).sum(axis=1) + pseudo
    critical = t_quantile(1 - alpha / 2, float(satterthwaite_df(shares)))
    return float((np.abs(centre) > critical * np.sqrt(variance)).mean())


def _failures(rate: float, m: Floats, correlation: float, quantiles: Floats) -> Floats:
    """The beta-binomial failures of clusters of m criteria at these quantiles."""
    from scipy import stats

    if not 0 < rate < 1:
        return np.broadcast_to(m * rate, quantiles.shape)
    failures = np.empty(quantiles.shape)
    inside = min(0.999, max(1e-6, correlation))
    for size in np.unique(m):
        chances = stats.betabinom.cdf(
            np.arange(size), int(size), rate * (1 - inside) / inside, (1 - rate) * (1 - inside) / inside
        )
        at = m == size
        failures[:, at] = np.searchsorted(chances, quantiles[:, at])
    return failures


def detectable_difference(
    rate: float,
    sizes: ArrayLike,
    correlation: float,
    *,
    pairing: float = 0.0,
    alpha: float = ALPHA,
    pairs: int = 1,
    power: float = POWER,
) -> float | None:
    """The smallest excess over `rate` detected with this power; None if even a rate of 1 is not.

    Solves `power_of_difference` upwards from `rate`. For differences downwards, pass 1 - rate.
    """

    from scipy import optimize

    def lacks_power(difference: float) -> float:
        options = {"pairing": pairing, "alpha": alpha}
        return power - power_of_difference(rate, rate + difference, sizes, correlation, pairs=pairs, **options)

    largest = 1 - rate
    if largest <= 0 or lacks_power(largest) > 0:
        return None
    if lacks_power(0.0) > 0:
        return float(optimize.brentq(lacks_power, 0.0, largest, xtol=1e-7))
    return 0.0
