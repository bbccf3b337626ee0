"""Agreement by kind of rubric: the two physicians with each other, and each of them with the judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.statistics.bootstrap import DRAWS
from evaluation.statistics.intervals import MINIMUM
from evaluation.statistics.validation import JudgeQuality, judge_quality


@dataclass(frozen=True, slots=True)
class Rated:
    """One criterion as both physicians and the judge have it: failed or not."""

    label: str
    sample: int
    weight: float
    first: bool
    second: bool
    judge: bool


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Of the rubrics of one key: shares of agreement and Cohen's kappa, of the physicians with each other, and of the judge as
    the mean of its agreement with either. Weighted by the draw; None where kappa is not defined. `low`, `high`: of the
    physicians' kappa."""

    label: str
    n: int
    clusters: int
    physicians_agree: float
    physicians_kappa: float | None
    low: float | None
    high: float | None
    judge_agrees: float
    judge_kappa: float | None


def label_agreement(rows: Iterable[Rated], *, minimum: int = MINIMUM, draws: int = DRAWS) -> tuple[LabelAgreement, ...]:
    """A line for each key, in alphabetical order. `minimum`: clusters below which there is no interval."""
    by_label: dict[str, list[Rated]] = {}
    for row in rows:
        by_label.setdefault(row.label, []).append(row)
    return tuple(_of(label, by_label[label], minimum, draws) for label in sorted(by_label))


def _of(label: str, rows: Sequence[Rated], minimum: int, draws: int) -> LabelAgreement:
    samples, weights = [row.sample for row in rows], np.array([row.weight for row in rows])
    first, second, judge = (np.array([getattr(row, who) for row in rows]) for who in ("first", "second", "judge"))

    def quality(one: object, other: object) -> JudgeQuality:
        return judge_quality(samples, one, other, weights, minimum=minimum, draws=draws)  # type: ignore[arg-type]

    humans, beside = quality(first, second), [quality(each, judge) for each in (first, second)]
    kappas = [each.kappa.value for each in beside if each.kappa.value is not None]
    agree = [float(np.average(one == other, weights=weights)) for one, other in ((first, judge), (second, judge))]
    return LabelAgreement(
        label=label,
        n=humans.n,
        clusters=humans.clusters,
        physicians_agree=float(np.average(first == second, weights=weights)),
        physicians_kappa=humans.kappa.value,
        low=humans.kappa.low,
        high=humans.kappa.high,
        judge_agrees=sum(agree) / 2,
        judge_kappa=sum(kappas) / 2 if len(kappas) == 2 else None,
    )
