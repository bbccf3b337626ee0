"""The API of reports, responses and judgments."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response as Answer
from rest_framework.viewsets import GenericViewSet

from evaluation import registry
from evaluation.answers import queries as answers_queries
from evaluation.answers.search import MOST_FOUND, MOST_LETTERS
from evaluation.judges.api import JudgesSerializer
from evaluation.models import Judgment, Response, Run
from evaluation.reports import formats, queries
from evaluation.reports.documents import as_markdown
from evaluation.runs.api import PlanSerializer
from evaluation.runs.kind import RUNS
from evaluation.statistics.intervals import Method
from generation.jobs.serializers import ModelAskedSerializer
from generation.models import Sample
from generation.models.work import Work
from review.common.api import OldestFirst, checked_query, page_of
from review.rules.permissions import Can


class MeasuredSerializer(serializers.Serializer[Any]):
    """A rate with its numerator, denominator, unjudged count and 95 % interval over samples."""

    rate = serializers.FloatField(allow_null=True)
    numerator = serializers.IntegerField(help_text="A sum of weights; for F1, twice the true positives.")
    denominator = serializers.IntegerField()
    unjudged = serializers.IntegerField(help_text="How many judgments the rate leaves out.")
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    method = serializers.ChoiceField(
        choices=[method.value for method in Method],
        help_text="How the interval was made. `too-few`: there is none, as too few samples were counted.",
    )
    clusters = serializers.IntegerField(help_text="Samples counted, or the source records above them.")
    n = serializers.IntegerField(help_text="Rubrics or samples counted, without weights.")
    best = serializers.FloatField(
        allow_null=True, help_text="The rate if all that is excluded had counted for the model."
    )
    worst = serializers.FloatField(allow_null=True, help_text="The rate if all of it had counted against the model.")


class CellRateSerializer(MeasuredSerializer):
    """The same, with the rate as `value` too."""

    value = serializers.FloatField(allow_null=True)


class RowSerializer(MeasuredSerializer):
    """An endpoint on a data set: its first rate, all rates by name, and the verdict counts behind them."""

    endpoint = serializers.CharField()
    dataset = serializers.CharField()
    value = serializers.CharField(required=False, help_text="Value of the facet; absent in the overall row.")
    label = serializers.CharField(required=False)  # type: ignore[assignment]
    rates = serializers.DictField(child=CellRateSerializer())
    verdicts = serializers.DictField(child=serializers.IntegerField())


class RateSerializer(serializers.Serializer[Any]):
    """How a rate is counted."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    rule = serializers.CharField()
    interval = serializers.ChoiceField(choices=["wilson", "bootstrap"])
    unit = serializers.ChoiceField(choices=["criterion", "sample"], help_text="What is counted.")
    arm = serializers.ChoiceField(choices=["trap", "control"], help_text="On which samples.")
    weights = serializers.DictField(child=serializers.IntegerField(), help_text="How rubrics weigh; empty: all alike.")
    planned = serializers.BooleanField(
        required=False, help_text="The primary metric of the plan; others are exploratory."
    )


class OfDatasetSerializer(serializers.Serializer[Any]):
    """A rate on one data set."""

    dataset = serializers.CharField()
    value = serializers.FloatField(allow_null=True)


class ContrastSerializer(serializers.Serializer[Any]):
    """A rate of one endpoint on two data sets that the benchmark contrasts: the first minus the second."""

    endpoint = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    rate = serializers.CharField()
    first = OfDatasetSerializer()
    second = OfDatasetSerializer()
    difference = serializers.FloatField(allow_null=True)


class DatasetSerializer(serializers.Serializer[Any]):
    """A data set of the release, or their pool."""

    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]


class FrozenPlanSerializer(PlanSerializer):
    """The analysis plan. `frozen`: false for a run launched before there were plans."""

    frozen = serializers.BooleanField()


class SamplesSerializer(serializers.Serializer[Any]):
    """Samples counted, of those asked; a sample counts once in each data set."""

    counted = serializers.IntegerField()
    asked = serializers.IntegerField()


class OutcomeSerializer(serializers.Serializer[Any]):
    """How many responses of a model on a data set ended in one way, and how their rubrics are counted."""

    endpoint = serializers.CharField()
    dataset = serializers.CharField()
    kind = serializers.CharField(
        help_text="judged, refused, empty, filtered, cut_off, failed, unparsed, judge_failed, pending"
    )
    responses = serializers.IntegerField(allow_null=True)
    criteria = serializers.IntegerField()
    counted = serializers.IntegerField(help_text="Rubrics with a verdict.")
    rule = serializers.CharField(help_text="judged, excluded, or the verdict that is counted.")


