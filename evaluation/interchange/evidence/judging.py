"""The rows behind what a report says of judges and costs: what physicians answered, families of models, calls."""

from collections.abc import Iterator
from typing import Any

from evaluation.judges.content import rubric_pk
from evaluation.judges.families import makers
from evaluation.judges.queries import validation_of
from evaluation.models import Run, Validation
from evaluation.protocol import Protocol
from evaluation.runs.queries import judges_of
from evaluation.runs.selection import selecting_models
from generation.jobs.queries import stage_costs
from generation.models import ReleasedRubric
from generation.releases.ratings import pseudonym
from review.access.visibility import counted_reviews
from review.audit import trail
from review.models import Case, ChainHead
from review.rules.case_spec import answers_from_json
from review.rules.state_machine import Phase


def about(run: Run, protocol: Protocol) -> dict[str, Any]:
    """What run.json says of who judged, and of what verdicts mean."""
    validation = validation_of(run)
    tested = [row.endpoint for row in run.tested.select_related("endpoint").order_by("pk")]
    return {
        "verdicts": {
            "known": list(protocol.known_verdicts),
            "judged": sorted(protocol.judge_verdicts),
            "against": sorted(protocol.failing_verdicts),
            "first_rate": sorted(protocol.rates[0].scope_verdicts),
        },
        "families": {each.name: each.model_family for each in [*tested, *judges_of(run)]},
        "makers": [
            {"role": role, "endpoint": each.name, "family": each.model_family} for role, each in makers(run.release)
        ],
        "selection": list(selecting_models(run)),
        "validation": validation
        and {
            "seed": validation.seed,
            "created_at": validation.created_at.isoformat(),
            "by_rubric": bool(protocol.by_rubric),
        },
    }


def drawn(validation: Validation, order: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The responses that physicians were to judge. `order`: of responses."""
    items = validation.items.order_by(*(f"response__{name}" for name in order))
    columns = ("endpoint__name", "sample__key", "variant", "repeat")
    rows = items.values_list(*(f"response__{name}" for name in columns), "weight", "case__state")
    for model, sample, variant, repeat, weight, state in rows:
        about_it = {"model": model, "sample": sample, "variant": variant, "repeat": repeat}
        yield {**about_it, "weight": weight, "closed": state == Case.State.APPROVED}


def physicians(validation: Validation, order: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """What each physician answered, one row a criterion, under a pseudonym that is another in every run."""
    secret = ChainHead.objects.values_list("key", flat=True).get(pk=trail.EVENTS)
    items = validation.items.filter(case__state=Case.State.APPROVED).select_related(
        "response__sample", "response__endpoint"
    )
    of_case = {item.case_id: item for item in items.order_by(*(f"response__{name}" for name in order))}
    rows = counted_reviews().filter(case__in=of_case, phase=Phase.COMMIT).select_related("physician").order_by("pk")
    reviews: dict[int, list[Any]] = {case: [] for case in of_case}
    for review in rows:
        reviews[review.case_id].append(review)
    samples = {item.response.sample_id for item in of_case.values()}
    keys = dict(ReleasedRubric.objects.filter(sample__in=samples).values_list("pk", "key"))
    for case, item in of_case.items():
        response = item.response
        for review in sorted(reviews[case], key=lambda each: (each.role, each.pk)):
            given = answers_from_json(review.answers).questions
            for pk, answer in sorted((rubric_pk(key), answer.value) for key, answer in given.items()):
                yield {
                    "model": response.endpoint.name,
                    "sample": response.sample.key,
                    "variant": response.variant,
                    "repeat": response.repeat,
                    "rubric": keys[pk],
                    "physician": pseudonym(secret, f"run {validation.run_id}", review.physician_id),
                    "role": review.role,
                    "answer": answer,
                    "simulated": review.physician.simulated,
                }


def calls(run: Run) -> Iterator[dict[str, Any]]:
    """What the ledger says of the calls, by prompt and endpoint."""
    for each in stage_costs(run):
        plain = ("prompt", "endpoint", "model", "calls", "hits", "failed", "tokens_in", "tokens_out")
        yield {**{name: getattr(each, name) for name in plain}, "cost": str(each.cost)}
