"""Simulated studies that measure how often a 95 % interval contains the true value.

`python -m tests.evaluation.statistics.coverage` prints the coverage of every kind of study.

Each sample draws its probability of failing from a beta distribution, so that the correlation of
criteria within a sample is exactly `icc` (Ridout, Demetrio & Firth 1999). A sample has
1 + Poisson(3.3) criteria: 4.3 on average, as in MHB.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.statistics.bootstrap import cluster_bootstrap, ratio_of_totals
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.comparisons import paired_difference
from evaluation.statistics.correction import corrected_rate, externally_corrected_rate
from evaluation.statistics.intervals import rate_interval
from evaluation.statistics.validation import judge_quality
from review.rules.wilson_interval import wilson

Ends = tuple[float | None, float | None]
Random = np.random.Generator
STUDIES = 2_000
ICC = (0.3, 0.5)


@dataclass(frozen=True)
class Cell:
    """One kind of study; `truth` is the value that the interval of `study` should contain."""

    name: str
    truth: float
    study: Callable[[Random], Ends]

    def coverage(self, studies: int, seed: int = 13) -> float:
        """The share of intervals that contain the truth, of all studies that give an interval."""
        random = np.random.default_rng(seed)
        ends = [self.study(random) for _ in range(studies)]
        intervals = [(low, high) for low, high in ends if low is not None and high is not None]
        assert len(intervals) > 0.8 * studies, self.name
        return sum(low <= self.truth <= high for low, high in intervals) / len(intervals)


def sizes(random: Random, clusters: int) -> NDArray[Any]:
    """The number of criteria of each sample."""
    criteria: NDArray[Any] = 1 + random.poisson(3.3, clusters)
    return criteria


def chances(random: Random, rate: float, icc: float, clusters: int) -> NDArray[Any]:
    """The probability of failing of each sample."""
    return random.beta(rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc, clusters)


@cache
def quantiles(rate: float, icc: float) -> NDArray[Any]:
    """The probabilities of failing of 200,000 samples, in ascending order."""
    return np.sort(chances(np.random.default_rng(1), rate, icc, 200_000))


def two_models(random: Random, first: float, second: float, icc: float, clusters: int) -> tuple[NDArray[Any], ...]:
    """The failures of two models and the number of criteria, per sample.

    A random half of the samples is equally hard for both models.
    """
    m, shared = sizes(random, clusters), random.random(clusters) < 0.5
    place = random.integers(200_000, size=(2, clusters))
    place[1] = np.where(shared, place[0], place[1])
    one, other = (random.binomial(m, quantiles(rate, icc)[at]) for rate, at in zip((first, second), place, strict=True))
    return one, other, m


def rates(
    rate: tuple[float, ...] = (0.02, 0.05, 0.1, 0.3, 0.5, 0.9), clusters: tuple[int, ...] = (10, 20, 50, 100, 300)
) -> Iterator[Cell]:
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = sizes(random, c)
            interval = rate_interval(random.binomial(m, chances(random, p, icc, c)), m)
            return interval.low, interval.high

        yield Cell(f"rate {p}, {c} samples, ICC {icc}", p, study)


def sources(rate: tuple[float, ...] = (0.1, 0.3, 0.5), clusters: tuple[int, ...] = (15, 30, 100)) -> Iterator[Cell]:
    """Clusters of very unequal size: records with one or more samples (geometric, mean 2.5)."""
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            samples = random.geometric(0.4, c)
            m = samples + random.poisson(3.3 * samples)
            interval = rate_interval(random.binomial(m, chances(random, p, icc, c)), m)
            return interval.low, interval.high

        yield Cell(f"rate {p}, {c} sources of unequal size, ICC {icc}", p, study)


def independent(rate: tuple[float, ...] = (0.1, 0.3, 0.5), clusters: tuple[int, ...] = (50, 100)) -> Iterator[Cell]:
    """Wilson's interval as if criteria were independent, as earlier versions showed it."""
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = sizes(random, c)
            return wilson(int(random.binomial(m, chances(random, p, icc, c)).sum()), int(m.sum()))

        yield Cell(f"as if independent: rate {p}, {c} samples, ICC {icc}", p, study)


