"""The rows behind a report's figures on judges and costs: physicians' answers, families, calls."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db.models import Q, QuerySet, Value

from evaluation.judges.content import rubric_pk
from evaluation.judges.numbers.criteria import validated_rate
from evaluation.judges.queries import validation_of
from evaluation.judges.summary import makers
from evaluation.models import Judgment, Run, Validation, Vote
from evaluation.protocol import Protocol
from evaluation.runs.plan import plan_of
from evaluation.runs.queries import judges_of, models_of
from evaluation.runs.selecting_models import selecting_models
from generation.common.chunks import CHUNK, chunked
from generation.jobs.queries import stage_costs
from generation.models import Call, ReleasedRubric
from generation.releases.ratings import pseudonym
from review.access.visibility import counted_reviews
from review.audit import trail
from review.models import Case, ChainHead
from review.rules.case_spec import answers_from_json
from review.rules.state_machine import Phase

# Which answer a row is about: the columns of a response, by their names in the files.
ANSWER = {"model": "endpoint__name", "sample": "sample__key", "variant": "variant", "repeat": "repeat"}
ORDER = ("sample__position", "endpoint__name", "variant", "repeat")  # of answers


def run_fields(run: Run, protocol: Protocol) -> dict[str, Any]:
    """The fields of run.json on the meaning of verdicts and on who judged."""
    validation = validation_of(run)
    families = {endpoint.name: endpoint.model_family for endpoint in [*models_of(run), *judges_of(run)]}
    made_by = []
    for role, endpoint in makers(run.release):
        made_by.append({"role": role, "endpoint": endpoint.name, "family": endpoint.model_family})
    checked = None
    if validation:
        checked = {
            "seed": validation.seed,
            "created_at": validation.created_at.isoformat(),
            "by_rubric": bool(protocol.by_rubric),
            "rate": validated_rate(protocol, plan_of(run, protocol, ())).name,
        }
    return {
        "families": families,
        "makers": made_by,
        "selection": list(selecting_models(run)),
        "validation": checked,
    }


def rows_on_answers(
    rows: QuerySet[Any], to_answer: str, columns: Mapping[str, str], *order: str
) -> Iterator[dict[str, Any]]:
    """Rows with the answer that each is about and the given columns, by their names in the files.

    `to_answer`: the lookup from a row to its response. `order`: of the rows on one answer; answers
    are in the order of the release.
    """
    names = [*ANSWER, *columns]
    lookups = [*_prefixed(to_answer, ANSWER.values()), *columns.values()]
    rows = rows.order_by(*_prefixed(to_answer, ORDER), *order)
    for values in rows.values_list(*lookups).iterator(chunk_size=CHUNK):
        yield dict(zip(names, values, strict=True))


def _prefixed(path: str, names: Iterable[str]) -> list[str]:
    return [f"{path}{name}" for name in names]


def validation_rows(validation: Validation) -> Iterator[dict[str, Any]]:
    """The responses drawn for physicians."""
    columns = {"weight": "weight", "closed": "case__state"}
    for row in rows_on_answers(validation.items.all(), "response__", columns):
        yield {**row, "closed": row["closed"] == Case.State.APPROVED}


def physician_rows(validation: Validation) -> Iterator[dict[str, Any]]:
    """Physicians' answers, one row per criterion, under pseudonyms that differ between runs."""
    secret = ChainHead.objects.values_list("key", flat=True).get(pk=trail.EVENTS)
    items = validation.items.filter(case__state=Case.State.APPROVED).select_related(
        "response__sample", "response__endpoint"
    )
    item_of = {item.case_id: item for item in items.order_by(*_prefixed("response__", ORDER))}
    rows = counted_reviews().filter(case__in=item_of, phase=Phase.COMMIT).select_related("physician").order_by("pk")
    reviews: dict[int, list[Any]] = defaultdict(list)
    for review in rows:
        reviews[review.case_id].append(review)
    samples = {item.response.sample_id for item in item_of.values()}
    keys = dict(ReleasedRubric.objects.filter(sample__in=samples).values_list("pk", "key"))
    for case, item in item_of.items():
        response = item.response
        for review in sorted(reviews[case], key=lambda review: (review.role, review.pk)):
            answers = answers_from_json(review.answers).questions
            by_rubric = {rubric_pk(key): answer.value for key, answer in answers.items()}
            for pk, answer in sorted(by_rubric.items()):
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


def reply_rows(run: Run) -> Iterator[dict[str, Any]]:
    """When each reply of a judge came, and from which version of its model, in the order sent.

    A reply on all criteria of a sample names the first of them.
    """
    asked = Q(subject__startswith="judgment:") | Q(subject__startswith="vote:")
    calls = Call.objects.filter(asked, job=run, error="").order_by("pk")
    columns = ("subject", "endpoint__name", "model", "fingerprint", "started_at", "hit_of__started_at")
    of_judgment = [*_prefixed("response__", ANSWER.values()), "rubric__key"]
    for chunk in chunked(calls.values_list(*columns).iterator(chunk_size=CHUNK)):
        pks: dict[str, set[int]] = {"judgment": set(), "vote": set()}
        for subject, *_rest in chunk:
            kind, _colon, pk = subject.partition(":")
            pks[kind].add(int(pk))
        about = {}
        judgments = Judgment.objects.filter(pk__in=pks["judgment"])
        for judgment, *values in judgments.values_list("pk", Value(0), *of_judgment):
            about[f"judgment:{judgment}"] = values
        votes = Vote.objects.filter(pk__in=pks["vote"])
        for vote, *values in votes.values_list("pk", "repeat", *_prefixed("judgment__", of_judgment)):
            about[f"vote:{vote}"] = values
        for subject, judge, reported, fingerprint, read_at, paid_at in chunk:
            if subject in about:
                yield {
                    **dict(zip(("vote", *ANSWER, "rubric"), about[subject], strict=True)),
                    "judge": judge,
                    "reported_model": reported,
                    "system_fingerprint": fingerprint,
                    "replied_at": (paid_at or read_at).isoformat(),
                    "reused": paid_at is not None,
                }


def call_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Totals of the ledger by prompt and endpoint."""
    fields = ("prompt", "endpoint", "model", "calls", "hits", "failed", "tokens_in", "tokens_out")
    for stage in stage_costs(run):
        yield {**{name: getattr(stage, name) for name in fields}, "cost": str(stage.cost)}
