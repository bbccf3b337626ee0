"""The API of runs."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response as Answer
from rest_framework.views import APIView

from evaluation.interchange.power import CellPower, release_power
from evaluation.models import MAX_SEED, Run
from evaluation.runs import estimate as runs_estimate
from evaluation.runs import leaving, queries, services
from evaluation.runs.kind import RUNS
from evaluation.runs.plan import MAX_MINIMUM
from evaluation.runs.settings import RunSettings
from evaluation.statistics.intervals import MINIMUM
from generation import tasks
from generation.endpoints import queries as endpoints_queries
from generation.jobs.api import register_answer
from generation.jobs.serializers import (
    JOB_FIELDS,
    LAUNCH_KEY,
    ConfirmSerializer,
    JobSerializer,
    LaunchEstimateSerializer,
    LikeSerializer,
    LiveSerializer,
    TotalsSerializer,
    job_values,
    launch_key,
)
from generation.models import Endpoint, ProviderBatch
from generation.releases import queries as releases_queries
from review.common.api import NamedRowField, NewestFirst, ShortListField, validated_body
from review.common.decorators import signed_in_account
from review.common.serializers import DataclassSerializer
from review.common.waking import wake_after_commit
from review.rules.permissions import Can


class WorkCountsSerializer(serializers.Serializer[Any]):
    """Rows of work by status. A failed judgment is unjudged."""

    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField()
    total = serializers.IntegerField()


class RunProgressSerializer(serializers.Serializer[Any]):
    """The progress of a run. Judgments appear as responses arrive, up to `rubrics_total`."""

    percent = serializers.IntegerField()
    responses = WorkCountsSerializer()
    judgments = WorkCountsSerializer()
    rubrics_total = serializers.IntegerField()
    calls = serializers.IntegerField(source="responses.calls")
    votes = WorkCountsSerializer(help_text="Votes of a panel; its judgments are decided from them.")
    cost = serializers.DecimalField(
        source="responses.cost", max_digits=24, decimal_places=8, help_text="In the currency of the prices."
    )


class PlanSerializer(serializers.Serializer[Any]):
    """What the report should answer, fixed before the run."""

    preset = serializers.CharField(
        required=False, help_text="The counting rules; empty if the benchmark has only one set."
    )
    metric = serializers.CharField(required=False)
    comparisons = serializers.ListField(
        required=False, child=serializers.ListField(child=serializers.CharField()), help_text="Pairs of models."
    )
    outcomes = serializers.DictField(
        required=False,
        child=serializers.CharField(),
        help_text="How each outcome of a response or failure of a judge counts: `judged`, `excluded`, or a verdict.",
    )
    minimum = serializers.IntegerField(required=False, help_text="Samples below which no interval is given.")


class RunSerializer(serializers.ModelSerializer[Any]):
    """One evaluation of endpoints on a release, decided by a judge, or by code if the benchmark needs no judge."""

    release = serializers.CharField(source="release.name")
    release_version = serializers.IntegerField(source="release.version")
    judge = serializers.CharField(source="judge.name", allow_null=True, default=None)
    further_judges = serializers.SerializerMethodField()
    answers = serializers.IntegerField(source="answers_each", help_text="Answers of each model to a question.")
    judgments = serializers.IntegerField(source="judgments_each", help_text="Judgments of each judge on a criterion.")
    datasets = serializers.ListField(
        source="variants", child=serializers.CharField(), help_text="The data sets asked; empty: all."
    )
    plan = PlanSerializer(
        help_text="The analysis plan, frozen at launch; empty for runs launched before plans were introduced."
    )
    endpoints = serializers.SlugRelatedField[Endpoint](slug_field="name", many=True, read_only=True)
    prompts = serializers.CharField(
        allow_blank=True, help_text="A team's own prompt set, NAME@VERSION; empty: the benchmark's prompts."
    )
    prompts_sha256 = serializers.CharField(allow_blank=True)
    created_by = serializers.CharField(source="created_by.username", allow_null=True, default=None)

    class Meta:
        model = Run
        fields = [
            "id",
            "release",
            "release_version",
            "endpoints",
            "judge",
            "further_judges",
            "panel",
            "answers",
            "judgments",
            "judge_temperature",
            "judging",
            "seed",
            "datasets",
            "transport",
            "sampling",
            "prompts",
            "prompts_sha256",
            "plan",
            "origin",
            "study",
            "status",
            "created_by",
            "created_at",
            "finished_at",
        ]

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_further_judges(self, run: Run | dict[str, Any]) -> list[str]:
        """The judges after the first, in the order of the panel."""
        return list(run["further_judges"]) if isinstance(run, dict) else queries.further_judges(run)


class ProviderBatchSerializer(serializers.ModelSerializer[ProviderBatch]):
    """Requests of the run sent to an endpoint in one file.

    Refused and missing ones are asked live.
    """

    endpoint = serializers.CharField(source="endpoint.name")
    state = serializers.CharField(help_text="prepared, submitted, collected or dropped.")
    lines = serializers.IntegerField(source="lines_count")
    said = serializers.CharField(help_text="The status as the endpoint reports it.")

    class Meta:
        model = ProviderBatch
        fields = [
            "endpoint",
            "state",
            "said",
            "lines",
            "answered",
            "refused",
            "missing",
            "submitted_at",
            "expires_at",
            "ended_at",
            "error",
            "detail",
        ]


class WholeRunSerializer(JobSerializer, RunSerializer):
    """A run with its budget and progress.

    `simulated`: a simulated model contributed to its numbers.
    """

    simulated = serializers.BooleanField()
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="Models that the run goes on, or ended, without."
    )
    progress = RunProgressSerializer()
    provider_batches = ProviderBatchSerializer(many=True)
    totals = TotalsSerializer()
    live = LiveSerializer()

    class Meta(RunSerializer.Meta):
        fields = [
            *RunSerializer.Meta.fields,
            "simulated",
            "left_out",
            *JOB_FIELDS,
            "progress",
            "provider_batches",
            "totals",
            "live",
        ]


class RunAskSerializer(LikeSerializer):
    """The settings of a run.

    Release and endpoints are required without `like`. With it, other endpoints drop the planned
    comparisons, other judges the further judges and the judge's temperature, and another preset
    metric and outcomes.
    """

    kind = RUNS
    needed = ("release", "endpoints")

    release = serializers.RegexField(
        r"^[-\w]+(@\d{1,9})?\Z",
        max_length=110,
        required=False,
        help_text="NAME for the latest version, or NAME@VERSION.",
    )
    endpoints = ShortListField(
        child=NamedRowField(queryset=Endpoint.objects.all()), allow_empty=False, max_length=100, required=False
    )
    judge = NamedRowField(
        queryset=Endpoint.objects.all(),
        allow_null=True,
        default=None,
        help_text="Required, except for a benchmark whose answers are read by code, which takes none.",
    )
    further_judges = ShortListField(
        child=NamedRowField(queryset=Endpoint.objects.all()),
        default=list,
        max_length=queries.MAX_JUDGES,
        help_text="Judges after the first: a panel.",
    )
    prompts = serializers.CharField(
        max_length=64, default="", allow_blank=True, help_text="A team's own prompt set: NAME, or NAME@VERSION."
    )
    panel = serializers.ChoiceField(
        choices=Run.Panel.choices,
        default=Run.Panel.MAJORITY,
        help_text="How several votes become one verdict. escalation takes three judges, one of another model family.",
    )
    answers = serializers.IntegerField(
        min_value=1, max_value=queries.MAX_REPEATS, default=1, help_text="Answers of each model to a question."
    )
    judgments = serializers.IntegerField(
        min_value=1, max_value=queries.MAX_REPEATS, default=1, help_text="Judgments of each judge on a criterion."
    )
    datasets = serializers.ListField(
        child=serializers.CharField(max_length=100),
        source="variants",
        default=list,
        max_length=100,
        help_text="The names of the data sets to ask; default: all.",
    )
    seed = serializers.IntegerField(
        min_value=0, max_value=MAX_SEED, default=0, help_text="Seed of the benchmark's random choices."
    )
    judge_temperature = serializers.FloatField(
        min_value=0, max_value=2, allow_null=True, default=None, help_text="Default: the published setting."
    )
    transport = serializers.ChoiceField(
        choices=Run.Transport.choices,
        default=Run.Transport.LIVE,
        help_text="batch: use provider batches where an endpoint offers them, at a lower price and within a day each.",
    )
    judging = serializers.ChoiceField(choices=Run.Judging.choices, default=Run.Judging.PER_RUBRIC)
    sampling = serializers.ChoiceField(
        choices=Run.Sampling.choices,
        default=Run.Sampling.PROTOCOL,
        help_text="endpoint: ask models with their endpoints' settings only, not with the benchmark's.",
    )
    preset = serializers.CharField(
        max_length=40, default="", help_text="How the benchmark counts failures; default: its first preset, if any."
    )
    metric = serializers.CharField(
        max_length=40, default="", help_text="Primary metric of the plan; default: the preset's, or the first."
    )
    comparisons = serializers.ListField(
        child=serializers.CharField(max_length=210),
        default=list,
        max_length=1000,
        help_text="Planned comparisons as MODEL:MODEL; default: every pair.",
    )
    outcomes = serializers.ListField(
        child=serializers.CharField(max_length=40),
        default=list,
        max_length=20,
        help_text="How outcomes of responses are counted, as OUTCOME=RULE; a rule is `judged`, `excluded` or a verdict."
        " `unparsed` and `judge_failed`: how failures of the judge are counted.",
    )
    minimum = serializers.IntegerField(
        min_value=MINIMUM, max_value=MAX_MINIMUM, default=MINIMUM, help_text="Samples below which no interval is given."
    )
    fresh = serializers.BooleanField(default=False, help_text="Ignore cached replies.")


class EvaluateSerializer(ConfirmSerializer, RunAskSerializer):
    """A run to launch, with a budget or `confirmed`."""


class PowerSerializer(DataclassSerializer):
    """The expected precision of a data set for each model; null if it is too small for an interval."""

    mirrors = CellPower


class RunEstimateSerializer(LaunchEstimateSerializer):
    """The estimate of a run, with the interval half-widths and detectable differences to expect (`power`)."""

    power = PowerSerializer(many=True)


def _settings(body: dict[str, Any]) -> RunSettings:
    """The settings in a request body. Raises UnknownRelease."""
    return RunSettings(**{**body, "release": releases_queries.release(body["release"])})


def whole_run(run: Run) -> dict[str, Any]:
    """The values of `WholeRunSerializer`."""
    renamed = ("release_version", "datasets", "further_judges", "answers", "judgments")
    fields = [name for name in RunSerializer.Meta.fields if name not in renamed]
    return {
        **{name: getattr(run, name) for name in fields},
        "further_judges": queries.further_judges(run),
        "answers_each": run.answers_each,
        "judgments_each": run.judgments_each,
        "variants": run.variants,
        **job_values(run),
        "simulated": queries.is_simulated(run),
        "left_out": [each.endpoint.name for each in queries.left_out(run)],
        "progress": RUNS.progress(run),
        "provider_batches": queries.provider_batches_of(run),
        "totals": run,
        "live": RUNS.live(run),
    }


register_answer(RUNS.name, WholeRunSerializer, whole_run)


class LeaveOutSerializer(serializers.Serializer[Any]):
    """Why the run goes on without the model."""

    because = serializers.CharField(default="", allow_blank=True, max_length=500)


class LeaveOut(APIView):
    """Leave a model out of a run that goes on without it."""

    can = Can.MEASURE

    @extend_schema(request=LeaveOutSerializer, responses=WholeRunSerializer)
    def post(self, request: Request, pk: int, name: str) -> Answer:
        """Its open responses are dropped; answers that it gave are judged. 409 if the run has ended, or no other model
        would remain."""
        run, body = RUNS.get(pk), validated_body(LeaveOutSerializer, request)
        leaving.leave_out(run.pk, endpoints_queries.endpoint(name), because=body["because"])
        wake_after_commit(tasks.work_on_job, run.pk)
        return Answer(WholeRunSerializer(whole_run(RUNS.get_with_status(run.pk))).data)


class AddAgain(APIView):
    """Add a model again that was left out of a run."""

    can = Can.MEASURE

    @extend_schema(request=None, responses={202: WholeRunSerializer})
    def post(self, request: Request, pk: int, name: str) -> Answer:
        """It is asked the questions that it was not asked. 409 if the run was cancelled."""
        run = RUNS.get(pk)
        leaving.add_again(run.pk, endpoints_queries.endpoint(name))
        wake_after_commit(tasks.work_on_job, run.pk)
        return Answer(WholeRunSerializer(whole_run(RUNS.get_with_status(run.pk))).data, status=202)


class Runs(ListAPIView[Run]):
    """Runs, newest first."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.MEASURE}
    serializer_class = RunSerializer
    pagination_class = NewestFirst
    queryset = queries.runs()

    @extend_schema(parameters=[LAUNCH_KEY], request=EvaluateSerializer, responses={202: WholeRunSerializer})
    def post(self, request: Request) -> Answer:
        """Launch a run on a release: a judge decides each rubric, or code reads the answers.

        Workers do the rest.
        """
        settings = _settings(validated_body(EvaluateSerializer, request))
        run = services.launch_run(settings, actor=signed_in_account(request), key=launch_key(request))
        wake_after_commit(tasks.work_on_job, run.pk)
        return Answer(WholeRunSerializer(whole_run(RUNS.get_with_status(run.pk))).data, status=202)


class EstimateRun(APIView):
    """Estimate a run before launch: calls, tokens and money, with the basis of each line."""

    can = Can.MEASURE

    @extend_schema(request=RunAskSerializer, responses=RunEstimateSerializer)
    def post(self, request: Request) -> Answer:
        settings = _settings(validated_body(RunAskSerializer, request, beside=EvaluateSerializer))
        estimate = runs_estimate.estimate_run(settings)
        power = release_power(
            settings.release,
            len(settings.tested),
            datasets=queries.data_sets_asked(settings),
            facets=False,
            minimum=settings.minimum,
        )
        return Answer({**LaunchEstimateSerializer(estimate).data, "power": [asdict(cell) for cell in power]})
