"""The API of batches."""

from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

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
from generation.models import Batch
from generation.samples import funnel
from generation.samples.serializers import FunnelReportSerializer
from review.common.actions import Body, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import BlockSerializer, DataclassSerializer, ModelRowSerializer, WithValues
from review.rules.case_spec import blocks_to_json
from review.rules.permissions import Can


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

    typed = {int: "drafts_count ended_count failed_count samples_count approved_count"}


class WholeBatchSerializer(JobSerializer, BatchSerializer):
    """A batch with its models, settings (of its preset, at launch), plan (scaled to it), checks, budget and
    progress.

    `draw`: how its records were drawn: mode, field, seed, where, available and drawn records, and per
    stratum both. `plan`: name, targets by task and subtype, clusters by task and cluster. `changed`:
    the preset values that the launch overrode. `roles`: the endpoint of each role of the recipe;
    several with commas. `one_model`: a role, the role that should use a different model, and the
    model that plays both.
    """

    typed = {
        dict[str, Any]: "draw plan settings",
        list[str]: "changed checks",
        dict[str, str]: "roles",
        list[list[str]]: "one_model",
    }
    models = ModelAskedSerializer(many=True)
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


class AnalysisSerializer(serializers.Serializer[Any]):
    """An analysis of a batch's drafts, block by block."""

    blocks = BlockSerializer(many=True)


class StageCostSerializer(DataclassSerializer):
    """Calls of a batch to one endpoint with one prompt: HTTP attempts, and cached replies (`hits`), paid for earlier."""

    mirrors = StageCost


class BatchViewSet(ListModelMixin, GenericViewSet[Batch]):
    """Batches, newest first."""

    can = Can.PRODUCE
    serializer_class = CountedBatchSerializer
    pagination_class = NewestFirst
    queryset = queries.batches()
    plural = "batches"

    @answers(WholeBatchSerializer, body=LaunchBatchSerializer, status=202, parameters=[LAUNCH_KEY])
    def create(self, request: Request, body: Body) -> Any:
        """Launch a recipe over records that have no draft of this benchmark yet.

        Workers do the rest.
        """
        batch = launch.launch_batch(batch_settings(body), actor=signed_in_account(request), key=launch_key(request))
        return _whole_batch(BATCHES.get_with_status(batch.pk))

    @answers(LaunchEstimateSerializer, body=BatchSettingsSerializer)
    @action(detail=False, methods=["post"])
    def estimate(self, request: Request, body: Body) -> Any:
        """Estimate a batch before launch: calls, tokens and money, with the basis of each line."""
        return estimate.estimate_batch(batch_settings(body))

    @answers(AnalysisSerializer)
    @action(detail=True)
    def analysis(self, request: Request, pk: int) -> Any:
        """The recipe's analysis of all drafts of a batch. 404 if the recipe has none."""
        return {"blocks": blocks_to_json(queries.analysis(BATCHES.get(pk)))}

    @answers(FunnelReportSerializer)
    @action(detail=True)
    def funnel(self, request: Request, pk: int) -> Any:
        """From the drawn records of a batch to approved samples: where the others were lost, and why."""
        return funnel.funnel(BATCHES.get(pk).benchmark, [pk])

    @answers(StageCostSerializer, many=True)
    @action(detail=True, pagination_class=None)
    def costs(self, request: Request, pk: int) -> Any:
        """The calls of a batch by stage (prompt and endpoint), in the order in which they were first made."""
        return jobs_queries.stage_costs(BATCHES.get(pk))
