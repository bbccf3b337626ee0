"""Validation of a run's judge: its accuracy by physicians' verdicts, and corrected rates."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation import panel, registry
from evaluation.judges.content import MET, NOT_MET, rubric_pk
from evaluation.models import Judgment, Run, Validation, ValidationItem
from evaluation.protocol import DataSet, Protocol
from evaluation.runs.plan import plan_of
from evaluation.runs.queries import data_sets_of
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.correction import CorrectedRate, corrected_rate
from evaluation.statistics.intervals import RateInterval, rate_interval
from evaluation.statistics.label_agreement import LabelAgreement, RatedCriterion, label_agreement
from evaluation.statistics.validation import JudgeQuality, judge_quality
from generation.models import Release, ReleasedSample
from generation.models.work import Work
from review.access.visibility import counted_reviews
from review.models import Case
from review.rules.case_spec import answers_from_json
from review.rules.state_machine import ADJUDICATORS, Phase, Role

DATA_SET_COLUMNS = ("response__sample__task", "response__variant")  # which identify a data set
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

    `drawn`, `closed`: responses drawn, and decided so far. `third`: decided responses for which a
    third physician was asked. `not_drawn`: models added to the run since the draw.
    """

    validation: Validation
    drawn: int
    closed: int
    third: int
    simulated: bool
    models: tuple[ModelValidation, ...]
    labels: tuple[LabelAgreement, ...] = ()
    not_drawn: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return self.closed == self.drawn


def validation_of(run: Run) -> Validation | None:
    """The validation of a run's judge; None if there is none."""
    return Validation.objects.filter(run=run).select_related("created_by").first()


def source_clusters(release: Release) -> dict[int, int]:
    """Primary key of each released sample -> number of its cluster.

    Samples of a source record that has several form one cluster; any other is a cluster of its own.
    """
    columns = ("pk", "version__sample__record", "version__sample")
    rows = list(ReleasedSample.objects.filter(release=release).order_by().values_list(*columns))
    samples_of: dict[int, set[int]] = defaultdict(set)
    for _pk, record, sample in rows:
        samples_of[record].add(sample)
    return {pk: -record if len(samples_of[record]) > 1 else pk for pk, record, _sample in rows}


def models_not_drawn(validation: Validation) -> list[str]:
    """The models of the run without a drawn response, because they were added after the draw."""
    drawn = validation.items.values("response__endpoint")
    not_drawn = validation.run.tested.exclude(endpoint__in=drawn).order_by("pk")
    return list(not_drawn.values_list("endpoint__name", flat=True))


def validation_report(run: Run) -> ValidationReport | None:
    """The results of the validation of a run so far; None if there is no validation."""
    validation = validation_of(run)
    if validation is None:
        return None
    protocol = registry.protocol(run.release.benchmark)
    minimum, clusters = plan_of(run, protocol, ()).minimum, source_clusters(run.release)
    items = list(ValidationItem.objects.filter(validation=validation).select_related("case", "response"))
    closed = {item.case_id: item for item in items if item.case.state == Case.State.APPROVED}
    reviews = counted_reviews().filter(case__in=closed, phase=Phase.COMMIT).select_related("physician")
    # case -> role -> question -> answer
    answers_of: dict[int, dict[str, Mapping[str, str]]] = defaultdict(dict)
    simulated, third = False, set()
    for review in reviews:
        answers = answers_from_json(review.answers).questions
        answers_of[review.case_id][review.role] = {key: answer.value for key, answer in answers.items()}
        simulated |= review.physician.simulated
        if review.role in ADJUDICATORS:
            third.add(review.case_id)
    by_physicians = {
        (verdict.response, verdict.rubric): verdict
        for pk, item in closed.items()
        for verdict in _physician_verdicts(item, answers_of.get(pk, {}))
    }
    return ValidationReport(
        validation,
        len(items),
        len(closed),
        len(third),
        simulated,
        tuple(_models(run, protocol, by_physicians, clusters, minimum)),
        _labels(protocol, by_physicians, clusters, minimum),
        tuple(models_not_drawn(validation)),
    )


def _physician_verdicts(item: ValidationItem, answers_of: Mapping[str, Mapping[str, str]]) -> list[PhysicianVerdict]:
    first, second = answers_of.get(Role.PRIMARY, {}), answers_of.get(Role.SECONDARY, {})
    others = [answers for role, answers in answers_of.items() if role in ADJUDICATORS]
    return [
        PhysicianVerdict(
            response=item.response_id,
            rubric=rubric_pk(key),
            weight=item.weight,
            truth=panel.majority([answers.get(key, "") for answers in (first, second, *others)]),
            first=value,
            second=second.get(key, ""),
        )
        for key, value in first.items()
    ]