class ModelsComparedSerializer(serializers.Serializer[Any]):
    """Two models on the samples that both answered: the first's rate less the second's.

    `p_adjusted`: by Holm over the pairs of a data set; in a breakdown by Benjamini-Hochberg over its cells."""

    value = serializers.CharField(required=False, help_text="Value of the facet, in a breakdown.")
    dataset = serializers.CharField()
    rate = serializers.CharField()
    first = serializers.CharField()
    second = serializers.CharField()
    first_rate = serializers.FloatField(allow_null=True)
    second_rate = serializers.FloatField(allow_null=True)
    difference = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    p = serializers.FloatField(allow_null=True)
    p_adjusted = serializers.FloatField(allow_null=True)
    clusters = serializers.IntegerField()
    n = serializers.IntegerField()
    odds_ratio = serializers.FloatField(allow_null=True)
    cohens_h = serializers.FloatField(allow_null=True)
    only_first = serializers.IntegerField(allow_null=True, help_text="Samples that only the first model failed.")
    only_second = serializers.IntegerField(allow_null=True)
    p_samples = serializers.FloatField(allow_null=True, help_text="McNemar's exact test on these.")
    planned = serializers.BooleanField()


class PlaceSerializer(serializers.Serializer[Any]):
    """A place, 1 the best, and the places that the data do not rule out with 95 % confidence."""

    place = serializers.IntegerField()
    best = serializers.IntegerField()
    worst = serializers.IntegerField()


class RankSerializer(PlaceSerializer):
    """The place of a model by one rate on one data set."""

    dataset = serializers.CharField()
    rate = serializers.CharField()
    endpoint = serializers.CharField()


class ReportQuery(serializers.Serializer[Any]):
    """How a run is counted."""

    common = serializers.BooleanField(default=False, help_text="Only the samples for which every model has a verdict.")
    weights = serializers.CharField(
        default="", max_length=500, help_text="Weights of harm, as VALUE:NUMBER joined by commas."
    )
    all_ranked = serializers.BooleanField(
        default=False, help_text="Rank models by whose failures samples were chosen, too."
    )


class ReportSerializer(JudgesSerializer):
    """All rates of a run so far. `notice` is present if simulated models took part."""

    run = serializers.IntegerField()
    release = serializers.CharField()
    release_version = serializers.IntegerField()
    release_sha256 = serializers.CharField()
    benchmark = serializers.CharField()
    judge = serializers.CharField(allow_null=True)
    judge_model = serializers.CharField(allow_null=True)
    judge_temperature = serializers.FloatField(allow_null=True)
    sampling = serializers.ChoiceField(choices=Run.Sampling.choices)
    models = ModelAskedSerializer(many=True)
    seed = serializers.IntegerField()
    finished = serializers.BooleanField()
    simulated = serializers.BooleanField()
    simulated_reviewers = serializers.BooleanField(help_text="Simulated physicians reviewed samples of the release.")
    notice = serializers.CharField(required=False)
    rate = RateSerializer(help_text="The first entry of `rates`.")
    rates = RateSerializer(many=True)
    datasets = DatasetSerializer(many=True)
    endpoints = serializers.ListField(child=serializers.CharField())
    responses_failed = serializers.DictField(child=serializers.IntegerField())
    overall = RowSerializer(many=True)
    facets = serializers.DictField(child=RowSerializer(many=True))
    without = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="By facet: judgments without a value, which are in none of its rows.",
    )
    plan = FrozenPlanSerializer()
    common_samples = serializers.BooleanField()
    samples = SamplesSerializer()
    outcomes = OutcomeSerializer(many=True)
    comparisons = ModelsComparedSerializer(many=True)
    facet_comparisons = serializers.DictField(child=ModelsComparedSerializer(many=True))
    ranks = RankSerializer(many=True)
    contrasts = ContrastSerializer(many=True)
    cost = serializers.DecimalField(max_digits=24, decimal_places=8)


class ResponseSerializer(serializers.ModelSerializer[Response]):
    """A model's response to one sample."""

    endpoint = serializers.CharField(source="endpoint.name")
    sample = serializers.CharField(source="sample.key")

    class Meta:
        model = Response
        fields = [
            *("id", "endpoint", "sample", "variant", "repeat", "about", "status", "outcome"),
            *("text", "reasoning", "error", "detail"),
        ]


