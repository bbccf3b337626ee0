"""The API of batches."""

from typing import Any

from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.views import APIView

from generation import tasks
from generation.batches import estimate, launch, queries
from generation.batches.kind import BATCHES
from generation.batches.serializers import BatchSettingsSerializer, LaunchBatchSerializer, batch_settings
from generation.jobs import queries as jobs_queries
from generation.jobs.api import register_answer
from generation.jobs.queries import StageCost
from generation.jobs.serializers import (
    LAUNCH_KEY,
    JobSerializer,
    LaunchEstimateSerializer,
    LiveSerializer,
    ModelAskedSerializer,
    ProgressSerializer,
    TotalsSerializer,
    job_with_values,
    launch_key,
)
from generation.models import Batch, Import
from generation.samples import funnel
from generation.samples.serializers import FunnelReportSerializer
from generation.sources import queries as sources_queries
from generation.sources import services as sources_services
from generation.sources.api import ImportSerializer
from review.common.actions import Body, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import BlockSerializer, DataclassSerializer, ModelRowSerializer, WithValues
from review.common.waking import wake_after_commit
from review.rules.case_spec import blocks_to_json
from review.rules.permissions import Can


class CancelImport(GenericAPIView[Import]):
    """Cancel an import. Records already added stay. 409 if it is over."""

    can = Can.PRODUCE
    queryset = sources_queries.imports()

    @answers(ImportSerializer)
    def post(self, request: Request, pk: int) -> Any:
        return sources_services.cancel_import(self.get_object().pk)


class BatchSerializer(ModelRowSerializer):
    """One launch of a recipe over the records of a source."""

    row = Batch
    shows = (
        "id benchmark source.name status prompts prompts_sha256 preset comparison created_by.username created_at "
        "finished_at"
    )

    prompts_sha256 = serializers.CharField(help_text="The digest of a team's own prompts; empty for released ones.")


class CountedBatchSerializer(BatchSerializer):
    """A batch in the list, with counts of its drafts and samples."""

    drafts_count = serializers.IntegerField()
    ended_count = serializers.IntegerField()
    failed_count = serializers.IntegerField()
    samples_count = serializers.IntegerField()
    approved_count = serializers.IntegerField()


class WholeBatchSerializer(JobSerializer, BatchSerializer):
    """A batch with its models, settings (of its preset, at launch), plan (scaled to it), checks, budget and
    progress.

    `draw`: how its records were drawn: mode, field, seed, where, available and drawn records, and per
    stratum both. `plan`: name, targets by task and subtype, clusters by task and cluster. `changed`:
    the preset values that the launch overrode. `roles`: the endpoint of each role of the recipe;
    several with commas. `one_model`: a role, the role that should use a different model, and the
    model that plays both.
    """

    draw = serializers.DictField()
    plan = serializers.DictField()
    settings = serializers.DictField()
    changed = serializers.ListField(child=serializers.CharField())
    checks = serializers.ListField(child=serializers.CharField())
    roles = serializers.DictField(child=serializers.CharField())
    models = ModelAskedSerializer(many=True)
    one_model = serializers.ListField(child=serializers.ListField(child=serializers.CharField()))
    progress = ProgressSerializer()
    totals = TotalsSerializer()
    live = LiveSerializer()


def _whole_batch(batch: Batch) -> WithValues:
    return job_with_values(
        BATCHES,
        batch,
        roles=queries.endpoints_by_role(batch),
        models=queries.models_asked(batch),
        one_model=queries.shared_roles(batch),
    )


register_answer(BATCHES.name, WholeBatchSerializer, _whole_batch)


class Batches(ListAPIView[Batch]):
    """Batches, newest first."""

    can = Can.PRODUCE
    serializer_class = CountedBatchSerializer
    pagination_class = NewestFirst
    queryset = queries.batches()

    @answers(WholeBatchSerializer, body=LaunchBatchSerializer, status=202, parameters=[LAUNCH_KEY])
    def post(self, request: Request, body: Body) -> Any:
        """Launch a recipe over records that have no draft of this benchmark yet.

        Workers do the rest.
        """
        settings = batch_settings(body)
        batch = launch.launch_batch(settings, actor=signed_in_account(request), key=launch_key(request))
        wake_after_commit(tasks.work_on_job, batch.pk)
        return _whole_batch(BATCHES.get_with_status(batch.pk))


class EstimateBatch(APIView):
    """Estimate a batch before launch: calls, tokens and money, with the basis of each line."""

    can = Can.PRODUCE

    @answers(LaunchEstimateSerializer, body=BatchSettingsSerializer)
    def post(self, request: Request, body: Body) -> Any:
        return estimate.estimate_batch(batch_settings(body))


class AnalysisSerializer(serializers.Serializer[Any]):
    """An analysis of a batch's drafts, block by block."""

    blocks = BlockSerializer(many=True)


class BatchAnalysis(GenericAPIView[Batch]):
    """The recipe's analysis of all drafts of a batch. 404 if the recipe has none."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @answers(AnalysisSerializer)
    def get(self, request: Request, pk: int) -> Any:
        analysis: Any = {"blocks": blocks_to_json(queries.analysis(BATCHES.get(pk)))}
        return analysis


class BatchFunnel(GenericAPIView[Batch]):
    """From the drawn records of a batch to approved samples: where the others were lost, and why."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @answers(FunnelReportSerializer)
    def get(self, request: Request, pk: int) -> Any:
        batch = BATCHES.get(pk)
        return funnel.funnel(batch.benchmark, [pk])


class StageCostSerializer(DataclassSerializer):
    """Calls of a batch to one endpoint with one prompt: HTTP attempts, and cached replies (`hits`), paid for earlier."""

    mirrors = StageCost


class BatchCosts(GenericAPIView[Batch]):
    """The calls of a batch by stage (prompt and endpoint), in the order in which they were first made."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()
    pagination_class = None

    @answers(StageCostSerializer, many=True)
    def get(self, request: Request, pk: int) -> Any:
        return jobs_queries.stage_costs(BATCHES.get(pk))
