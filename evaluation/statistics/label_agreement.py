"""Agreement by rubric key: of the two physicians, and of each of them with the judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.statistics.intervals import MINIMUM
from evaluation.statistics.validation import JudgeQuality, judge_quality


@dataclass(frozen=True, slots=True)
class RatedCriterion:
    """One criterion: whether the first physician, the second and the judge call it failed.

    `label`: the key of its rubric. `weight`: the inverse probability of being drawn.
    """

    label: str
    sample: int
    weight: float
    first: bool
    second: bool
    judge: bool


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


def label_agreement(rows: Iterable[RatedCriterion], *, minimum: int = MINIMUM) -> tuple[LabelAgreement, ...]:
    """The agreement for each rubric key, in alphabetical order.

    `minimum`: clusters below which there is no interval.
    """
    by_label: dict[str, list[RatedCriterion]] = {}
    for row in rows:
        by_label.setdefault(row.label, []).append(row)
    return tuple(_agreement(label, by_label[label], minimum) for label in sorted(by_label))


def _agreement(label: str, rows: Sequence[RatedCriterion], minimum: int) -> LabelAgreement:
    samples, weights = [row.sample for row in rows], np.array([row.weight for row in rows])
    first, second, judge = (np.array([getattr(row, rater) for row in rows]) for rater in ("first", "second", "judge"))

    def quality(left: object, right: object) -> JudgeQuality:
        return judge_quality(samples, left, right, weights, minimum=minimum)  # type: ignore[arg-type]

    between_physicians, with_judge = (
        quality(first, second),
        [quality(physician, judge) for physician in (first, second)],
    )
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
