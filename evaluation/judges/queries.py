"""The judge of a run against physicians: how often it is right on each model, and what the rates are without its errors."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation import panel, registry
from evaluation.judges.content import MET, NOT_MET, rubric_of
from evaluation.models import Judgment, Run, Validation, ValidationItem
from evaluation.protocol import DataSet, Protocol
from evaluation.runs.plan import plan_of
from evaluation.runs.queries import data_sets_of
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.correction import CorrectedRate, corrected_rate
from evaluation.statistics.intervals import RateInterval, rate_interval
from evaluation.statistics.label_agreement import LabelAgreement, Rated, label_agreement
from evaluation.statistics.validation import JudgeQuality, judge_quality
from generation.models import Release, ReleasedSample
from generation.models.work import Work
from review.access.visibility import counted_reviews
from review.models import Case
from review.rules.case_spec import answers_from_json
from review.rules.state_machine import ADJUDICATORS, Phase, Role

PLACE = ("response__sample__task", "response__variant")  # by which a data set is known
DECIDED = {NOT_MET: True, MET: False}  # whether the criterion failed


@dataclass(frozen=True, slots=True)
class Checked:
    """One criterion that physicians looked at: what they decided, what each of the first two said ('' none), and the judge."""

    response: int
    rubric: int
    weight: float
    truth: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class DataSetRate:
    """A model's rate on one data set: by the judge, and as the physicians who looked into this data set would have found it."""

    dataset: str
    label: str
    raw: RateInterval
    corrected: CorrectedRate


@dataclass(frozen=True, slots=True)
class ModelValidation:
    """The judge on one model's answers. `physicians`: the second physician against the first, measured alike.

    `raw`: the rate by the judge; `corrected`: as physicians would have found it; `datasets`: both on each data set, where there
    are several.
    """

    endpoint: str
    judge: JudgeQuality
    physicians: JudgeQuality
    raw: RateInterval
    corrected: CorrectedRate
    datasets: tuple[DataSetRate, ...]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """`drawn` responses, `closed` of them decided; `third`: of those, where a third physician was asked. `not_drawn`: models
    added since."""

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
    """The validation of a run's judge; None where none was begun."""
    return Validation.objects.filter(run=run).select_related("created_by").first()


def source_clusters(release: Release) -> dict[int, int]:
    """Sample -> what it belongs to: its source record where several samples come from that, else the sample alone."""
    of_sample = ("pk", "version__sample__record", "version__sample")
    rows = list(ReleasedSample.objects.filter(release=release).order_by().values_list(*of_sample))
    made: dict[int, set[int]] = defaultdict(set)
    for _pk, record, sample in rows:
        made[record].add(sample)
    return {pk: -record if len(made[record]) > 1 else pk for pk, record, _sample in rows}


def models_not_drawn(validation: Validation) -> list[str]:
    """The models of the run of which no response was drawn: those that were added since."""
    drawn = validation.items.values("response__endpoint")
    left = validation.run.tested.exclude(endpoint__in=drawn).order_by("pk")
    return list(left.values_list("endpoint__name", flat=True))


def validation_report(run: Run) -> ValidationReport | None:
    """What physicians found so far; None where nobody asked them."""
    validation = validation_of(run)
    if validation is None:
        return None
    protocol = registry.protocol(run.release.benchmark)
    minimum, clusters = plan_of(run, protocol, ()).minimum, source_clusters(run.release)
    items = list(ValidationItem.objects.filter(validation=validation).select_related("case", "response"))
    closed = {item.case_id: item for item in items if item.case.state == Case.State.APPROVED}
    reviews = counted_reviews().filter(case__in=closed, phase=Phase.COMMIT).select_related("physician")
    said: dict[int, dict[str, Mapping[str, str]]] = defaultdict(dict)
    simulated, third = False, set()
    for review in reviews:
        answers = answers_from_json(review.answers).questions
        said[review.case_id][review.role] = {key: answer.value for key, answer in answers.items()}
        simulated |= review.physician.simulated
        if review.role in ADJUDICATORS:
            third.add(review.case_id)
    checked = {
        (each.response, each.rubric): each for pk, item in closed.items() for each in _checked(item, said.get(pk, {}))
    }
    return ValidationReport(
        validation,
        len(items),
        len(closed),
        len(third),
        simulated,
        tuple(_models(run, protocol, checked, clusters, minimum)),
        _labels(protocol, checked, clusters, minimum),
        tuple(models_not_drawn(validation)),
    )


