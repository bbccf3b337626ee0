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
    by_label = ((label, [values[names == label] for values in columns]) for label in sorted(set(labels)))
    return tuple(_agreement(label, columns, minimum) for label, columns in by_label if not np.isnan(columns[2]).all())


def _agreement(label: str, columns: Sequence[NDArray[Any]], minimum: int) -> LabelAgreement:
    clusters, weights, first, second, judge = columns
    between_physicians = two_phase_table(clusters, judge, first, second, weights)
    with_judge = [two_phase_table(clusters, judge, one, weights=weights) for one in (first, second)]
    physicians, (one, other) = between_physicians.estimate(kappa, minimum=minimum), with_judge
    kappas = [table.estimate(kappa, minimum=minimum).value for table in with_judge]
    known = [value for value in kappas if value is not None]
    return LabelAgreement(
        label=label,
        n=between_physicians.n,
        clusters=between_physicians.clusters_with(np.ones((2, 2), dtype=np.bool_)),
        physicians_agree=float(raw(between_physicians.table)),
        physicians_kappa=physicians.value,
        low=physicians.low,
        high=physicians.high,
        judge_agrees=float(raw(one.table) + raw(other.table)) / 2,
        judge_kappa=sum(known) / 2 if len(known) == 2 else None,
    )
