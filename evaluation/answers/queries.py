"""Responses of models and the judgments on them."""

from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Exists, Min, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Concat

from evaluation.answers.search import SearchResult, search
from evaluation.labels import verdict_label, verdict_state
from evaluation.models import Judgment, Response, Run, Vote
from evaluation.protocol import Ask, Protocol
from evaluation.reports import queries as reports_queries
from evaluation.runs.queries import data_set_named
from evaluation.runs.rows import chains
from generation.models import Call, Facet, ReleasedRubric, ReleasedSample
from generation.samples.queries import visible_to

SEVERITY = "severity"  # the name of the facet
DISAGREE = "disagree"
# The order of the release; all models' judgments on one criterion are adjacent.
ORDER = ("rubric_id", "response_id")
LARGE_COLUMNS = ("response__text", "response__reasoning", "rubric__sample__exported", "response__sample__exported")


def judgments(
    run: Run,
    reader: object,
    *,
    outcome: str = "",
    severity: str = "",
    judges: str = "",
    text: str | SearchResult = "",
    **report_filters: str,
) -> QuerySet[Judgment]:
    """The judgments of a run that `reader` may see and that match all filters, in release order.

    `judges`: `DISAGREE` for judgments of a panel whose votes differ. `text`: words that the answer
    or the explanation must contain, or the result of `search` for them. `report_filters`: select
    the judgments behind a number of the report (`evaluation.reports.queries.judgments`).
    """
    matches = visible_to(reader, reports_queries.judgments(run, **report_filters), "rubric__sample")
    dataset = data_set_named(run, report_filters.get("dataset", ""))
    if dataset is not None:
        # The rubrics of a task are adjacent in a release, so the database can start at the first.
        rubrics = ReleasedRubric.objects.filter(sample__release=run.release_id, sample__task=dataset.task)
        matches = matches.filter(rubric__gte=rubrics.aggregate(first=Min("pk"))["first"] or 0)
    if report_filters.get("endpoint"):
        matches = matches.filter(response__run=run)  # the leading column of the index on responses
    if outcome:  # the report counts how responses ended on samples that are not withdrawn
        matches = reports_queries.without_withdrawn(run, matches, "rubric__sample")
    if outcome == Response.Outcome.ANSWERED:
        matches = matches.filter(response__outcome=outcome)
    elif outcome:  # Few rows: with a subquery, SQLite starts from them.
        matches = matches.filter(response__in=Response.objects.filter(run=run, outcome=outcome).values("pk"))
    if severity:
        matches = matches.filter(Exists(Facet.objects.filter(rubric=OuterRef("rubric"), name=SEVERITY, value=severity)))
    if judges == DISAGREE:
        voted = Vote.objects.filter(judgment=OuterRef("pk"), verdict__gt="")
        other = Vote.objects.filter(judgment=OuterRef("judgment"), verdict__gt=OuterRef("verdict"))
        matches = matches.filter(Exists(voted.filter(Exists(other))))
    if isinstance(text, str):
        result = search(run, text, reader)
    else:
        result = text
    if result:
        matches = matches.filter(Q(response__in=result.responses) | Q(pk__in=result.judgments))
    return matches.order_by(*ORDER)


def with_tokens(rows: QuerySet[Judgment]) -> QuerySet[Judgment]:
    """Judgments with `tokens_in` of the call that was made for each, and `tokens_cached` of these.

    Null without a call of its own: it has votes, was judged together with others or by code, or its
    reply had been paid for before.
    """
    subject = Concat(Value("judgment:"), Cast(OuterRef("pk"), CharField()))
    paid = Call.objects.filter(subject=subject, error="", hit_of=None).order_by("-pk")
    return rows.annotate(
        tokens_in=Subquery(paid.values("tokens_in")[:1]), tokens_cached=Subquery(paid.values("tokens_cached")[:1])
    )


def with_verdict(row: Judgment, protocol: Protocol) -> dict[str, Any]:
    """A judgment with the label of its verdict and the state of its badge."""
    label, state = verdict_label(row.verdict, protocol), verdict_state(row.verdict, protocol)
    return {"judgment": row, "label": label, "state": state}


@dataclass(frozen=True, slots=True)
class SideBySide:
    """All models' responses to one sample, and each criterion with the judgment on each response.

    `before`, `after`: keys of the neighbouring samples in the release, '' at its ends.
    """

    sample: ReleasedSample
    responses: tuple[Response, ...]
    criteria: tuple[tuple[ReleasedRubric, tuple[Judgment | None, ...]], ...]
    before: str
    after: str


def question_asked(protocol: Protocol, response: Response, seed: int) -> Ask | None:
    """The exact question behind a response.

    None if it was not asked, or if the protocol no longer has that question.
    """
    try:
        return chains.chained_questions(protocol, [response], seed)[response.pk]
    except LookupError:
        return None


def side_by_side(run: Run, key: str, reader: object) -> SideBySide | None:
    """All answers to one sample; None if the release has no such sample that `reader` may see.

    Takes five database queries for any number of models.
    """
    samples = visible_to(reader, ReleasedSample.objects.filter(release=run.release_id))
    sample = samples.filter(key=key).first()
    if sample is None:
        return None
    keys = samples.values_list("key", flat=True)
    before = keys.filter(position__lt=sample.position).order_by("-position").first()
    after = keys.filter(position__gt=sample.position).order_by("position").first()
    rows = Response.objects.filter(run=run, sample=sample).select_related("endpoint")
    responses = tuple(rows.order_by("variant", "endpoint__name", "repeat"))
    judgments = Judgment.objects.filter(response__in=responses)
    by_cell = {(row.rubric_id, row.response_id): row for row in judgments}
    criteria = []
    for rubric in ReleasedRubric.objects.filter(sample=sample).order_by("pk"):
        of_rubric = [by_cell.get((rubric.pk, response.pk)) for response in responses]
        criteria.append((rubric, tuple(of_rubric)))
    return SideBySide(sample, responses, tuple(criteria), before or "", after or "")


def outcomes(run: Run) -> list[tuple[str, str]]:
    """All outcomes as (value, label); [] if all responses of the run have the same outcome.

    Reads only the two ends of an index.
    """
    known = Response.objects.filter(run=run, outcome__gt="").values_list("outcome", flat=True)
    all_equal = known.order_by("outcome").first() == known.order_by("-outcome").first()
    if all_equal:
        return []
    return [(value, str(label)) for value, label in Response.Outcome.choices]