def _checked(item: ValidationItem, said: Mapping[str, Mapping[str, str]]) -> list[Checked]:
    first, second = said.get(Role.PRIMARY, {}), said.get(Role.SECONDARY, {})
    others = [answers for role, answers in said.items() if role in ADJUDICATORS]
    return [
        Checked(
            response=item.response_id,
            rubric=rubric_of(key),
            weight=item.weight,
            truth=panel.majority([answers.get(key, "") for answers in (first, second, *others)]),
            first=value,
            second=second.get(key, ""),
        )
        for key, value in first.items()
    ]


def _labels(
    protocol: Protocol, checked: Mapping[tuple[int, int], Checked], clusters: Mapping[int, int], minimum: int
) -> tuple[LabelAgreement, ...]:
    """By key of the rubric, where the protocol judges some in a way of their own; both physicians must have decided."""
    both = {key: each for key, each in checked.items() if each.first in DECIDED and each.second in DECIDED}
    if not protocol.by_rubric or not both:
        return ()
    judged = Judgment.objects.filter(response__in={key[0] for key in both}, verdict__in=protocol.judge_verdicts)
    rows = judged.values_list("response", "rubric", "rubric__key", "rubric__sample", "verdict")
    rated = [
        Rated(
            key,
            clusters[sample],
            each.weight,
            DECIDED[each.first],
            DECIDED[each.second],
            verdict in protocol.failing_verdicts,
        )
        for response, rubric, key, sample, verdict in rows
        if (each := both.get((response, rubric))) is not None
    ]
    return label_agreement(rated, minimum=minimum)


def _models(
    run: Run,
    protocol: Protocol,
    checked: Mapping[tuple[int, int], Checked],
    clusters: Mapping[int, int],
    minimum: int,
) -> list[ModelValidation]:
    against, within = protocol.failing_verdicts, protocol.judge_verdicts
    judged = Judgment.objects.filter(run=run, status=Work.Status.DONE, verdict__in=within).order_by("pk")
    columns = ("response__endpoint__name", "response", "rubric", "response__sample", "verdict", *PLACE)
    asked = data_sets_of(run)
    dataset_at = {(one.task, one.variant): at for at, one in enumerate(asked)}
    by_model: dict[str, list[Any]] = {
        name: [] for name in run.tested.order_by("pk").values_list("endpoint__name", flat=True)
    }
    for name, response, rubric, sample, verdict, *place in judged.values_list(*columns).iterator(chunk_size=10_000):
        at = dataset_at.get(tuple(place), -1)
        by_model[name].append((clusters[sample], verdict in against, checked.get((response, rubric)), at))
    return [_model(name, rows, asked, minimum) for name, rows in by_model.items() if rows]


def _model(
    name: str, rows: Sequence[tuple[int, bool, Checked | None, int]], asked: Sequence[DataSet], minimum: int
) -> ModelValidation:
    clusters = np.array([cluster for cluster, _failed, _found, _at in rows])
    judge = np.array([failed for _cluster, failed, _found, _at in rows])
    found = [each for _cluster, _failed, each, _at in rows]
    dataset = np.array([at for _cluster, _failed, _found, at in rows])
    truth = np.array([np.nan if each is None else _value(each.truth) for each in found])
    weights = np.array([1.0 if each is None else each.weight for each in found])
    seen = ~np.isnan(truth)
    first = np.array([np.nan if each is None else _value(each.first) for each in found])
    second = np.array([np.nan if each is None else _value(each.second) for each in found])
    both = ~np.isnan(first) & ~np.isnan(second)

    def rates(some: Any) -> tuple[RateInterval, CorrectedRate]:
        totals = cluster_totals(clusters[some], judge[some], np.ones(int(some.sum())))
        corrected = corrected_rate(clusters[some], judge[some], truth[some], weights[some], minimum=minimum)
        return rate_interval(*totals, minimum=minimum), corrected

    raw, corrected = rates(np.ones(len(rows), dtype=np.bool_))
    several = asked if len(asked) > 1 else ()
    return ModelValidation(
        endpoint=name,
        judge=judge_quality(clusters[seen], truth[seen], judge[seen], weights[seen], minimum=minimum),
        physicians=judge_quality(clusters[both], first[both], second[both], weights[both], minimum=minimum),
        raw=raw,
        corrected=corrected,
        datasets=tuple(
            DataSetRate(one.name, one.label, *rates(dataset == at)) for at, one in enumerate(several) if at in dataset
        ),
    )


def _value(answer: str) -> float:
    return float(DECIDED[answer]) if answer in DECIDED else float("nan")
