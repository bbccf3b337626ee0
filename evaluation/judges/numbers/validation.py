"""The accuracy of a judge by physicians' verdicts, and the rates corrected by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from evaluation import panel
from evaluation.judges.numbers.comparisons import CorrectedComparison, corrected_comparisons
from evaluation.judges.numbers.criteria import JudgedCriteria
from evaluation.numbers.frame import Ints
from evaluation.numbers.plans import Plan
from evaluation.protocol import DataSet, Rate
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.correction import CheckedVerdicts, CorrectedRate, corrected_rate
from evaluation.statistics.intervals import RateInterval, rate_interval
from evaluation.statistics.label_agreement import LabelAgreement, label_agreement
from evaluation.statistics.two_phase import two_phase_table
from evaluation.statistics.validation import JudgeQuality, judge_quality
from review.rules.shown_fields import Hidden, Shown, shown

Floats = NDArray[np.float64]
MET, NOT_MET, UNCLEAR = "met", "not-met", "unclear"  # physicians' answers
FAILED_BY_ANSWER = {NOT_MET: True, MET: False}  # physician's answer -> did the criterion fail?


@dataclass(frozen=True, slots=True)
class PhysicianVerdict:
    """The decision of physicians on one criterion of a response.

    `truth`: the majority of their answers, '' if there is none.
    `first`, `second`: the answers of the first two physicians, '' if there is none.
    """

    response: int
    rubric: int
    weight: float
    truth: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class DataSetRate:
    """A model's rate on one data set: by the judge, and corrected by physicians' verdicts on it."""

    dataset: str
    label: str
    raw: RateInterval
    corrected: CorrectedRate


@dataclass(frozen=True, slots=True)
class ModelValidation:
    """The quality of the judge on one model's answers.

    `judge`: the judge against physicians; `physicians`: the second physician against the first,
    measured in the same way.
    `raw`: the rate by the judge; `corrected`: an estimate of the rate by physicians' verdicts.
    `datasets`: both rates on each data set, if there are several.
    """

    endpoint: str
    judge: JudgeQuality
    physicians: JudgeQuality
    raw: RateInterval
    corrected: CorrectedRate
    datasets: tuple[DataSetRate, ...]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The state and the results of a validation.

    `rate`: the rate whose raw and corrected values are given; the raw one is the report's.
    `drawn`, `closed`: responses drawn, and decided so far, of those that still count. `third`:
    decided responses for which a third physician was asked. `not_drawn`: models added to the run
    since the draw. `comparisons`: the planned pairs of models, raw and corrected.
    """

    rate: Hidden[Rate]
    drawn: int
    closed: int
    third: int
    simulated: Annotated[bool, Shown("simulated_physicians")]
    seed: int
    created_at: datetime
    models: tuple[ModelValidation, ...]
    labels: tuple[LabelAgreement, ...] = ()
    not_drawn: tuple[str, ...] = ()
    comparisons: tuple[CorrectedComparison, ...] = ()

    @property
    @shown
    def complete(self) -> bool:
        return self.closed == self.drawn

    @property
    @Shown("rate")
    def rate_name(self) -> str:
        return self.rate.name


def physician_verdict(
    response: int, rubric: int, weight: float, first: str, second: str, others: Sequence[str]
) -> PhysicianVerdict:
    """The decision on a criterion. `others`: the answers of those who were asked afterwards."""
    return PhysicianVerdict(response, rubric, weight, panel.majority([first, second, *others]), first, second)


def labels(
    judged: JudgedCriteria,
    by_physicians: Mapping[tuple[int, int], PhysicianVerdict],
    keys: Mapping[int, str],
    minimum: int,
) -> tuple[LabelAgreement, ...]:
    """The agreement by rubric key, over criteria that both first physicians decided.

    `keys`: the key of each rubric of the run.
    """
    names, weights, first, second = list[str](), list[float](), list[float](), list[float]()
    for response, rubric in judged.keys(judged.rows):
        verdict = by_physicians.get((response, rubric))
        weight, answers = 1.0, (np.nan, np.nan)
        if verdict:
            weight, answers = verdict.weight, (_as_float(verdict.first), _as_float(verdict.second))
        if np.isnan(answers).any():
            answers = (np.nan, np.nan)
        names.append(keys[rubric])
        weights.append(weight)
        first.append(answers[0])
        second.append(answers[1])
    rows = judged.rows
    return label_agreement(names, judged.clusters[rows], weights, first, second, judged.failed[rows], minimum=minimum)