def differences(
    pairs: tuple[tuple[float, float], ...] = ((0.05, 0.15), (0.1, 0.1), (0.1, 0.3), (0.3, 0.3), (0.3, 0.5), (0.5, 0.5)),
    clusters: tuple[int, ...] = (10, 20, 50, 200),
) -> Iterator[Cell]:
    for icc, (p, q), c in product(ICC, pairs, clusters):
        truth = float(quantiles(p, icc).mean() - quantiles(q, icc).mean())

        def study(random: Random, icc: float = icc, p: float = p, q: float = q, c: int = c) -> Ends:
            one, other, m = two_models(random, p, q, icc, c)
            interval = paired_difference(one, m, other, m)
            return interval.low, interval.high

        yield Cell(f"difference {p} - {q}, {c} samples, ICC {icc}", truth, study)


def judged_criteria(
    random: Random, rate: float, icc: float, clusters: int, se: float, sp: float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The sample, the truth and the verdict of a noisy judge, per criterion."""
    m = sizes(random, clusters)
    sample = np.repeat(np.arange(clusters), m)
    truth = random.random(len(sample)) < np.repeat(chances(random, rate, icc, clusters), m)
    verdict = np.where(truth, random.random(len(sample)) < se, random.random(len(sample)) >= sp)
    return sample, truth, verdict


def validation_weights(random: Random, sample: NDArray[Any], verdict: NDArray[Any], share: float) -> NDArray[Any]:
    """The weight of each criterion in a validation sample, 0 if it is not drawn.

    Whole answers are drawn, half of them from those in which the judge failed some criterion.
    """
    clusters = int(sample.max()) + 1
    failed = np.bincount(sample, verdict) > 0
    weights = np.zeros(clusters)
    for stratum in (np.flatnonzero(failed), np.flatnonzero(~failed)):
        n = min(len(stratum), round(share * clusters / 2))
        if n:
            weights[random.choice(stratum, n, replace=False)] = len(stratum) / n
    per_criterion: NDArray[Any] = weights[sample]
    return per_criterion


def corrected(
    rate: tuple[float, ...] = (0.1, 0.3, 0.6),
    designs: tuple[tuple[int, float], ...] = ((100, 0.3), (300, 0.2), (1000, 0.1)),
) -> Iterator[Cell]:
    for icc, p, (c, share), (se, sp) in product(ICC, rate, designs, ((0.9, 0.9), (0.97, 0.97))):

        def study(
            random: Random,
            icc: float = icc,
            p: float = p,
            c: int = c,
            share: float = share,
            se: float = se,
            sp: float = sp,
        ) -> Ends:
            sample, truth, verdict = judged_criteria(random, p, icc, c, se, sp)
            weights = validation_weights(random, sample, verdict, share)
            interval = corrected_rate(sample, verdict, np.where(weights > 0, truth, np.nan), weights)
            return interval.low, interval.high

        yield Cell(f"corrected rate {p}, {c} samples, {share:.0%} validated, Se {se}, Sp {sp}, ICC {icc}", p, study)


def externally_corrected(
    rate: tuple[float, ...] = (0.1, 0.3, 0.6), clusters: tuple[int, ...] = (100, 300)
) -> Iterator[Cell]:
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            sample, _, verdict = judged_criteria(random, p, icc, c, 0.9, 0.95)
            quality = judge_quality(*judged_criteria(random, 0.4, icc, 100, 0.9, 0.95), draws=0)
            raw = rate_interval(*cluster_totals(sample, verdict, np.ones(len(sample))))
            interval = externally_corrected_rate(raw, quality.sensitivity, quality.specificity)
            return interval.low, interval.high

        yield Cell(f"rate {p} corrected by another sample, {c} samples, ICC {icc}", p, study)


def bootstrapped(rate: tuple[float, ...] = (0.3,), clusters: tuple[int, ...] = (50, 200)) -> Iterator[Cell]:
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = sizes(random, c)
            y = random.binomial(m, chances(random, p, icc, c))
            interval, _ = cluster_bootstrap(np.stack([y, m], axis=1), ratio_of_totals, draws=400)
            return interval or (None, None)

        yield Cell(f"bootstrap of rate {p}, {c} samples, ICC {icc}", p, study)


if __name__ == "__main__":
    for cells in (
        independent(),
        rates(),
        sources(),
        differences(),
        corrected(),
        externally_corrected(),
        bootstrapped(),
    ):
        for cell in cells:
            sys.stdout.write(f"{100 * cell.coverage(STUDIES):5.1f}  {cell.name}\n")
            sys.stdout.flush()
