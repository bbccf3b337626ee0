"""How often 95 % intervals hold the truth, and tests err: `python -m bench.coverage`.

Simulated studies of known truth, by cluster unit, size, correlation and rate. Goals: a coverage of
at least 93 %; a level of at most 5 %; the power that planning promises. A cell that seems to miss
its goal is simulated again, with other numbers and four times the studies: of a thousand cells some
always seem to. `--table` prints the table of docs/coverage.md.

Each sample draws its probability of failing from a beta distribution, so that the correlation of
criteria within a sample is exactly `icc` (Ridout, Demetrio & Firth 1999). A sample has
1 + Poisson(3.3) criteria: 4.3 on average, as in MHB; where `icc` is 0, it has one. A source record
has 1 to 15 samples (geometric, 2.5 on average), an image as many questions (2.2) as in VQA-RAD, of
one criterion each.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench import core
from evaluation.statistics.clusters import cluster_totals, ratios, rows_of
from evaluation.statistics.comparisons import (
    difference_of_differences,
    independent_difference,
    mcnemar,
    paired_difference,
    score_difference,
)
from evaluation.statistics.correction import (
    CheckedVerdicts,
    corrected_difference,
    corrected_rate,
)
from evaluation.statistics.intervals import f_intervals, mean_interval, rate_interval
from evaluation.statistics.planning import power_of_difference
from evaluation.statistics.two_phase import two_phase_table
from evaluation.statistics.validation import balanced_f1, judge_quality
from review.quality.agreement import ac1, alpha, kappa, raw, several_raters, table_interval
from review.rules.wilson_interval import wilson

Ends = tuple[float | None, float | None]
Random = np.random.Generator
STUDIES, QUICK = 2_000, 60
ICC = (0.3, 0.5)
GIVEN = 0.2  # share of studies that must give an interval for its coverage to be told
GOAL = 93.0
INDEPENDENT = "rate as if independent"  # a kind of intervals that is not shown
AGAIN = 4  # times the studies, for a cell that seems to miss its goal
SAMPLE, RECORD, IMAGE = "sample", "record", "image"
# Unit of clusters -> the parameter of the geometric number of samples that share one.
SAMPLES_OF = {RECORD: 0.4, IMAGE: 0.45}
SIZES = (10, 20, 50, 100, 300)  # columns of the table: cells up to these numbers of clusters


@dataclass(frozen=True)
class Cell:
    """One kind of study; `truth` is the value that the interval of `study` should contain."""

    kind: str
    setting: str
    samples: int
    truth: float
    study: Callable[[Random], Ends]
    unit: str = SAMPLE  # of clusters

    @property
    def name(self) -> str:
        return f"{self.kind}: {self.setting}, {self.samples} {self.unit}s"

    def coverage(self, studies: int, seed: int = 13) -> float:
        """The share of intervals that contain the truth, of all studies that give an interval.

        NaN where too few studies give one.
        """
        random = np.random.default_rng(seed)
        ends = [self.study(random) for _ in range(studies)]
        intervals = [(low, high) for low, high in ends if low is not None and high is not None]
        if len(intervals) < GIVEN * studies:
            return float("nan")
        return sum(low - 1e-9 <= self.truth <= high + 1e-9 for low, high in intervals) / len(intervals)


def sizes(random: Random, clusters: int, unit: str = SAMPLE) -> NDArray[Any]:
    """The number of criteria of each cluster."""
    samples = np.ones(clusters, dtype=np.int64)
    if unit in SAMPLES_OF:
        samples = random.geometric(SAMPLES_OF[unit], clusters)
    if unit == IMAGE:
        return samples
    criteria: NDArray[Any] = samples + random.poisson(3.3 * samples)
    return criteria


def criteria(random: Random, clusters: int, icc: float, unit: str = SAMPLE) -> NDArray[Any]:
    """The number of criteria of each cluster; one without a correlation."""
    return sizes(random, clusters, unit) if icc else np.ones(clusters, dtype=np.int64)


def chances(random: Random, rate: float, icc: float, clusters: int) -> NDArray[Any]:
    """The probability of failing of each sample."""
    if not icc:
        return np.full(clusters, rate)
    return random.beta(rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc, clusters)


@cache
def quantiles(rate: float, icc: float) -> NDArray[Any]:
    """The probabilities of failing of 200,000 samples, in ascending order."""
    return np.sort(chances(np.random.default_rng(1), rate, icc, 200_000))


def two_models(
    random: Random, first: float, second: float, icc: float, clusters: int, unit: str = SAMPLE
) -> tuple[NDArray[Any], ...]:
    """The failures of two models and the number of criteria, per sample.

    A random half of the samples is equally hard for both models.
    """
    m, shared = sizes(random, clusters, unit), random.random(clusters) < 0.5
    place = random.integers(200_000, size=(2, clusters))
    place[1] = np.where(shared, place[0], place[1])
    one, other = (random.binomial(m, quantiles(rate, icc)[at]) for rate, at in zip((first, second), place, strict=True))
    return one, other, m


def rates(
    rate: tuple[float, ...] = (0.02, 0.05, 0.1, 0.3, 0.5, 0.9),
    clusters: tuple[int, ...] = (10, 20, 50, 100, 300),
    unit: str = SAMPLE,
) -> Iterator[Cell]:
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = sizes(random, c, unit)
            interval = rate_interval(random.binomial(m, chances(random, p, icc, c)), m)
            return interval.low, interval.high

        yield Cell("rate", f"{p:g}, ICC {icc}", c, p, study, unit)


def independent(rate: tuple[float, ...] = (0.1, 0.3, 0.5), clusters: tuple[int, ...] = (50, 100)) -> Iterator[Cell]:
    """Wilson's interval as if criteria were independent, as earlier versions showed it."""
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = sizes(random, c)
            return wilson(int(random.binomial(m, chances(random, p, icc, c)).sum()), int(m.sum()))

        yield Cell(INDEPENDENT, f"{p:g}, ICC {icc}", c, p, study)


