"""Validation of a run's judge: its accuracy by physicians' verdicts, and corrected rates."""

from collections import defaultdict
from collections.abc import Mapping

from evaluation import registry
from evaluation.judges.content import rubric_pk
from evaluation.judges.numbers import validation as numbers
from evaluation.judges.numbers.criteria import JudgedCriteria, judged_criteria
from evaluation.judges.numbers.validation import PhysicianVerdict, ValidationReport, physician_verdict
from evaluation.models import Run, Validation, ValidationItem
from evaluation.runs.plan import plan_of
from evaluation.runs.queries import data_sets_of
from evaluation.runs.verdicts import run_frame
from evaluation.statistics.label_agreement import LabelAgreement
from generation.models import ReleasedRubric
from review.access.visibility import counted_reviews
from review.models import Case
from review.rules.case_spec import answers_from_json
from review.rules.state_machine import ADJUDICATORS, Phase, Role


def validation_of(run: Run) -> Validation | None:
    """The validation of a run's judge; None if there is none."""
    return Validation.objects.filter(run=run).select_related("created_by").first()


def models_not_drawn(validation: Validation) -> list[str]:
    """The models of the run without a drawn response, because they were added after the draw."""
    drawn = validation.items.values("response__endpoint")
    not_drawn = validation.run.tested.exclude(endpoint__in=drawn).order_by("pk")
    return list(not_drawn.values_list("endpoint__name", flat=True))


def criteria_of(run: Run) -> JudgedCriteria:
    """The judgments of a run that physicians can check."""
    protocol = registry.protocol(run.release.benchmark)
    return judged_criteria(run_frame(run).current, protocol, plan_of(run, protocol, ()))


def validation_report(run: Run) -> ValidationReport | None:
    """The results of the validation of a run so far; None if there is no validation."""
    validation = validation_of(run)
    if validation is None:
        return None
    judged = criteria_of(run)
    plan = plan_of(run, judged.protocol, tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True)))
    drawn = ValidationItem.objects.filter(validation=validation).select_related("case", "response")
    # Drawn, too, may be responses to samples withdrawn since, or marked as void.
    items = [item for item in drawn if item.response_id in judged.responses]
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
    by_physicians = {}
    for pk, item in closed.items():
        for verdict in _physician_verdicts(item, answers_of.get(pk, {})):
            by_physicians[verdict.response, verdict.rubric] = verdict
    labels: tuple[LabelAgreement, ...] = ()
    if judged.protocol.by_rubric:
        keys = dict(ReleasedRubric.objects.filter(sample__release=run.release).values_list("pk", "key"))
        labels = numbers.labels(judged, by_physicians, keys, plan.minimum)
    models, comparisons = numbers.models_and_pairs(judged, data_sets_of(run), by_physicians, plan)
    return ValidationReport(
        rate=judged.rate,
        drawn=len(items),
        closed=len(closed),
        third=len(third),
        simulated=simulated,
        seed=validation.seed,
        created_at=validation.created_at,
        models=models,
        labels=labels,
        not_drawn=tuple(models_not_drawn(validation)),
        comparisons=comparisons,
    )


def _physician_verdicts(item: ValidationItem, answers_of: Mapping[str, Mapping[str, str]]) -> list[PhysicianVerdict]:
    first, second = answers_of.get(Role.PRIMARY, {}), answers_of.get(Role.SECONDARY, {})
    others = [answers for role, answers in answers_of.items() if role in ADJUDICATORS]
    verdicts = []
    for key, value in first.items():
        third = [answers.get(key, "") for answers in others]
        verdicts.append(
            physician_verdict(item.response_id, rubric_pk(key), item.weight, value, second.get(key, ""), third)
        )
    return verdicts
