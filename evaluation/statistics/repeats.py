"""Variance components of repeated runs: between samples, answers to a sample, and judgments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """Variances between samples, between answers to a sample, and between judgments of an answer.

    A component is None where there are no repeats to estimate it; it is then contained in the one
    above it. `samples`: their number. `clipped`: the names of components whose estimate was
    negative and was set to 0.
    """

    samples: int
    sample: float | None
    answer: float | None
    judge: float | None
    clipped: tuple[str, ...] = ()


def variance_components(
    samples: Sequence[Any] | NDArray[Any], answers: Sequence[Any] | NDArray[Any], values: ArrayLike
) -> VarianceComponents:
    """Split the variance of `values`, one per judgment, by nested analysis of variance.

    The numbers of repeats may be unequal. Equates mean squares with their expectations in the
    unbalanced nested classification, solved from the lowest level up (Henderson's method I; Searle,
    Casella & McCulloch 1992, chapter 5; Sokal & Rohlf 2012, chapter 10): MSW = j, MSB = j + k1 a,
    MSA = j + k2 a + k3 s, with k1 = (N - sum n_ij^2 / n_i) / (b - a),
    k2 = (sum n_ij^2 / n_i - sum n_ij^2 / N) / (a - 1), k3 = (N - sum n_i^2 / N) / (a - 1). For
    balanced data without negative estimates this is restricted maximum likelihood.

    Args:
        samples, answers: ids, one per judgment. An answer's id need only be unique within its
            sample.
        values: verdicts on one criterion (0 or 1; `samples` are then criteria), or the share of an
            answer's criteria that failed.
    """
    y = np.asarray(values, dtype=float)
    if not len(y):
        return VarianceComponents(0, None, None, None)
    _, sample = np.unique(np.asarray(samples), return_inverse=True)
    _, label = np.unique(np.asarray(answers), return_inverse=True)
    _, first_rows, answer = np.unique(sample * (label.max() + 1) + label, return_index=True, return_inverse=True)
    answer_sizes, sample_sizes = np.bincount(answer).astype(float), np.bincount(sample).astype(float)
    parent = sample[first_rows]
    total, a, b = len(y), len(sample_sizes), len(answer_sizes)
    sums = np.bincount(sample, y), np.bincount(answer, y)
    squares = [
        float(y.sum() ** 2 / total),
        float((sums[0] ** 2 / sample_sizes).sum()),
        float((sums[1] ** 2 / answer_sizes).sum()),
    ]
    within = None
    if total > b:
        within = (float((y**2).sum()) - squares[2]) / (total - b)
    clipped = []

    def clip_at_zero(name: str, value: float) -> float:
        if value < -1e-12:
            clipped.append(name)
        return max(0.0, value)

    if within is None:
        judge = None
    else:
        judge = clip_at_zero("judge", within)
    nested_squares = float((answer_sizes**2 / sample_sizes[parent]).sum())  # sum of n_ij^2 / n_i
    between = None
    if b > a:
        k1 = (total - nested_squares) / (b - a)
        between = clip_at_zero("answer", ((squares[2] - squares[1]) / (b - a) - (within or 0.0)) / k1)
    if a < 2:
        return VarianceComponents(a, None, between, judge, tuple(clipped))
    k2 = (nested_squares - float((answer_sizes**2).sum()) / total) / (a - 1)
    k3 = (total - float((sample_sizes**2).sum()) / total) / (a - 1)
    excess = (squares[1] - squares[0]) / (a - 1) - (within or 0.0) - k2 * (between or 0.0)
    return VarianceComponents(a, clip_at_zero("sample", excess / k3), between, judge, tuple(clipped))
