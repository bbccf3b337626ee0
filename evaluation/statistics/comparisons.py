"""Two models on the same samples: the difference of their rates, and the exact McNemar test."""

from dataclasses import dataclass
from math import asin, exp, isnan, log, sqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from evaluation.statistics.clusters import Floats, cr2_variance, ratios, rows_of, satterthwaite_df
from evaluation.statistics.distributions import binomial_cdf, t_p_value, t_quantile
from evaluation.statistics.intervals import MINIMUM, MINIMUM_DF

# Weights of each of two pseudo-clusters, for rates and for scores: chosen by simulation
# (docs/statistics.md).
PSEUDO_WEIGHT = 1 / 12
PSEUDO_SCORE = 1 / 4
Number = TypeVar("Number", float, Floats)
Other = TypeVar("Other", float, Floats)


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The difference of two rates, first minus second, with its 95 % interval and p.

    Rates are shares (0 to 1). `clusters` counts those in which both models have judged criteria.
    Interval and p are None where there are too few of them.
    """

    first: float | None
    second: float | None
    difference: float | None
    clusters: int
    low: float | None = None
    high: float | None = None
    p: float | None = None
    odds_ratio: float | None = None
    cohens_h: float | None = None


def paired_difference(
    first_hits: ArrayLike,
    first_sizes: ArrayLike,
    second_hits: ArrayLike,
    second_sizes: ArrayLike,
    *,
    minimum: int = MINIMUM,
    confidence: float = 0.95,
) -> PairedDifference:
    """That of `paired_differences` of one pair, over the clusters with judged criteria of both.

    Args:
        first_hits, first_sizes: y1 and m1, criteria failed and judged in each cluster.
        second_hits, second_sizes: y2 and m2, of the same clusters in the same order.
    """
    y1, m1, y2, m2 = rows_of(first_hits, first_sizes, second_hits, second_sizes)
    shared = (m1 > 0) & (m2 > 0)
    totals = [np.where(shared, of_clusters, 0.0) for of_clusters in (y1, m1, y2, m2)]
    [found] = paired_differences(*totals, minimum=minimum, confidence=confidence)
    return found


def paired_differences(
    first_hits: Floats,
    first_sizes: Floats,
    second_hits: Floats,
    second_sizes: Floats,
    *,
    minimum: int = MINIMUM,
    confidence: float = 0.95,
) -> list[PairedDifference]:
    """The differences of pairs of rates over the clusters that both models answered.

    d = r1 - r2, linearised per cluster: e = (y1 - r1 m1) / M1 - (y2 - r2 m2) / M2, so that the
    difficulty common to both models cancels (Cochran 1977, chapter 6; Miller 2024,
    arXiv:2411.00640). Interval and p: d~ +- t se with CR2 and Satterthwaite's degrees of freedom
    (module `clusters`). d~ and se come from the clusters and two pseudo-clusters of typical size,
    one failed by the first model alone and one by the second alone, each with weight
    `PSEUDO_WEIGHT` (as Agresti & Min 2005, Stat. Med. 24, add to discordant pairs). Without them
    the variance would be close to 0 where hardly any cluster differs. p and interval agree:
    p < .05 where the interval excludes 0.

    Effect sizes: d itself, the odds ratio, and Cohen's h = 2 asin(sqrt(r1)) - 2 asin(sqrt(r2))
    (Cohen 1988, section 6.2).

    Args:
        first_hits, first_sizes: y1 and m1, criteria failed and judged: (pairs, clusters). A cluster
            may have some of one model alone, as a precision counts only some of the answers, and is
            left out with 0 for both.
        second_hits, second_sizes: y2 and m2.
        minimum: clusters below which there is neither interval nor p.
        confidence: of the interval. Two one-sided tests at 5 % find two rates equivalent within a
            margin where the interval at .90 lies in it (Schuirmann 1987, J. Pharmacokinet.
            Biopharm. 15).
    """
    first, second = ratios(first_hits, first_sizes), ratios(second_hits, second_sizes)
    clusters = np.count_nonzero(first_sizes + second_sizes, axis=1)
    value = first.value - second.value
    shares = (first.shares + second.shares) / 2
    df = np.where(clusters >= minimum, satterthwaite_df(shares), 0.0)
    padded, pseudo_variance = padding((shares**2).sum(axis=1), value)
    centre, width = value / padded, padded[:, None]
    residuals = (first.residuals - second.residuals + (value - centre)[:, None] * shares) / width
    error = np.sqrt(cr2_variance(residuals, shares / width) + pseudo_variance)
    t, p = t_quantile((1 + confidence) / 2, df), t_p_value(centre / error, df)
    low, high = np.maximum(-1.0, centre - t * error), np.minimum(1.0, centre + t * error)
    columns = (first.value, second.value, value, clusters, low, high, p)
    differences = []
    for has_interval, row in zip(df >= MINIMUM_DF, zip(*map(np.ndarray.tolist, columns), strict=True), strict=True):
        differences.append(_difference(*row, has_interval=bool(has_interval)))
    return differences


def _difference(
    first: float, second: float, value: float, clusters: int, low: float, high: float, p: float, *, has_interval: bool
) -> PairedDifference:
    """The difference of two rates, NaN where there is nothing to count."""
    if isnan(value):
        return PairedDifference(_known(first), _known(second), None, clusters)
    h = 2 * asin(sqrt(min(1.0, first))) - 2 * asin(sqrt(min(1.0, second)))
    if not has_interval:
        return PairedDifference(first, second, value, clusters, cohens_h=h)
    return PairedDifference(first, second, value, clusters, low, high, p, _odds_ratio(first, second), h)


def _known(value: float) -> float | None:
    if isnan(value):
        return None
    return value


def score_difference(
    first_sums: ArrayLike,
    first_sizes: ArrayLike,
    second_sums: ArrayLike,
    second_sizes: ArrayLike,
    *,
    limits: tuple[float, float] = (float("-inf"), float("inf")),
    minimum: int = MINIMUM,
) -> PairedDifference:
    """The difference of two mean scores over the clusters in which both models have some.

    The paired t test over clusters (Student 1908, Biometrika 6; Miller 2024, arXiv:2411.00640):
    d +- t se, linearised as in `paired_difference`, with CR2 and Satterthwaite's degrees of
    freedom. As few clusters may differ at all, the variance has two pseudo-clusters of typical size
    added that differ as much as any, one in either direction, each with weight `PSEUDO_SCORE`
    (after Agresti & Min 2005, Stat. Med. 24). p and interval agree.

    There is neither where all clusters differ alike, as the scores then do not say how much they
    vary, nor where a mean is beyond the limits of the score, at which it is cut off.

    Args:
        first_sums, first_sizes: the sum of a model's scores in each cluster, and how many they are.
        second_sums, second_sizes: the other's, of the same clusters in the same order.
        limits: of a mean.
        minimum: clusters below which there is neither interval nor p.
    """
    y1, m1 = np.asarray(first_sums, dtype=float), np.asarray(first_sizes, dtype=float)
    y2, m2 = np.asarray(second_sums, dtype=float), np.asarray(second_sizes, dtype=float)
    shared = (m1 > 0) & (m2 > 0)
    y1, m1, y2, m2 = y1[shared], m1[shared], y2[shared], m2[shared]
    clusters = len(m1)
    if not clusters:
        return PairedDifference(None, None, None, 0)
    means = float(y1.sum() / m1.sum()), float(y2.sum() / m2.sum())
    first = min(limits[1], max(limits[0], means[0]))
    second = min(limits[1], max(limits[0], means[1]))
    value = first - second
    shares = (m1 / m1.sum() + m2 / m2.sum()) / 2
    residuals = (y1 - means[0] * m1) / m1.sum() - (y2 - means[1] * m2) / m2.sum()
    df = float(satterthwaite_df(shares))
    differences = y1 / m1 - y2 / m2
    alike = float(np.ptp(differences)) <= 1e-12
    if clusters < minimum or df < MINIMUM_DF or alike or means != (first, second):
        return PairedDifference(first, second, value, clusters)
    added = float((shares**2).sum()) * float(np.abs(differences).max())
    error = sqrt(float(cr2_variance(residuals, shares)) + 2 * PSEUDO_SCORE * added**2)
    half, reach = t_quantile(0.975, df) * error, limits[1] - limits[0]
    low, high = max(-reach, value - half), min(reach, value + half)
    return PairedDifference(first, second, value, clusters, low=low, high=high, p=t_p_value(value / error, df))


def _odds_ratio(first: float, second: float) -> float | None:
    """The odds of the first rate divided by those of the second; None where a rate is 0 or 1."""
    if not (0 < first < 1 and 0 < second < 1):
        return None
    return exp(log(first / (1 - first)) - log(second / (1 - second)))


def padding(typical: Number, difference: Other) -> tuple[Number, Other]:
    """The denominator with the two pseudo-clusters added, and what they add to the variance.

    `typical`: the share of a cluster of typical size. `difference`: of the two rates.
    """
    padded = 1 + 2 * PSEUDO_WEIGHT * typical
    centre, share = difference / padded, typical / padded
    variance: Any = PSEUDO_WEIGHT * share**2 * ((1 - centre) ** 2 + (1 + centre) ** 2) / (1 - share)
    return padded, variance


@dataclass(frozen=True, slots=True)
class DifferenceOfDifferences:
    """Two paired differences, and the 95 % interval of the first minus the second."""

    first: float
    second: float
    low: float | None = None
    high: float | None = None


def difference_of_differences(first: Floats, second: Floats, *, minimum: int = MINIMUM) -> DifferenceOfDifferences:
    """How much two rates differ more on one set of criteria than on another.

    Both differences are linearised together, as in `paired_difference`, with the pseudo-clusters of
    both, so that clusters with criteria of both sets count for their covariance. The degrees of
    freedom are those of the set that has fewer.

    Args:
        first, second: (4, clusters): hits and size of one rate, hits and size of the other, in the
            same clusters; every rate has something to count.
        minimum: clusters of either set below which there is no interval.
    """
    values, centres, residuals, shares, freedom, pseudo = [], [], [], [], [], 0.0
    for hits, sizes, other_hits, other_sizes in (first, second):
        both = ratios(np.array([hits, other_hits]), np.array([sizes, other_sizes]))
        if not both.total.all():
            raise ValueError("a rate has nothing to count")
        share, value = both.shares.mean(axis=0), float(both.value[0] - both.value[1])
        padded, variance = padding(float((share**2).sum()), value)
        values.append(value)
        centres.append(value / padded)
        shares.append(share)
        residuals.append((both.residuals[0] - both.residuals[1] + (value - value / padded) * share) / padded)
        freedom.append(float(satterthwaite_df(share)))
        pseudo += variance
    counted = min([int((share > 0).sum()) for share in shares])
    df = min(freedom)
    if counted < minimum or df < MINIMUM_DF:
        return DifferenceOfDifferences(values[0], values[1])
    adjusted = residuals[0] / np.sqrt(1 - shares[0]), residuals[1] / np.sqrt(1 - shares[1])
    error = sqrt(float(((adjusted[0] - adjusted[1]) ** 2).sum()) + pseudo)
    centre, t = centres[0] - centres[1], t_quantile(0.975, df)
    return DifferenceOfDifferences(values[0], values[1], max(-2.0, centre - t * error), min(2.0, centre + t * error))


def independent_difference(
    first: tuple[float, tuple[float, float] | None], second: tuple[float, tuple[float, float] | None]
) -> tuple[float, float] | None:
    """The 95 % interval of the difference of two rates on different samples, first minus second.

    From the interval of each: d - sqrt((r1 - l1)^2 + (u2 - r2)^2) to d + sqrt((u1 - r1)^2 +
    (r2 - l2)^2), so that it is as good as they are near 0 and 1, and holds for F1 and means too
    (Newcombe 1998, Stat. Med. 17, method 10; Zou & Donner 2008, Stat. Med. 27). None where either
    has none.
    """
    (one, of_one), (other, of_other) = first, second
    if of_one is None or of_other is None:
        return None
    return (
        one - other - sqrt((one - of_one[0]) ** 2 + (of_other[1] - other) ** 2),
        one - other + sqrt((of_one[1] - one) ** 2 + (other - of_other[0]) ** 2),
    )


@dataclass(frozen=True, slots=True)
class McNemar:
    """The numbers of samples that only one of two models failed, with the exact p."""

    only_first: int
    only_second: int
    p: float


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """The exact McNemar test: do both models fail equally many samples that the other passes?

    p = min(1, 2 P(X <= min(b, c))), X being binomial with b + c draws and probability 1/2 (McNemar
    1947, Psychometrika 12; exact: Agresti 2013, section 11.1). Valid only for independent samples:
    where several come from one source record, use `paired_difference` over records.

    Args:
        first, second: whether each model failed, one entry per sample that both answered.
    """
    first_failed, second_failed = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if first_failed.shape != second_failed.shape:
        raise ValueError("both models need an entry for every sample")
    only_first, only_second = first_failed > second_failed, second_failed > first_failed
    return exact_mcnemar(int(only_first.sum()), int(only_second.sum()))


def exact_mcnemar(only_first: int, only_second: int) -> McNemar:
    """The exact McNemar test, of the numbers of samples that only one of two models failed."""
    p = 2 * binomial_cdf(min(only_first, only_second), only_first + only_second, 0.5)
    return McNemar(only_first, only_second, min(1.0, p))
