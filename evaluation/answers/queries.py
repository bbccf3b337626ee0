"""The answers of models and what was decided on them."""

from dataclasses import dataclass

from django.db.models import Exists, Min, OuterRef, Q, QuerySet

from evaluation.answers.search import Found, search
from evaluation.models import Judgment, Response, Run, Vote
from evaluation.protocol import Ask, Protocol
from evaluation.reports import queries as reports_queries
from evaluation.runs.queries import data_sets_of
from evaluation.runs.rows import chains
from generation.models import Facet, ReleasedRubric, ReleasedSample

SEVERITY = "severity"  # the facet
DISAGREE = "disagree"
ORDER = ("rubric_id", "response_id")  # that of the release: the models' answers to one criterion follow each other
HEAVY = ("response__text", "response__reasoning", "rubric__sample__exported", "response__sample__exported")


def judgments(
    run: Run, *, outcome: str = "", severity: str = "", judges: str = "", text: str | Found = "", **of_number: str
) -> QuerySet[Judgment]:
    """The judgments of a run that match, in release order.

    `of_number`: those behind a number of the report (`evaluation.reports.queries.judgments`). `judges`: `DISAGREE` for those of
    a panel whose votes are not all the same verdict. `text`: words that the answer or the explanation holds, or what `search`
    found for them.
    """
    found = reports_queries.judgments(run, **of_number)
    if task := next((one.task for one in data_sets_of(run) if one.name == of_number.get("dataset")), ""):
        # A task's rubrics lie together in a release: the database begins with the first.
        rubrics = ReleasedRubric.objects.filter(sample__release=run.release_id, sample__task=task)
        found = found.filter(rubric__gte=rubrics.aggregate(first=Min("pk"))["first"] or 0)
    if of_number.get("endpoint"):
        found = found.filter(response__run=run)  # as the index of responses begins
    if outcome == Response.Outcome.ANSWERED:
        found = found.filter(response__outcome=outcome)
    elif outcome:  # few: SQLite begins with them where they are a list
        found = found.filter(response__in=Response.objects.filter(run=run, outcome=outcome).values("pk"))
    if severity:
        found = found.filter(Exists(Facet.objects.filter(rubric=OuterRef("rubric"), name=SEVERITY, value=severity)))
    if judges == DISAGREE:
        voted = Vote.objects.filter(judgment=OuterRef("pk"), verdict__gt="")
        other = Vote.objects.filter(judgment=OuterRef("judgment"), verdict__gt=OuterRef("verdict"))
        found = found.filter(Exists(voted.filter(Exists(other))))
    if rows := search(run, text) if isinstance(text, str) else text:
        found = found.filter(Q(response__in=rows.responses) | Q(pk__in=rows.judgments))
    return found.order_by(*ORDER)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion of a sample, with the judgment on each of the responses (None: there is none), in their order."""

    rubric: ReleasedRubric
    judgments: tuple[Judgment | None, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """What all models of a run answered to one sample, and what was decided on each criterion."""

    sample: ReleasedSample
    responses: tuple[Response, ...]
    criteria: tuple[Criterion, ...]
    before: str  # the keys of the samples beside it in the release, '' where there is none
    after: str


def question_asked(protocol: Protocol, response: Response, seed: int) -> Ask | None:
    """What a model was asked, word for word; None where it was not, or the protocol has no such question any more."""
    try:
        return chains.questions_asked(protocol, [response], seed)[response.pk]
    except LookupError:
        return None


def side_by_side(run: Run, key: str) -> SideBySide | None:
    """All answers to one sample; None where the release has no such sample. Five queries, however many models there are."""
    samples = ReleasedSample.objects.filter(release=run.release_id)
    sample = samples.filter(key=key).first()
    if sample is None:
        return None
    named = samples.values_list("key", flat=True)
    before = named.filter(position__lt=sample.position).order_by("-position").first()
    after = named.filter(position__gt=sample.position).order_by("position").first()
    rows = Response.objects.filter(run=run, sample=sample).select_related("endpoint")
    responses = tuple(rows.order_by("variant", "endpoint__name", "repeat"))
    decided = Judgment.objects.filter(response__in=[row.pk for row in responses])
    by_place = {(row.rubric_id, row.response_id): row for row in decided}
    criteria = tuple(
        Criterion(rubric, tuple(by_place.get((rubric.pk, response.pk)) for response in responses))
        for rubric in ReleasedRubric.objects.filter(sample=sample).order_by("pk")
    )
    return SideBySide(sample, responses, criteria, before or "", after or "")


def outcomes(run: Run) -> list[tuple[str, str]]:
    """How responses end, as value and label; [] where all of a run ended alike. It reads the two ends of an index."""
    known = Response.objects.filter(run=run, outcome__gt="").values_list("outcome", flat=True)
    alike = known.order_by("outcome").first() == known.order_by("-outcome").first()
    return [] if alike else [(value, str(label)) for value, label in Response.Outcome.choices]