def models_and_pairs(
    judged: JudgedCriteria,
    datasets: Sequence[DataSet],
    by_physicians: Mapping[tuple[int, int], PhysicianVerdict],
    plan: Plan,
) -> tuple[tuple[ModelValidation, ...], tuple[CorrectedComparison, ...]]:
    """The quality of the judge on each model's answers, with raw and corrected rates and pairs."""
    frame, minimum = judged.frame, plan.minimum
    counted, checkable = frame.places(frame.in_scope(judged.rate)), np.zeros(frame.rows.height, dtype=np.bool_)
    model, dataset = frame.array("model"), frame.array("dataset")
    checkable[judged.rows] = True
    # By judgment; NaN and 1 where physicians have not decided.
    truth, first, second = np.full((3, frame.rows.height), np.nan)
    weights = np.ones(frame.rows.height)
    if by_physicians:
        for row, key in zip(judged.rows.tolist(), judged.keys(judged.rows), strict=True):
            if (verdict := by_physicians.get(key)) is not None:
                truth[row], weights[row] = _as_float(verdict.truth), verdict.weight
                first[row], second[row] = _as_float(verdict.first), _as_float(verdict.second)
    hits = frame.has(frozenset(judged.rate.hits))
    hit = frame.rows.select(hits.alias("hit"))["hit"].to_numpy()
    if judged.protocol.is_lower_better(judged.rate):
        true_hit = truth
    else:
        true_hit = 1 - truth

    def checked(rows: Ints) -> CheckedVerdicts:
        settled = _with_settled(hit[rows], true_hit[rows], weights[rows], checkable[rows])
        return CheckedVerdicts(judged.clusters[rows], hit[rows], *settled)

    def rates(rows: Ints) -> tuple[RateInterval, CorrectedRate]:
        totals = cluster_totals(judged.clusters[rows], hit[rows], np.ones(len(rows)))
        of_rows = checked(rows)
        corrected = corrected_rate(of_rows.clusters, of_rows.judge, of_rows.physician, of_rows.weights, minimum=minimum)
        return rate_interval(*totals, minimum=minimum), corrected

    def quality(rows: Ints, reference: Floats, rated: Floats | None = None) -> JudgeQuality:
        if rated is None:
            other = None
        else:
            other = rated[rows]
        drawn = two_phase_table(judged.clusters[rows], judged.failed[rows], reference[rows], other, weights[rows])
        return judge_quality(drawn, minimum=minimum)

    result = []
    for endpoint, name in enumerate(frame.models):
        rows = counted[model[counted] == endpoint]
        of_model = judged.rows[model[judged.rows] == endpoint]
        if not len(rows):
            continue
        by_dataset = []
        for at, data in enumerate(datasets):
            of_data = rows[dataset[rows] == at]
            if len(datasets) > 1 and len(of_data):
                by_dataset.append(DataSetRate(data.name, data.label, *rates(of_data)))
        raw, corrected = rates(rows)
        result.append(
            ModelValidation(
                endpoint=name,
                judge=quality(of_model, truth),
                physicians=quality(of_model, first, second),
                raw=raw,
                corrected=corrected,
                datasets=tuple(by_dataset),
            )
        )
    comparisons = corrected_comparisons(
        judged,
        plan.comparisons,
        checked,
        dict(judged.protocol.columns(datasets)),
        pooled=judged.protocol.pools(datasets),
        role=plan.role,
        minimum=minimum,
    )
    return tuple(result), comparisons


def _with_settled(
    hit: NDArray[np.bool_], truth: Floats, weights: Floats, checkable: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """The truth and weight of each criterion, with those that no physician could be asked about.

    A rule of the run or code decided these, so they are known: a stratum that is drawn as a whole.
    The weights of the drawn criteria add up to those that could have been drawn.
    """
    if checkable.all():
        return truth, weights
    truth, weights = truth.copy(), weights.copy()
    for verdict in (True, False):
        could_be_drawn, settled = checkable & (hit == verdict), ~checkable & (hit == verdict)
        drawn = could_be_drawn & ~np.isnan(truth)
        if drawn.any():
            weights[drawn] *= could_be_drawn.sum() / weights[drawn].sum()
        if drawn.any() or not could_be_drawn.any():
            truth[settled] = float(verdict)
    return truth, weights


def _as_float(answer: str) -> float:
    """1 if the criterion failed, 0 if it was met, NaN if the answer decides neither."""
    if answer in FAILED_BY_ANSWER:
        return float(FAILED_BY_ANSWER[answer])
    return float("nan")
