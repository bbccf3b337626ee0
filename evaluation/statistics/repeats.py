"""Repeats: how much of the spread comes from the sample, from the model's answer, and from the judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class Components:
    """Variances of one value: between samples, between answers to a sample, between judgments of an answer.

    None where the repeats cannot tell: a component without repeats is inside the one above it. `clipped`: names of
    those whose estimate was negative and is given as 0.
    """

    samples: int
    sample: float | None
    answer: float | None
    judge: float | None
    clipped: tuple[str, ...] = ()

    def variance_of_mean(self, samples: int, answers: int = 1, judgments: int = 1) -> float | None:
        """Of the mean over so many samples, answers a sample and judgments an answer: s/n + a/(n k) + j/(n k l).

        Searle, Casella & McCulloch (1992), Variance Components. None where a component that would be divided
        further is not known by itself.
        """
        if self.sample is None or (answers > 1 and self.answer is None) or (judgments > 1 and self.judge is None):
            return None
        return (self.sample + (self.answer or 0) / answers + (self.judge or 0) / (answers * judgments)) / samples


def variance_components(
    samples: Sequence[Any] | NDArray[Any], answers: Sequence[Any] | NDArray[Any], values: ArrayLike
) -> Components:
    """Split the variance of `values`, one a judgment, by nested analysis of variance; unequal numbers of repeats
    are fine.

    Expected mean squares of unbalanced nested classifications, solved from the bottom (Henderson's method I;
    Searle, Casella & McCulloch 1992, chapter 5; Sokal & Rohlf 2012, chapter 10): MSW = j, MSB = j + k1 a, MSA = j +
    k2 a + k3 s, with k1 = (N - sum n_ij^2 / n_i) / (b - a), k2 = (sum n_ij^2 / n_i - sum n_ij^2 / N) / (a - 1), k3
    = (N - sum n_i^2 / N) / (a - 1). Balanced, with no negative estimate, this is restricted maximum likelihood.

    Args:
        samples, answers: ids; an answer's need only be unique within its sample.
        values: a verdict on one criterion (0 or 1; `samples` are then criteria), or the share of an answer's
        criteria failed.
    """
    y = np.asarray(values, dtype=float)
    if not len(y):
        return Components(0, None, None, None)
    _, sample = np.unique(np.asarray(samples), return_inverse=True)
    _, label = np.unique(np.asarray(answers), return_inverse=True)
    _, first, answer = np.unique(sample * (label.max() + 1) + label, return_index=True, return_inverse=True)
    of_answer, of_sample = np.bincount(answer).astype(float), np.bincount(sample).astype(float)
    parent = sample[first]
    total, a, b = len(y), len(of_sample), len(of_answer)
    sums = np.bincount(sample, y), np.bincount(answer, y)
    squares = [
        float(y.sum() ** 2 / total),
        float((sums[0] ** 2 / of_sample).sum()),
        float((sums[1] ** 2 / of_answer).sum()),
    ]
    within = (float((y**2).sum()) - squares[2]) / (total - b) if total > b else None
    clipped = []

    def positive(name: str, value: float) -> float:
        if value < -1e-12:
            clipped.append(name)
        return max(0.0, value)

    judge = None if within is None else positive("judge", within)
    inside = float((of_answer**2 / of_sample[parent]).sum())  # sum of n_ij^2 / n_i
    between = None
    if b > a:
        k1 = (total - inside) / (b - a)
        between = positive("answer", ((squares[2] - squares[1]) / (b - a) - (within or 0.0)) / k1)
    if a < 2:
        return Components(a, None, between, judge, tuple(clipped))
    k2 = (inside - float((of_answer**2).sum()) / total) / (a - 1)
    k3 = (total - float((of_sample**2).sum()) / total) / (a - 1)
    above = (squares[1] - squares[0]) / (a - 1) - (within or 0.0) - k2 * (between or 0.0)
    return Components(a, positive("sample", above / k3), between, judge, tuple(clipped))