def _labels(
    protocol: Protocol,
    by_physicians: Mapping[tuple[int, int], PhysicianVerdict],
    clusters: Mapping[int, int],
    minimum: int,
) -> tuple[LabelAgreement, ...]:
    """The agreement by rubric key, over criteria that both first physicians decided.

    Empty unless the protocol judges some rubrics differently from others.
    """
    both = {
        key: verdict
        for key, verdict in by_physicians.items()
        if verdict.first in FAILED_BY_ANSWER and verdict.second in FAILED_BY_ANSWER
    }
    if not protocol.by_rubric or not both:
        return ()
    judged = Judgment.objects.filter(response__in={key[0] for key in both}, verdict__in=protocol.judge_verdicts)
    rows = judged.values_list("response", "rubric", "rubric__key", "rubric__sample", "verdict")
    rated = [
        RatedCriterion(
            key,
            clusters[sample],
            physicians.weight,
            FAILED_BY_ANSWER[physicians.first],
            FAILED_BY_ANSWER[physicians.second],
            verdict in protocol.failing_verdicts,
        )
        for response, rubric, key, sample, verdict in rows
        if (physicians := both.get((response, rubric))) is not None
    ]
    return label_agreement(rated, minimum=minimum)


def _models(
    run: Run,
    protocol: Protocol,
    by_physicians: Mapping[tuple[int, int], PhysicianVerdict],
    clusters: Mapping[int, int],
    minimum: int,
) -> list[ModelValidation]:
    failing, decided = protocol.failing_verdicts, protocol.judge_verdicts
    judged = Judgment.objects.filter(run=run, status=Work.Status.DONE, verdict__in=decided).order_by("pk")
    columns = ("response__endpoint__name", "response", "rubric", "response__sample", "verdict", *DATA_SET_COLUMNS)
    datasets = data_sets_of(run)
    dataset_index = {(dataset.task, dataset.variant): index for index, dataset in enumerate(datasets)}
    by_model: dict[str, list[Any]] = {
        name: [] for name in run.tested.order_by("pk").values_list("endpoint__name", flat=True)
    }
    rows = judged.values_list(*columns).iterator(chunk_size=10_000)
    for name, response, rubric, sample, verdict, *task_and_variant in rows:
        index = dataset_index.get(tuple(task_and_variant), -1)
        by_model[name].append((clusters[sample], verdict in failing, by_physicians.get((response, rubric)), index))
    return [_model(name, judgments, datasets, minimum) for name, judgments in by_model.items() if judgments]


def _model(
    name: str,
    judgments: Sequence[tuple[int, bool, PhysicianVerdict | None, int]],
    datasets: Sequence[DataSet],
    minimum: int,
) -> ModelValidation:
    """`judgments`: (cluster, whether the judge failed the criterion, physicians, data set)."""
    clusters = np.array([cluster for cluster, _failed, _verdict, _index in judgments])
    judge = np.array([failed for _cluster, failed, _verdict, _index in judgments])
    verdicts = [verdict for _cluster, _failed, verdict, _index in judgments]
    dataset_index = np.array([index for _cluster, _failed, _verdict, index in judgments])
    truth = np.array([np.nan if verdict is None else _as_float(verdict.truth) for verdict in verdicts])
    weights = np.array([1.0 if verdict is None else verdict.weight for verdict in verdicts])
    decided = ~np.isnan(truth)
    first = np.array([np.nan if verdict is None else _as_float(verdict.first) for verdict in verdicts])
    second = np.array([np.nan if verdict is None else _as_float(verdict.second) for verdict in verdicts])
    both = ~np.isnan(first) & ~np.isnan(second)

    def rates(mask: Any) -> tuple[RateInterval, CorrectedRate]:
        totals = cluster_totals(clusters[mask], judge[mask], np.ones(int(mask.sum())))
        corrected = corrected_rate(clusters[mask], judge[mask], truth[mask], weights[mask], minimum=minimum)
        return rate_interval(*totals, minimum=minimum), corrected

    raw, corrected = rates(np.ones(len(judgments), dtype=np.bool_))
    return ModelValidation(
        endpoint=name,
        judge=judge_quality(clusters[decided], truth[decided], judge[decided], weights[decided], minimum=minimum),
        physicians=judge_quality(clusters[both], first[both], second[both], weights[both], minimum=minimum),
        raw=raw,
        corrected=corrected,
        datasets=tuple(
            DataSetRate(dataset.name, dataset.label, *rates(dataset_index == index))
            for index, dataset in enumerate(datasets if len(datasets) > 1 else ())
            if index in dataset_index
        ),
    )


def _as_float(answer: str) -> float:
    """1 if the criterion failed, 0 if it was met, NaN if the answer decides neither."""
    return float(FAILED_BY_ANSWER[answer]) if answer in FAILED_BY_ANSWER else float("nan")