class ResponseQuery(serializers.Serializer[Any]):
    """Which responses."""

    endpoint = serializers.SlugField(required=False)
    status = serializers.ChoiceField(choices=Work.Status.choices, required=False)
    outcome = serializers.ChoiceField(choices=Response.Outcome.choices, required=False)


class JudgmentSerializer(serializers.ModelSerializer[Judgment]):
    """The verdict on one rubric for one response. An empty verdict means unjudged, and `error` says why."""

    endpoint = serializers.CharField(source="response.endpoint.name")
    sample = serializers.CharField(source="rubric.sample.key")
    dataset = serializers.CharField(source="rubric.sample.task", help_text="The task of the sample.")
    variant = serializers.CharField(
        source="response.variant", help_text="Variant of the question; most benchmarks have one."
    )
    rubric = serializers.CharField(source="rubric.key")
    criterion = serializers.CharField(source="rubric.criterion")
    traps = serializers.ListField(source="rubric.traps", child=serializers.CharField())

    class Meta:
        model = Judgment
        fields = [
            "id",
            "response",
            "endpoint",
            "sample",
            "dataset",
            "variant",
            "rubric",
            "criterion",
            "traps",
            "status",
            "verdict",
            "explanation",
            "error",
            "detail",
        ]


class JudgmentQuery(serializers.Serializer[Any]):
    """Which judgments to list: those behind one number of the report."""

    endpoint = serializers.SlugField(required=False)
    dataset = serializers.CharField(required=False, max_length=40)
    facet = serializers.CharField(required=False, max_length=40, help_text="Used with `value`: cluster, subtype, ...")
    value = serializers.CharField(required=False, max_length=100)
    verdict = serializers.CharField(
        required=False, max_length=200, help_text="Verdicts, comma-separated, or 'unjudged'."
    )
    arm = serializers.ChoiceField(choices=Sample.Arm.choices, required=False, help_text="Trap or control samples.")
    outcome = serializers.ChoiceField(
        choices=Response.Outcome.choices, required=False, help_text="How the response ended."
    )
    severity = serializers.CharField(required=False, max_length=40, help_text="Severity of harm of the rubric.")
    judges = serializers.ChoiceField(
        choices=[answers_queries.DISAGREE],
        required=False,
        help_text="Judgments of a panel whose votes are not all the same verdict.",
    )
    text = serializers.CharField(
        required=False,
        max_length=MOST_LETTERS,
        help_text="Words that the response or the explanation holds, all of them; of each at most the first"
        f" {MOST_FOUND:,} are searched.",
    )


class ReportViewSet(GenericViewSet[Run]):
    """What a run has measured."""

    can = Can.READ_RESULTS
    queryset = Run.objects.all()

    @extend_schema(parameters=[ReportQuery], responses=ReportSerializer)
    @action(detail=True)
    def report(self, request: Request, pk: int) -> Answer:
        """The rates of a run, how sure they are, and how its models compare."""
        return Answer(ReportSerializer(formats.as_dict(self._report(request, pk))).data)

    @extend_schema(parameters=[ReportQuery], responses={(200, "text/markdown"): OpenApiTypes.STR})
    def markdown(self, request: Request, pk: int) -> HttpResponse:
        """The report as tables in Markdown."""
        report = as_markdown(self._report(request, pk))
        return HttpResponse(report, content_type="text/markdown; charset=utf-8")

    def _report(self, request: Request, pk: int) -> queries.Report:
        run = RUNS.get(pk)
        options = queries.options_from(registry.protocol(run.release.benchmark), **checked_query(ReportQuery, request))
        return queries.report(run, options)

    @extend_schema(parameters=[ResponseQuery], responses=ResponseSerializer(many=True))
    @action(detail=True, serializer_class=ResponseSerializer, pagination_class=OldestFirst)
    def responses(self, request: Request, pk: int) -> Answer:
        """The models' responses."""
        wanted = checked_query(ResponseQuery, request)
        if "endpoint" in wanted:
            wanted["endpoint__name"] = wanted.pop("endpoint")
        responses = Response.objects.select_related("endpoint", "sample").defer("sample__exported")
        return page_of(self, responses.filter(run=self.get_object(), **wanted))

    @extend_schema(parameters=[JudgmentQuery], responses=JudgmentSerializer(many=True))
    @action(detail=True, serializer_class=JudgmentSerializer, pagination_class=OldestFirst)
    def judgments(self, request: Request, pk: int) -> Answer:
        """The judgments of a run, rubric by rubric, with explanations."""
        found = answers_queries.judgments(RUNS.get(pk), **checked_query(JudgmentQuery, request))
        return page_of(self, found.defer(*answers_queries.HEAVY))
