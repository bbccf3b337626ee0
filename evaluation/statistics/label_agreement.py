"""Agreement by rubric key: of the two physicians, and of each of them with the judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.intervals import MINIMUM
from evaluation.statistics.two_phase import two_phase_table
from review.quality.agreement import kappa, raw


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Share of agreement and Cohen's kappa for the rubrics of one key, weighted by the draw.

    Between the two physicians, and between the judge and the physicians as the mean over both. A
    kappa is None where it is undefined. `low`, `high`: the 95 % interval of the physicians' kappa.
    """

    label: str
    n: int
    clusters: int
    physicians_agree: float
    physicians_kappa: float | None
    low: float | None
    high: float | None
    judge_agrees: float
    judge_kappa: float | None


def label_agreement(
    labels: Sequence[str],
    clusters: ArrayLike,
    weights: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    judge: ArrayLike,
    *,
    minimum: int = MINIMUM,
) -> tuple[LabelAgreement, ...]:
    """The agreement for each rubric key, in alphabetical order. All have an entry per criterion.

    Args:
        labels: the key of its rubric.
        clusters: the id of its cluster.
        weights: the inverse probability of being drawn.
        first, second: 1 if the first (second) physician calls it failed, 0 passed, NaN where either
            decided nothing.
        judge: whether the judge calls it failed.
        minimum: clusters below which there is no interval.
    """
    columns = [np.asarray(values) for values in (clusters, weights, first, second, judge)]
    names = np.array(labels)
    agreements = []
    for label in sorted(set(labels)):
        of_label = [values[names == label] for values in columns]
        if not np.isnan(of_label[2]).all():
            agreements.append(_agreement(label, of_label, minimum))
    return tuple(agreements)


def _agreement(label: str, columns: Sequence[NDArray[Any]], minimum: int) -> LabelAgreement:
    clusters, weights, first, second, judge = columns
    between_physicians = two_phase_table(clusters, judge, first, second, weights)
    physicians = between_physicians.estimate(kappa, minimum=minimum)
    with_first = two_phase_table(clusters, judge, first, weights=weights)
    with_second = two_phase_table(clusters, judge, second, weights=weights)
    kappa_of_first = with_first.estimate(kappa, minimum=minimum).value
    kappa_of_second = with_second.estimate(kappa, minimum=minimum).value
    judge_kappa = None
    if kappa_of_first is not None and kappa_of_second is not None:
        judge_kappa = (kappa_of_first + kappa_of_second) / 2
    return LabelAgreement(
        label=label,
        n=between_physicians.n,
        clusters=between_physicians.clusters_with(np.ones((2, 2), dtype=np.bool_)),
        physicians_agree=float(raw(between_physicians.table)),
        physicians_kappa=physicians.value,
        low=physicians.low,
        high=physicians.high,
        judge_agrees=float(raw(with_first.table) + raw(with_second.table)) / 2,
        judge_kappa=judge_kappa,
    )
