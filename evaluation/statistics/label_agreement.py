"""Agreement by rubric key: of the two physicians, and of each of them with the judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluation.statistics.intervals import MINIMUM
from evaluation.statistics.validation import JudgeQuality, judge_quality


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
        first, second, judge: whether the first physician, the second and the judge call it failed.
        minimum: clusters below which there is no interval.
    """
    columns = [np.asarray(values) for values in (clusters, weights, first, second, judge)]
    names = np.array(labels)
    return tuple(
        _agreement(label, [values[names == label] for values in columns], minimum) for label in sorted(set(labels))
    )


def _agreement(label: str, columns: Sequence[NDArray[Any]], minimum: int) -> LabelAgreement:
    clusters, weights, first, second, judge = columns

    def quality(left: NDArray[Any], right: NDArray[Any]) -> JudgeQuality:
        return judge_quality(clusters, left, right, weights, minimum=minimum)

    between_physicians = quality(first, second)
    with_judge = [quality(physician, judge) for physician in (first, second)]
    kappas = [physician.kappa.value for physician in with_judge if physician.kappa.value is not None]
    judge_agreement = [
        float(np.average(left == right, weights=weights)) for left, right in ((first, judge), (second, judge))
    ]
    return LabelAgreement(
        label=label,
        n=between_physicians.n,
        clusters=between_physicians.clusters,
        physicians_agree=float(np.average(first == second, weights=weights)),
        physicians_kappa=between_physicians.kappa.value,
        low=between_physicians.kappa.low,
        high=between_physicians.kappa.high,
        judge_agrees=sum(judge_agreement) / 2,
        judge_kappa=sum(kappas) / 2 if len(kappas) == 2 else None,
    )