def differences(
    pairs: tuple[tuple[float, float], ...] = ((0.05, 0.15), (0.1, 0.1), (0.1, 0.3), (0.3, 0.3), (0.3, 0.5), (0.5, 0.5)),
    clusters: tuple[int, ...] = (10, 20, 50, 200),
    unit: str = SAMPLE,
) -> Iterator[Cell]:
    for icc, (p, q), c in product(ICC, pairs, clusters):
        truth = float(quantiles(p, icc).mean() - quantiles(q, icc).mean())

        def study(random: Random, icc: float = icc, p: float = p, q: float = q, c: int = c) -> Ends:
            one, other, m = two_models(random, p, q, icc, c, unit)
            interval = paired_difference(one, m, other, m)
            return interval.low, interval.high

        yield Cell("difference", f"{p:g} - {q:g}, ICC {icc}", c, truth, study, unit)


def held_out(
    pairs: tuple[tuple[float, float], ...] = ((0.02, 0.02), (0.1, 0.1), (0.1, 0.3), (0.3, 0.3)),
    clusters: tuple[int, ...] = (10, 20, 50, 200),
) -> Iterator[Cell]:
    """A model on public samples, and on a fourth as many that are held out (the size told)."""
    for icc, (p, q), c in product(ICC, pairs, clusters):

        def study(random: Random, icc: float = icc, p: float = p, q: float = q, c: int = c) -> Ends:
            parts = []
            for rate, n in ((p, 4 * c), (q, c)):
                m = sizes(random, n)
                of_part = rate_interval(random.binomial(m, chances(random, rate, icc, n)), m)
                ends = None if of_part.low is None or of_part.high is None else (of_part.low, of_part.high)
                parts.append((of_part.value or 0.0, ends))
            return independent_difference(parts[0], parts[1]) or (None, None)

        yield Cell("public - held out", f"{p:g} - {q:g}, ICC {icc}", c, p - q, study)


