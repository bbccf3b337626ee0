"""The API of reports, responses and judgments."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response as Answer
from rest_framework.viewsets import GenericViewSet

from evaluation import registry
from evaluation.answers import queries as answers_queries
from evaluation.answers.search import MAX_LETTERS, MAX_MATCHES
from evaluation.judges.api import JudgesSerializer
from evaluation.models import Judgment, Response, Run
from evaluation.numbers.changes import Bottleneck, Change
from evaluation.numbers.comparing import Ranking
from evaluation.numbers.counting import OutcomeCount
from evaluation.numbers.coverage import Coverage
from evaluation.numbers.held_out import HeldOutGap
from evaluation.numbers.values import SamplesCounted
from evaluation.protocol import ScoreRule
from evaluation.reports import formats, queries, services
from evaluation.reports.documents import as_markdown
from evaluation.reports.headlines import ReportAnswer
from evaluation.reports.queries import Oddity, Unread
from evaluation.reports.serializers import (
    AverageSerializer,
    ContrastSerializer,
    DatasetSerializer,
    ErrataSerializer,
    FrozenPlanSerializer,
    ModelsComparedSerializer,
    RateRowSerializer,
    RateSerializer,
    ScoreRowSerializer,
)
from evaluation.runs.kind import RUNS
from evaluation.runs.queries import LeftOut
from generation.jobs.queries import ModelAsked
from generation.models import Sample
from generation.models.work import Work
from generation.samples.queries import visible_to
from review.common.actions import Body, answers
from review.common.api import OldestFirst
from review.common.serializers import Fields, rows_of, serializer_of
from review.rules.permissions import Can

# How a run is counted.
REPORT_QUERY: Fields = {
    "common": serializers.BooleanField(
        default=False, help_text="Only the samples for which every model has a verdict."
    ),
    "weights": serializers.CharField(
        default="", max_length=500, help_text="Weights of harm, as VALUE:NUMBER joined by commas."
    ),
    "all_ranked": serializers.BooleanField(
        default=False, help_text="Also rank models whose failures were used to select the samples."
    ),
}


class ReportSerializer(JudgesSerializer):
    """All rates of a run so far. `notice` is present if simulated models took part.

    `prompts`: a team's own prompt set; empty: the benchmark's. `simulated_reviewers`: simulated
    physicians reviewed samples of the release. `rate`: the first of `rates`. `without`: by facet,
    judgments without a value, which are in none of its rows. `held_out`: empty unless the release
    holds samples out. `score_rules`: of scores computed in addition to verdicts. `unread`: verdicts
    that could not be read; votes of a panel. `estimated`: calls of which the cost is an upper
    estimate. `undecided_reports`: samples that are reported as wrong, without a decision; they
    count.
    """

    finished = serializers.BooleanField()
    simulated = serializers.BooleanField()
    simulated_reviewers = serializers.BooleanField()
    common_samples = serializers.BooleanField()
    endpoints = serializers.ListField(child=serializers.CharField())
    responses_failed = serializers.DictField(child=serializers.IntegerField())
    without = serializers.DictField(child=serializers.IntegerField())
    estimated = serializers.IntegerField()
    undecided_reports = serializers.IntegerField()

    run = serializers.IntegerField()
    release = serializers.CharField()
    release_version = serializers.IntegerField()
    release_sha256 = serializers.CharField()
    benchmark = serializers.CharField()
    judge = serializers.CharField(allow_null=True)
    judge_model = serializers.CharField(allow_null=True)
    judge_temperature = serializers.FloatField(allow_null=True)
    prompts = serializers.CharField()
    prompts_sha256 = serializers.CharField()
    seed = serializers.IntegerField()
    sampling = serializers.ChoiceField(choices=Run.Sampling.choices)
    answer = serializer_of(ReportAnswer)()
    models = serializer_of(ModelAsked)(many=True)
    left_out = serializer_of(LeftOut)(many=True)
    notice = serializers.CharField(required=False)
    rate = RateSerializer()
    rates = RateSerializer(many=True)
    datasets = DatasetSerializer(many=True)
    overall = RateRowSerializer(many=True)
    facets = serializers.DictField(child=RateRowSerializer(many=True))
    plan = FrozenPlanSerializer()
    samples = serializer_of(SamplesCounted)()
    coverage = serializer_of(Coverage)(many=True)
    errata = ErrataSerializer()
    cluster_unit = serializers.CharField(help_text="What shares one is a cluster of intervals and comparisons.")
    outcomes = serializer_of(OutcomeCount)(many=True)
    comparisons = ModelsComparedSerializer(many=True)
    facet_comparisons = serializers.DictField(child=ModelsComparedSerializer(many=True))
    ranks = serializer_of(Ranking)(many=True)
    contrasts = ContrastSerializer(many=True)
    changes = serializer_of(Change)(many=True)
    bottlenecks = serializer_of(Bottleneck)(many=True)
    held_out = serializer_of(HeldOutGap)(many=True)
    averages = AverageSerializer(many=True)
    score_rules = serializer_of(ScoreRule)(many=True)
    scores = ScoreRowSerializer(many=True)
    score_facets = serializers.DictField(child=ScoreRowSerializer(many=True))
    oddities = serializer_of(Oddity)(many=True)
    unread = serializer_of(Unread)()
    cost = serializers.DecimalField(max_digits=24, decimal_places=8)


ResponseSerializer = rows_of(
    "Response",
    Response,
    "id variant repeat about status outcome text reasoning like_reasoning error detail",
    "A model's response to one sample.",
    endpoint=serializers.CharField(source="endpoint.name"),
    sample=serializers.CharField(source="sample.key"),
)

RESPONSE_QUERY: Fields = {
    "endpoint": serializers.SlugField(required=False),
    "status": serializers.ChoiceField(choices=Work.Status.choices, required=False),
    "outcome": serializers.ChoiceField(choices=Response.Outcome.choices, required=False),
}

JudgmentSerializer = rows_of(
    "Judgment",
    Judgment,
    "id response status verdict explanation error detail",
    """The verdict on one rubric for one response.

    An empty verdict means unjudged, and `error` says why.
    """,
    endpoint=serializers.CharField(source="response.endpoint.name"),
    sample=serializers.CharField(source="rubric.sample.key"),
    rubric=serializers.CharField(source="rubric.key"),
    criterion=serializers.CharField(source="rubric.criterion"),
    dataset=serializers.CharField(source="rubric.sample.task", help_text="The task of the sample."),
    variant=serializers.CharField(
        source="response.variant", help_text="Variant of the question; most benchmarks have one."
    ),
    traps=serializers.ListField(source="rubric.traps", child=serializers.CharField()),
    tokens_in=serializers.IntegerField(
        allow_null=True, help_text="Input tokens of the judge's call; null without a call of its own."
    ),
    tokens_cached=serializers.IntegerField(allow_null=True, help_text="Of these, read from the endpoint's cache."),
)

JUDGMENT_QUERY: Fields = {
    "endpoint": serializers.SlugField(required=False),
    "dataset": serializers.CharField(required=False, max_length=40),
    "facet": serializers.CharField(required=False, max_length=40, help_text="Used with `value`: cluster, subtype, ..."),
    "value": serializers.CharField(required=False, max_length=100),
    "verdict": serializers.CharField(
        required=False, max_length=200, help_text="Verdicts, comma-separated, or 'unjudged'."
    ),
    "arm": serializers.ChoiceField(choices=Sample.Arm.choices, required=False, help_text="Trap or control samples."),
    "outcome": serializers.ChoiceField(
        choices=Response.Outcome.choices, required=False, help_text="How the response ended."
    ),
    "severity": serializers.CharField(required=False, max_length=40, help_text="Severity of harm of the rubric."),
    "judges": serializers.ChoiceField(
        choices=[answers_queries.DISAGREE],
        required=False,
        help_text="Judgments of a panel whose votes are not all the same verdict.",
    ),
    "text": serializers.CharField(
        required=False,
        max_length=MAX_LETTERS,
        help_text="Words that the response or the explanation must contain, all of them; of either, at most the first"
        f" {MAX_MATCHES:,} are searched.",
    ),
}


def _report(pk: int, query: Body) -> queries.Report:
    run = RUNS.get(pk)
    return services.shown_report(run, queries.parse_options(registry.protocol(run.release.benchmark), **query))


class ReportViewSet(GenericViewSet[Run]):
    """What a run has measured."""

    can = Can.READ_RESULTS
    queryset = Run.objects.all()

    @answers(ReportSerializer, query=REPORT_QUERY)
    @action(detail=True)
    def report(self, request: Request, query: Body, pk: int) -> Answer:
        """The rates of a run, how sure they are, and how its models compare."""
        return Answer(formats.as_dict(_report(pk, query)))

    @answers(query=REPORT_QUERY, responses={(200, "text/markdown"): OpenApiTypes.STR})
    def markdown(self, request: Request, query: Body, pk: int) -> HttpResponse:
        """The report as tables in Markdown."""
        return HttpResponse(as_markdown(_report(pk, query)), content_type="text/markdown; charset=utf-8")

    @answers(ResponseSerializer, query=RESPONSE_QUERY, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def responses(self, request: Request, query: Body, pk: int) -> Any:
        """The models' responses."""
        if "endpoint" in query:
            query["endpoint__name"] = query.pop("endpoint")
        responses = Response.objects.select_related("endpoint", "sample").defer("sample__exported")
        rows = responses.filter(run=self.get_object(), **query)
        return visible_to(request.user, rows, "sample")

    @answers(JudgmentSerializer, query=JUDGMENT_QUERY, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def judgments(self, request: Request, query: Body, pk: int) -> Any:
        """The judgments of a run, rubric by rubric, with explanations."""
        found = answers_queries.judgments(RUNS.get(pk), request.user, **query)
        found = answers_queries.with_tokens(found)
        return found.defer(*answers_queries.LARGE_COLUMNS)
