"""The API of runs."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from evaluation.interchange.power import CellPower, expected_power
from evaluation.judges import costs
from evaluation.models import Run
from evaluation.runs import estimate as runs_estimate
from evaluation.runs import leaving, queries, services
from evaluation.runs.kind import RUNS
from evaluation.runs.queries import RunProgress
from evaluation.runs.serializers import LaunchRunSerializer, RunSettingsSerializer, run_settings
from generation.endpoints import queries as endpoints_queries
from generation.endpoints.queries import UsageTotals
from generation.jobs.api import register_answer
from generation.jobs.estimate import Estimate
from generation.jobs.live_status import LiveStatus
from generation.jobs.serializers import (
    JOB,
    LAUNCH_KEY,
    job_with_values,
    launch_key,
)
from generation.models import Endpoint, ProviderBatch
from review.common.actions import Body, acts, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, RowSerializer, WithValues, extended, related, rows_of, serializer_of
from review.rules import limits
from review.rules.permissions import Can


class WorkCountsSerializer(serializers.Serializer[Any]):
    """Rows of work by status. A failed judgment is unjudged."""

    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    done = serializers.IntegerField()
    failed = serializers.IntegerField()
    total = serializers.IntegerField()


RunProgressSerializer = extended(
    "RunProgress",
    serializer_of(RunProgress),
    """The progress of a run. Judgments appear as responses arrive, up to `rubrics_total`.

    `votes`: of a panel; its judgments are decided from them. `policies`: fixed texts, and
    what is asked or judged again.
    """,
    responses=WorkCountsSerializer(),
    judgments=WorkCountsSerializer(),
    votes=WorkCountsSerializer(),
    policies=WorkCountsSerializer(),
)


class PlanSerializer(serializers.Serializer[Any]):
    """What the report should answer, fixed before the run.

    `preset`: the counting rules; empty if the benchmark has only one set. `dataset`: the primary
    data set; empty if all data sets are one family of comparisons. `comparisons`: pairs of models.
    `outcomes`: how each outcome of a response or failure of a judge counts: `judged`, `excluded`, or
    a verdict. `minimum`: samples below which no interval is given. `thresholds`: what contradicts the
    claims of the benchmark.
    """

    preset = serializers.CharField(required=False)
    metric = serializers.CharField(required=False)
    dataset = serializers.CharField(required=False)
    comparisons = serializers.ListField(child=serializers.ListField(child=serializers.CharField()), required=False)
    outcomes = serializers.DictField(child=serializers.CharField(), required=False)
    minimum = serializers.IntegerField(required=False)
    thresholds = serializers.DictField(child=serializers.FloatField(), required=False)


class RunSerializer(RowSerializer):
    """One evaluation of endpoints on a release, decided by a judge, or by code if the benchmark needs no judge.

    `answers`: of each model to a question. `judgments`: of each judge on a criterion. `datasets`:
    those asked; empty: all. `plan`: the analysis plan, frozen at launch; empty for runs launched
    before plans were introduced. `prompts`: a team's own prompt set, NAME@VERSION; empty: the
    benchmark's.
    """

    release = serializers.CharField(source="release.name")
    release_version = serializers.IntegerField(source="release.version")
    judge = related("judge.name")
    answers = serializers.IntegerField(source="answers_each")
    judgments = serializers.IntegerField(source="judgments_each")
    created_by = related("created_by.username")

    further_judges = serializers.SerializerMethodField()
    datasets = serializers.ListField(source="variants", child=serializers.CharField())
    plan = PlanSerializer()
    endpoints = serializers.SlugRelatedField[Endpoint](slug_field="name", many=True, read_only=True)
    prompts = serializers.CharField(allow_blank=True)
    prompts_sha256 = serializers.CharField(allow_blank=True)

    class Meta:
        model = Run
        fields = [
            "id", "panel", "judge_temperature", "judging", "seed", "transport", "sampling", "origin", "study",
            "status", "created_at", "finished_at",
        ]  # fmt: skip

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_further_judges(self, run: Run) -> list[str]:
        """The judges after the first, in the order of the panel."""
        return queries.further_judges(run)


ProviderBatchSerializer = rows_of(
    "ProviderBatch",
    ProviderBatch,
    "answered refused missing submitted_at expires_at ended_at error",
    """Requests of the run sent to an endpoint in one file.

    Refused and missing ones are asked live. `state`: prepared, submitted, collected or dropped.
    `remote_status`: as the endpoint reports it.
    """,
    endpoint=serializers.CharField(source="endpoint.name"),
    lines=serializers.IntegerField(source="lines_count"),
    state=serializers.CharField(),
    remote_status=serializers.CharField(),
    detail=serializers.CharField(source="words"),
)


WholeRunSerializer = extended(
    "WholeRun",
    RunSerializer,
    """A run with its budget and progress.

    `simulated`: a simulated model contributed to its numbers. `left_out`: models and judges that the
    run goes on, or ended, without.
    """,
    **JOB,
    simulated=serializers.BooleanField(),
    left_out=serializers.ListField(child=serializers.CharField()),
    progress=RunProgressSerializer(),
    provider_batches=ProviderBatchSerializer(many=True),
    totals=serializer_of(UsageTotals)(),
    live=serializer_of(LiveStatus)(),
)


RunEstimateSerializer = extended(
    "RunEstimate",
    serializer_of(Estimate),
    """The estimate of a run, with the interval half-widths and detectable differences to expect (`power`).

    `judging`: the ways of judging beside each other, if the benchmark allows both.
    """,
    power=serializer_of(CellPower)(many=True),
    judging=serializer_of(costs.JudgingCost)(many=True),
)


def run_with_values(pk: int, reader: object) -> WithValues:
    """A run with the values of `WholeRunSerializer`, as `reader` may see it."""
    run = RUNS.get_with_status(pk, reader)
    return job_with_values(
        RUNS,
        run,
        simulated=queries.is_simulated(run),
        left_out=[each.endpoint.name for each in queries.left_out(run)],
        provider_batches=RUNS.provider_batches(run, reader),
    )


register_answer(RUNS.name, WholeRunSerializer, run_with_values)


ROLE_BODY: Fields = {
    "role": serializers.ChoiceField(
        choices=[queries.TARGET, queries.JUDGE],
        default="",
        allow_blank=True,
        help_text="Which is meant of an endpoint that has two.",
    )
}
LEAVE_OUT_BODY: Fields = {
    **ROLE_BODY,
    "because": serializers.CharField(
        default="", allow_blank=True, max_length=limits.BECAUSE, help_text="Why the run goes on without the model."
    ),
}


class RunViewSet(ListModelMixin, GenericViewSet[Run]):
    """Runs, newest first."""

    can = {"GET": Can.READ_RESULTS, "POST": Can.MEASURE}
    serializer_class = RunSerializer
    pagination_class = NewestFirst
    queryset = queries.runs()

    @answers(WholeRunSerializer, body=LaunchRunSerializer, status=202, parameters=[LAUNCH_KEY])
    def create(self, request: Request, body: Body) -> Any:
        """Launch a run on a release: a judge decides each rubric, or code reads the answers.

        Workers do the rest.
        """
        run = services.launch_run(run_settings(body), actor=signed_in_account(request), key=launch_key(request))
        return run_with_values(run.pk, request.user)

    @answers(RunEstimateSerializer, body=RunSettingsSerializer)
    @action(detail=False, methods=["post"])
    def estimate(self, request: Request, body: Body) -> Any:
        """Estimate a run before launch: calls, tokens and money, with the basis of each line."""
        settings = run_settings(body)
        judging = costs.judging_costs(settings)
        return WithValues(runs_estimate.estimate_run(settings), power=expected_power(settings), judging=judging)

    @acts(WholeRunSerializer, LEAVE_OUT_BODY, url_path="models/<slug:name>/leave-out", url_name="leave-out")
    def leave_out(self, request: Request, body: Body, pk: int, name: str) -> Any:
        """Its open rows are dropped; answers that it gave are judged, and its votes count.

        409 if the run has ended, or no other model or judge would remain.
        """
        leaving.leave_out(RUNS.get(pk).pk, endpoints_queries.endpoint(name), **body)
        return run_with_values(pk, request.user)

    @acts(WholeRunSerializer, ROLE_BODY, status=202, url_path="models/<slug:name>/add-again", url_name="add-again")
    def add_again(self, request: Request, body: Body, pk: int, name: str) -> Any:
        """It is asked what it was not asked; criteria decided without a judge are open again.

        409 if the run was cancelled.
        """
        leaving.add_again(RUNS.get(pk).pk, endpoints_queries.endpoint(name), **body)
        return run_with_values(pk, request.user)