def judged_criteria(
    random: Random, rate: float, icc: float, clusters: int, se: float, sp: float, unit: str = SAMPLE
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The cluster, the truth and the verdict of a noisy judge, per criterion."""
    m = criteria(random, clusters, icc, unit)
    sample = np.repeat(np.arange(clusters), m)
    truth = random.random(len(sample)) < np.repeat(chances(random, rate, icc, clusters), m)
    verdict = np.where(truth, random.random(len(sample)) < se, random.random(len(sample)) >= sp)
    return sample, truth, verdict


def answers_of(cluster: NDArray[Any], unit: str) -> NDArray[Any]:
    """The answer of each criterion: the sample, a question on an image, or four of a record."""
    if unit == SAMPLE:
        return cluster
    if unit == IMAGE:
        return np.arange(len(cluster))
    place = np.arange(len(cluster)) - np.searchsorted(cluster, cluster)
    answers: NDArray[Any] = np.unique(1000 * cluster + place // 4, return_inverse=True)[1]
    return answers


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
    designs: tuple[tuple[int, float], ...] = ((10, 1.0), (20, 1.0), (50, 0.5), (100, 0.3), (300, 0.2), (1000, 0.1)),
    unit: str = SAMPLE,
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
            cluster, truth, verdict = judged_criteria(random, p, icc, c, se, sp, unit)
            weights = validation_weights(random, answers_of(cluster, unit), verdict, share)
            interval = corrected_rate(cluster, verdict, np.where(weights > 0, truth, np.nan), weights)
            return interval.low, interval.high

        yield Cell("corrected rate", f"{p:g}, {share:.0%} checked, Se = Sp = {se}, ICC {icc}", c, p, study, unit)


# The counts of two raters' answers (failed, passed) to the criteria of each sample: each errs by
# itself, with a sensitivity and a specificity of its own.
RATERS = {
    "alike": ((0.9, 0.9), (0.95, 0.95)),
    "almost perfect": ((0.97, 0.97), (0.99, 0.99)),
    "poor": ((0.7, 0.7), (0.85, 0.85)),
    "unlike": ((0.7, 0.95), (0.97, 0.9)),
}
FIGURES: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "kappa": kappa,
    "AC1": ac1,
    "alpha": alpha,
    "balanced F1": balanced_f1,
    "raw": raw,
}
FIGURES_SHOWN = tuple(FIGURES)


def answer_chances(sensitivity: Sequence[float], specificity: Sequence[float]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The chance of each pair of answers where a criterion failed, and where it passed."""
    first, second = sensitivity
    one, other = specificity
    failed = np.array([first * second, first * (1 - second), (1 - first) * second, (1 - first) * (1 - second)])
    passed = np.array([(1 - one) * (1 - other), (1 - one) * other, one * (1 - other), one * other])
    return failed, passed


def figures_of_agreement(
    figures: Sequence[str],
    raters: Sequence[str] = tuple(RATERS),
    rate: tuple[float, ...] = (0.1, 0.3, 0.5),
    iccs: tuple[float, ...] = (0, 0.3),
    clusters: tuple[int, ...] = (10, 20, 30, 100, 300),
    unit: str = SAMPLE,
) -> Iterator[Cell]:
    for figure, who, icc, p, c in product(figures, raters, iccs, rate, clusters):
        failed, passed = answer_chances(*RATERS[who])
        truth = float(FIGURES[figure](1e9 * (p * failed + (1 - p) * passed).reshape(2, 2)))

        def study(
            random: Random, figure: str = figure, who: str = who, icc: float = icc, p: float = p, c: int = c
        ) -> Ends:
            failed, passed = answer_chances(*RATERS[who])
            m = criteria(random, c, icc, unit)
            failures = random.binomial(m, chances(random, p, icc, c))
            tables = random.multinomial(failures, failed) + random.multinomial(m - failures, passed)
            estimate = table_interval(tables.reshape(-1, 2, 2).astype(float), FIGURES[figure])
            return estimate.low, estimate.high

        yield Cell(f"{figure} of two raters", f"{p:g} failed, {who}, ICC {icc}", c, truth, study, unit)


def more_raters(
    rate: tuple[float, ...] = (0.1, 0.3, 0.5),
    clusters: tuple[int, ...] = (10, 20, 30, 100, 300),
    iccs: tuple[float, ...] = (0, 0.3),
    unit: str = SAMPLE,
) -> Iterator[Cell]:
    """Three raters with a sensitivity of .85 and a specificity of .9."""
    for figure, icc, p, c in product(("fleiss", "ac1", "alpha"), iccs, rate, clusters):
        equal = p * (0.85**2 + 0.15**2) + (1 - p) * (0.9**2 + 0.1**2)
        share = p * 0.85 + (1 - p) * 0.1
        by_chance = 2 * share * (1 - share) if figure == "ac1" else share**2 + (1 - share) ** 2

        def study(random: Random, figure: str = figure, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = criteria(random, c, icc, unit)
            truth = random.random(m.sum()) < np.repeat(chances(random, p, icc, c), m)
            failed = random.binomial(3, np.where(truth, 0.85, 0.1))
            ratings = np.column_stack([failed, 3 - failed])
            estimate = getattr(several_raters(ratings, np.repeat(np.arange(c), m)), figure)
            return estimate.low, estimate.high

        truth = (equal - by_chance) / (1 - by_chance)
        yield Cell(f"{figure} of three raters", f"{p:g} failed, ICC {icc}", c, truth, study, unit)


def scores_of_detection(
    rate: tuple[float, ...] = (0.3, 0.5),
    iccs: tuple[float, ...] = (0, 0.3),
    clusters: tuple[int, ...] = (10, 20, 30, 100, 300),
) -> Iterator[Cell]:
    """F1, precision and recall of a detector with this sensitivity and specificity."""
    detectors = ((0.9, 0.9), (0.6, 0.8))
    for name, (se, sp), icc, p, c in product(("F1", "precision", "recall"), detectors, iccs, rate, clusters):
        tp, fp, fn = p * se, (1 - p) * (1 - sp), p * (1 - se)
        truth = {"F1": 2 * tp / (2 * tp + fp + fn), "precision": tp / (tp + fp), "recall": se}[name]

        def study(
            random: Random, name: str = name, se: float = se, sp: float = sp, icc: float = icc, p: float = p, c: int = c
        ) -> Ends:
            m = criteria(random, c, icc)
            positive = random.binomial(m, chances(random, p, icc, c))
            tp, fp = random.binomial(positive, se), random.binomial(m - positive, 1 - sp)
            interval = (
                f_intervals(*rows_of(2 * tp, 2 * tp + fp + positive - tp))[0]
                if name == "F1"
                else rate_interval(tp, tp + fp if name == "precision" else positive)
            )
            return interval.low, interval.high

        yield Cell(name, f"{p:g} positive, Se {se}, Sp {sp}, ICC {icc}", c, truth, study)


# Scores of answers: how they are drawn, and their mean.
SCORES: dict[str, tuple[Callable[[Random, int], NDArray[Any]], float]] = {
    "even": (lambda random, n: random.random(n), 0.5),
    "low and skewed": (lambda random, n: random.exponential(0.1, n), 0.1),
    "high and skewed": (lambda random, n: random.beta(3, 0.5, n), 3 / 3.5),
    "two groups": (lambda random, n: np.where(random.random(n) < 0.6, random.exponential(0.03, n), 0.6), 0.258),
    "mostly 0": (lambda random, n: np.where(random.random(n) < 0.8, 0.0, random.random(n)), 0.1),
    "points, some negative": (lambda random, n: 1 - random.gamma(1.5, 0.35, n), 1 - 1.5 * 0.35),
}


def means(
    shapes: Sequence[str] = tuple(SCORES),
    clusters: tuple[int, ...] = (10, 20, 30, 100, 300),
    each: tuple[int, ...] = (1, 4),
    unit: str = SAMPLE,
) -> Iterator[Cell]:
    for shape, each_has, c in product(shapes, each, clusters):

        def study(random: Random, shape: str = shape, each_has: int = each_has, c: int = c) -> Ends:
            draw, _mean = SCORES[shape]
            m = np.ones(c) if each_has == 1 else sizes(random, c, unit)
            sums = np.array([draw(random, 1)[0] * n for n in m])  # all scores of a sample are alike
            _, low, high, _ = mean_interval(sums, m)
            return low, high

        setting = shape if each_has == 1 else f"{shape}, unequal clusters"
        yield Cell("mean of scores", setting, c, SCORES[shape][1], study, unit)


def two_judged_models(
    random: Random,
    rates: tuple[float, float],
    errors: Sequence[tuple[float, float]],
    icc: float,
    c: int,
    share: float,
    unit: str = SAMPLE,
) -> list[CheckedVerdicts]:
    """Two models on the same clusters, by a judge of other errors on each; a share is checked."""
    m, place = sizes(random, c, unit), random.integers(200_000, size=(2, c))
    place[1] = np.where(random.random(c) < 0.5, place[0], place[1])
    sample, sides = np.repeat(np.arange(c), m), []
    for rate, at, (se, sp) in zip(rates, place, errors, strict=True):
        truth = random.random(len(sample)) < np.repeat(quantiles(rate, icc)[at], m)
        verdict = np.where(truth, random.random(len(sample)) < se, random.random(len(sample)) >= sp)
        weights = validation_weights(random, answers_of(sample, unit), verdict, share)
        sides.append(CheckedVerdicts(sample, verdict, np.where(weights > 0, truth, np.nan), weights))
    return sides


UNLIKE_ERRORS = ((0.7, 0.97), (0.85, 0.93))


def corrected_differences(
    rates: tuple[tuple[float, float], ...] = ((0.3, 0.3), (0.2, 0.4), (0.1, 0.1)),
    designs: tuple[tuple[int, float], ...] = ((10, 1.0), (20, 1.0), (50, 0.5), (100, 0.3), (300, 0.2)),
    unit: str = SAMPLE,
) -> Iterator[Cell]:
    for icc, pair, (c, share) in product(ICC, rates, designs):
        truth = float(quantiles(pair[0], icc).mean() - quantiles(pair[1], icc).mean())

        def study(
            random: Random, icc: float = icc, pair: tuple[float, float] = pair, c: int = c, share: float = share
        ) -> Ends:
            difference = corrected_difference(*two_judged_models(random, pair, UNLIKE_ERRORS, icc, c, share, unit))
            return difference.low, difference.high

        setting = f"{pair[0]:g} - {pair[1]:g}, {share:.0%} checked, ICC {icc}"
        yield Cell("corrected difference", setting, c, truth, study, unit)


# Two models' scores of the same samples, and the true difference of their means.
ScorePair = tuple[NDArray[Any], NDArray[Any]]


def points_of_two(random: Random, n: int) -> ScorePair:
    """HealthBench's scores: points over positive points of 3 to 11 criteria, some negative."""
    size, chance = random.integers(3, 12, n), random.beta(2, 2, n)
    one, other = (random.binomial(size, chance) - 0.5 * random.binomial(2, 0.3, n) for _ in range(2))
    return one / size, other / size


def seldom_less(random: Random, n: int) -> ScorePair:
    """Of either model, 85 % of the scores are the same."""
    one, other = (np.where(random.random(n) < 0.15, random.random(n), 0.0) for _ in range(2))
    return 0.6 - one, 0.6 - other


SCORE_PAIRS: dict[str, tuple[Callable[[Random, int], ScorePair], float]] = {
    "points, some negative (HealthBench)": (points_of_two, 0.0),
    "seldom different": (seldom_less, 0.0),
    "even, one .1 higher": (lambda random, n: (0.1 + 0.9 * random.random(n), 0.9 * random.random(n)), 0.1),
    "skewed, against a constant one": (
        lambda random, n: (1 - random.gamma(1.5, 0.35, n), 0.9 + 0.02 * random.normal(size=n)),
        1 - 1.5 * 0.35 - 0.9,
    ),
}


def score_differences(clusters: tuple[int, ...] = (10, 15, 30, 100, 300), unit: str = SAMPLE) -> Iterator[Cell]:
    """Where samples share a cluster, they have the same score."""
    for (name, (draw, truth)), c in product(SCORE_PAIRS.items(), clusters):

        def study(random: Random, draw: Callable[[Random, int], ScorePair] = draw, c: int = c) -> Ends:
            m = np.ones(c) if unit == SAMPLE else random.geometric(SAMPLES_OF[unit], c)
            one, other = draw(random, c)
            found = score_difference(one * m, m, other * m, m)
            return found.low, found.high

        yield Cell("difference of scores", name, c, truth, study, unit)


# Validations: rate, correlation (0: one criterion an answer), answers of the run, how many are
# drawn, half of those with a failure, and the judge's sensitivity and specificity.
VALIDATIONS = (
    (0.05, 0.0, 1000, 120, 0.8, 0.97),
    (0.1, 0.0, 300, 100, 0.8, 0.9),
    (0.3, 0.0, 100, 40, 0.6, 0.9),
    (0.05, 0.3, 300, 120, 0.8, 0.95),
    (0.1, 0.3, 100, 60, 0.8, 0.9),
    (0.1, 0.3, 300, 100, 0.6, 0.95),
    (0.3, 0.3, 300, 100, 0.8, 0.9),
    (0.6, 0.5, 300, 100, 0.7, 0.8),
)
VALIDATED = ("sensitivity", "specificity", "kappa", "ac1", "balanced_f1", "corrected rate")


def validations(figures: Sequence[str] = VALIDATED) -> Iterator[Cell]:
    for (p, icc, c, n, se, sp), figure in product(VALIDATIONS, figures):
        table = 1e9 * np.array([[p * se, p * (1 - se)], [(1 - p) * (1 - sp), (1 - p) * sp]])
        shares = {"sensitivity": se, "specificity": sp, "corrected rate": p}
        figure_of = {"kappa": kappa, "ac1": ac1, "balanced_f1": balanced_f1}
        truth = shares[figure] if figure in shares else float(figure_of[figure](table))

        def study(
            random: Random,
            figure: str = figure,
            p: float = p,
            icc: float = icc,
            c: int = c,
            n: int = n,
            se: float = se,
            sp: float = sp,
        ) -> Ends:
            sample, truth, verdict = judged_criteria(random, p, icc, c, se, sp)
            weights = validation_weights(random, sample, verdict, n / c)
            checked = np.where(weights > 0, truth, np.nan)
            if figure == "corrected rate":
                corrected = corrected_rate(sample, verdict, checked, weights)
                return corrected.low, corrected.high
            quality = judge_quality(two_phase_table(sample, verdict, checked, weights=weights))
            estimate = getattr(quality, figure)
            return estimate.low, estimate.high

        setting = f"{p:g} failed, Se {se}, Sp {sp}, {n} of {c} answers checked, ICC {icc}"
        yield Cell(f"validation: {figure}", setting, c, truth, study)


def careful_raters(
    raters: tuple[int, ...] = (3, 5),
    rate: tuple[float, ...] = (0.1, 0.5),
    clusters: tuple[int, ...] = (10, 30, 100, 300),
) -> Iterator[Cell]:
    """Several raters with a sensitivity of .97 and a specificity of .99, who may never differ."""
    se, sp = 0.97, 0.99
    for figure, j, icc, p, c in product(("raw", "fleiss", "ac1", "alpha"), raters, (0, 0.3), rate, clusters):
        equal = p * (se**2 + (1 - se) ** 2) + (1 - p) * (sp**2 + (1 - sp) ** 2)
        share = p * se + (1 - p) * (1 - sp)
        by_chance = 2 * share * (1 - share) if figure == "ac1" else share**2 + (1 - share) ** 2
        truth = equal if figure == "raw" else (equal - by_chance) / (1 - by_chance)

        def study(random: Random, figure: str = figure, j: int = j, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = criteria(random, c, icc)
            is_failed = random.random(m.sum()) < np.repeat(chances(random, p, icc, c), m)
            failed = random.binomial(j, np.where(is_failed, se, 1 - sp))
            ratings = np.column_stack([failed, j - failed])
            estimate = getattr(several_raters(ratings, np.repeat(np.arange(c), m)), figure)
            return estimate.low, estimate.high

        yield Cell(f"{figure} of careful raters", f"{j} raters, {p:g} failed, ICC {icc}", c, truth, study)


def ordinal_agreement(clusters: tuple[int, ...] = (10, 20, 30, 100, 300)) -> Iterator[Cell]:
    """Alpha of two raters on a scale of five; each takes the next answer in 15 or 40 % of cases."""
    for slips, c in product((0.15, 0.4), clusters):
        move = np.eye(5) * (1 - slips)
        for level in range(5):
            for other in {max(0, level - 1), min(4, level + 1)} - {level}:
                move[level, other] = slips / (1 if level in (0, 4) else 2)
        table = move.T @ np.diag([0.4, 0.3, 0.15, 0.1, 0.05]) @ move
        truth = float(alpha(1e9 * table, ordinal=True))

        def study(random: Random, table: NDArray[Any] = table, c: int = c) -> Ends:
            drawn = random.multinomial(1, table.ravel(), size=c).reshape(c, 5, 5).astype(float)
            estimate = table_interval(drawn, partial(alpha, ordinal=True))
            return estimate.low, estimate.high

        yield Cell("ordinal alpha of two raters", f"{slips:.0%} slips", c, truth, study)


def harm_weighted(
    rate: tuple[float, ...] = (0.1, 0.3), clusters: tuple[int, ...] = (10, 30, 100, 300)
) -> Iterator[Cell]:
    """Criteria weigh 1 to 4, the same share of each failed."""
    for icc, p, c in product(ICC, rate, clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = sizes(random, c)
            sample = np.repeat(np.arange(c), m)
            weight = random.choice([1.0, 2.0, 3.0, 4.0], len(sample), p=[0.4, 0.3, 0.2, 0.1])
            failed = random.random(len(sample)) < np.repeat(chances(random, p, icc, c), m)
            hits, totals = cluster_totals(sample, weight * failed, weight)
            interval = rate_interval(hits, totals, n=len(sample))
            return interval.low, interval.high

        yield Cell("harm-weighted rate", f"{p:g}, ICC {icc}", c, p, study)


def self_preferences(clusters: tuple[int, ...] = (10, 20, 50, 200)) -> Iterator[Cell]:
    """A judge that is .1 milder on models of its family, on the samples that all answered."""
    for icc, p, c in product(ICC, (0.1, 0.3), clusters):

        def study(random: Random, icc: float = icc, p: float = p, c: int = c) -> Ends:
            m = sizes(random, c)
            own, others = chances(random, p, icc, c), chances(random, p, icc, c)
            mild = np.maximum(0.0, own * (1 - 0.05 / p))
            sides = [
                np.array([random.binomial(m, mine), m, random.binomial(m, theirs), m], dtype=float)
                for mine, theirs in ((mild, own), (others, others))
            ]
            found = difference_of_differences(sides[0], sides[1])
            return found.low, found.high

        yield Cell("self-preference", f"{p:g}, ICC {icc}", c, -0.05, study)


# --------------------------------------------------------------------------------- level and power


@dataclass(frozen=True)
class Trial:
    """A test on simulated studies. `planned`: its power; None where there is no difference."""

    name: str
    p_value: Callable[[Random], float | None]
    planned: float | None = None

    def rejections(self, studies: int, seed: int = 17) -> float:
        """The share of studies with p < .05."""
        random = np.random.default_rng(seed)
        return sum((p := self.p_value(random)) is not None and p < 0.05 for _ in range(studies)) / studies


def compared(random: Random, pair: tuple[float, float], icc: float, c: int) -> tuple[NDArray[Any], ...]:
    """The failures of two models and the criteria per sample; one criterion without correlation."""
    if icc:
        return two_models(random, *pair, icc, c)
    place = random.random((2, c))
    place[1] = np.where(random.random(c) < 0.5, place[0], place[1])
    return (place[0] < pair[0]).astype(int), (place[1] < pair[1]).astype(int), np.ones(c, dtype=np.int64)


def intracluster_correlation(hits: ArrayLike, sizes: ArrayLike) -> float | None:
    """The correlation of binary outcomes within a cluster: the analysis-of-variance estimate.

    (MSB - MSW) / (MSB + (m0 - 1) MSW), MSB = sum(m (p - r)^2) / (C - 1),
    MSW = sum(m p (1 - p)) / (M - C), m0 = (M - sum(m^2) / M) / (C - 1): Ridout, Demetrio & Firth
    (1999), Biometrics 55; Donner (1986), Int. Stat. Rev. 54. Negative where criteria of one cluster
    differ more than criteria of different clusters. None for fewer than two clusters, where no
    cluster has two criteria, or where all outcomes are equal.
    """
    y, m = np.asarray(hits, dtype=float), np.asarray(sizes, dtype=float)
    y, m = y[m > 0], m[m > 0]
    total, clusters = m.sum(), len(m)
    if clusters < 2 or total <= clusters:
        return None
    p = y / m
    between = (m * (p - y.sum() / total) ** 2).sum() / (clusters - 1)
    within = (m * p * (1 - p)).sum() / (total - clusters)
    typical = (total - (m**2).sum() / total) / (clusters - 1)
    spread = between + (typical - 1) * within
    return float((between - within) / spread) if spread else None


def correlation_of_models(
    first_hits: ArrayLike, first_sizes: ArrayLike, second_hits: ArrayLike, second_sizes: ArrayLike
) -> float | None:
    """How far both models fail on the same samples: correlation of residuals y - r m over clusters.

    The covariance term in the variance of `paired_difference`, divided by the root of the product
    of both models' own terms (Cochran 1977, chapter 6; Miller 2024, arXiv:2411.00640). Uses the
    clusters in which both have judged criteria. None where a model failed nothing, or everything.
    """
    y1, m1, y2, m2 = (np.asarray(part, dtype=float) for part in (first_hits, first_sizes, second_hits, second_sizes))
    shared = (m1 > 0) & (m2 > 0)
    first, second = ratios(np.array([y1, y2])[:, shared], np.array([m1, m2])[:, shared]).residuals
    scale = sqrt(float((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / scale if scale > 0 else None


def paired_p(random: Random, pair: tuple[float, float], icc: float, c: int) -> float | None:
    one, other, m = compared(random, pair, icc, c)
    return paired_difference(one, m, other, m).p


def mcnemar_p(random: Random, pair: tuple[float, float], icc: float, c: int) -> float | None:
    one, other, _m = compared(random, pair, icc, c)
    return mcnemar(one > 0, other > 0).p


def corrected_p(random: Random, icc: float, c: int, share: float) -> float | None:
    return corrected_difference(*two_judged_models(random, (0.3, 0.3), UNLIKE_ERRORS, icc, c, share)).p


def raw_p(random: Random, icc: float, c: int) -> float | None:
    """The test of the judge's verdicts where only the judge differs."""
    sides = two_judged_models(random, (0.3, 0.3), UNLIKE_ERRORS, icc, c, 0.3)
    totals = [cluster_totals(side.clusters, side.judge, np.ones(len(np.asarray(side.judge)))) for side in sides]
    return paired_difference(*totals[0], *totals[1]).p


def trials(samples: tuple[int, ...] = (10, 20, 30, 100)) -> Iterator[Trial]:
    for icc, c in product((0, 0.3), samples):
        for rate in (0.1, 0.3):
            yield Trial(
                f"paired, no difference, {rate:g}, ICC {icc}, {c} samples",
                partial(paired_p, pair=(rate, rate), icc=icc, c=c),
            )
        yield Trial(
            f"McNemar, no difference, 0.3, ICC {icc}, {c} samples", partial(mcnemar_p, pair=(0.3, 0.3), icc=icc, c=c)
        )
        for pair in ((0.3, 0.5), (0.1, 0.3)):
            random = np.random.default_rng(3)
            one, other, m = compared(random, pair, icc, 100_000)
            pairing, inside = correlation_of_models(one, m, other, m), intracluster_correlation(one, m)
            planned = float(
                np.mean(
                    [
                        power_of_difference(*pair, criteria(random, c, icc), inside or 0.0, pairing=pairing or 0.0)
                        for _ in range(20)  # of the sizes that the studies have
                    ]
                )
            )
            yield Trial(
                f"paired, {pair[0]:g} and {pair[1]:g}, ICC {icc}, {c} samples",
                partial(paired_p, pair=pair, icc=icc, c=c),
                planned,
            )
    for c, share in ((50, 0.5), (100, 0.3), (300, 0.2)):
        yield Trial(f"raw, only the judge differs, {c} samples", partial(raw_p, icc=0.3, c=c))
        yield Trial(f"corrected, only the judge differs, {c} samples", partial(corrected_p, icc=0.3, c=c, share=share))


# ------------------------------------------------------------------------------------------ output


def shared_clusters(unit: str) -> list[Iterator[Cell]]:
    """Studies of which several samples share a record or an image."""
    few, designs = (10, 20, 50, 100, 300), ((10, 1.0), (20, 1.0), (50, 0.5), (100, 0.3), (300, 0.2))
    return [
        rates((0.05, 0.1, 0.3, 0.5), few, unit),
        differences(((0.1, 0.1), (0.1, 0.3), (0.3, 0.3)), few, unit),
        means(clusters=few, each=(4,), unit=unit),
        score_differences(few, unit),
        figures_of_agreement(FIGURES_SHOWN, ("alike", "unlike"), (0.3,), (0.3,), few, unit),
        more_raters((0.3,), few, (0.3,), unit),
        corrected((0.1, 0.3), designs, unit),
        corrected_differences(((0.3, 0.3), (0.2, 0.4)), designs, unit),
    ]


def families() -> list[Iterator[Cell]]:
    """All kinds of studies."""
    return [
        rates(),
        scores_of_detection(),
        means(),
        figures_of_agreement(FIGURES_SHOWN),
        more_raters(),
        differences(),
        held_out(),
        corrected(),
        corrected_differences(),
        independent(),
        score_differences(),
        validations(),
        careful_raters(),
        ordinal_agreement(),
        harm_weighted(),
        self_preferences(),
        *shared_clusters(RECORD),
        *shared_clusters(IMAGE),
    ]


def measure(studies: int, every: int) -> Iterator[core.Result]:
    """A result for every `every`-th cell and test: the coverage, the level, the power."""
    for cell, coverage in coverages(studies, every):
        yield _covered(cell, coverage)
    for trial in list(trials())[:: max(1, every // 3)]:
        share = 100 * trial.rejections(studies)
        if trial.planned is not None:
            yield core.without_goal(f"power planned: {trial.name}", 100 * trial.planned, "%")
            yield core.without_goal(f"power measured: {trial.name}", share, "%")
        elif trial.name.startswith("raw"):
            yield core.without_goal(f"level: {trial.name}", share, "%")
        else:
            yield core.at_most(f"level: {trial.name}", share, "%", 5 + _error(0.05, studies))


def coverages(studies: int, every: int, kind: str = "") -> Iterator[tuple[Cell, float]]:
    """The coverage in per cent of every `every`-th cell whose kind contains `kind`."""
    for cells in families():
        for cell in list(cells)[::every]:
            if kind not in cell.kind:
                continue
            coverage = 100 * cell.coverage(studies)
            if coverage < GOAL and studies > QUICK:
                coverage = 100 * cell.coverage(AGAIN * studies, seed=29)
            yield cell, coverage


def as_table(covered: Iterable[tuple[Cell, float]]) -> str:
    """The lowest and highest coverage of each kind and unit, by number of clusters, in Markdown."""
    rows: dict[tuple[str, str], dict[int, list[float]]] = {}
    for cell, coverage in covered:
        size = next((size for size in SIZES if cell.samples <= size), None)
        if size is not None and cell.kind != INDEPENDENT:
            rows.setdefault((cell.kind, cell.unit), {}).setdefault(size, []).append(coverage)
    lines = ["| 95 % interval of | unit | " + " | ".join(str(size) for size in SIZES) + " |"]
    lines.append("|---|---|" + "---|" * len(SIZES))
    for (kind, unit), by_size in rows.items():
        cells = [_range(by_size.get(size, [])) for size in SIZES]
        lines.append(f"| {kind} | {unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _range(found: Sequence[float]) -> str:
    """From the lowest to the highest, without cells that have no interval."""
    known = [coverage for coverage in found if not np.isnan(coverage)]
    if not known:
        return "none" if found else ""
    low, high = f"{min(known):.1f}", f"{max(known):.1f}"
    return low if low == high else f"{low}–{high}"


def _covered(cell: Cell, coverage: float) -> core.Result:
    if np.isnan(coverage):
        return core.skipped(cell.name, "no interval in most studies")
    if cell.kind == INDEPENDENT:
        return core.without_goal(cell.name, coverage, "%")
    return core.at_least(cell.name, coverage, "%", GOAL)


def _error(share: float, studies: int) -> float:
    """Two standard errors of a simulated share, in per cent."""
    return float(200 * (share * (1 - share) / studies) ** 0.5)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.coverage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} studies of every ninth cell: about a minute")
    parser.add_argument("--studies", type=int, default=STUDIES, help="studies of each cell")
    parser.add_argument("--json", action="store_true", help="a list of {name, value, unit, goal, met}")
    parser.add_argument("--table", action="store_true", help="the table of docs/coverage.md")
    parser.add_argument("--kind", default="", help="only kinds of intervals that contain this, with --table")
    asked = parser.parse_args(arguments)
    if asked.table:
        sys.stdout.write(as_table(coverages(asked.studies, 1, asked.kind)) + "\n")
        return 0
    results = list(measure(QUICK, 9) if asked.quick else measure(asked.studies, 1))
    sys.stdout.write((core.as_json(results) if asked.json else core.by_size(results)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
