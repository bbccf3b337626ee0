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
from generation.endpoints.queries import UsageTotals
from generation.jobs import queries as jobs_queries
from generation.jobs.api import register_answer
from generation.jobs.estimate import Estimate
from generation.jobs.live_status import LiveStatus, Progress
from generation.jobs.queries import ModelAsked, StageCost
from generation.jobs.serializers import (
    JOB,
    LAUNCH_KEY,
    job_with_values,
    launch_key,
)
from generation.models import Batch
from generation.samples import funnel
from generation.samples.funnel import FunnelReport
from review.common.actions import Body, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import BlockSerializer, WithValues, extended, related, rows_of, serializer_of
from review.rules.case_spec import blocks_to_json
from review.rules.permissions import Can

BatchSerializer = rows_of(
    "Batch",
    Batch,
    "id benchmark status prompts preset comparison created_at finished_at",
    "One launch of a recipe over the records of a source.",
    source=serializers.CharField(source="source.name"),
    created_by=related("created_by.username"),
    prompts_sha256=serializers.CharField(help_text="The digest of a team's own prompts; empty for released ones."),
)

CountedBatchSerializer = extended(
    "CountedBatch",
    BatchSerializer,
    "A batch in the list, with counts of its drafts and samples.",
    drafts_count=serializers.IntegerField(),
    ended_count=serializers.IntegerField(),
    failed_count=serializers.IntegerField(),
    samples_count=serializers.IntegerField(),
    approved_count=serializers.IntegerField(),
)


WholeBatchSerializer = extended(
    "WholeBatch",
    BatchSerializer,
    """A batch with its models, settings (of its preset, at launch), plan (scaled to it), checks, budget and
    progress.

    `draw`: how its records were drawn: mode, field, seed, where, available and drawn records, and per
    stratum both. `plan`: name, targets by task and subtype, clusters by task and cluster. `changed`:
    the preset values that the launch overrode. `roles`: the endpoint of each role of the recipe;
    several with commas. `one_model`: a role, the role that should use a different model, and the
    model that plays both.
    """,
    **JOB,
    draw=serializers.DictField(),
    plan=serializers.DictField(),
    settings=serializers.DictField(),
    changed=serializers.ListField(child=serializers.CharField()),
    checks=serializers.ListField(child=serializers.CharField()),
    roles=serializers.DictField(child=serializers.CharField()),
    one_model=serializers.ListField(child=serializers.ListField(child=serializers.CharField())),
    models=serializer_of(ModelAsked)(many=True),
    progress=serializer_of(Progress)(),
    totals=serializer_of(UsageTotals)(),
    live=serializer_of(LiveStatus)(),
)


def _whole_batch(pk: int, reader: object) -> WithValues:
    batch = BATCHES.get_with_status(pk, reader)
    return job_with_values(
        BATCHES,
        batch,
        roles=queries.endpoints_by_role(batch),
        models=queries.models_asked(batch),
        one_model=queries.shared_roles(batch),
    )


register_answer(BATCHES.name, WholeBatchSerializer, _whole_batch)


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
        return _whole_batch(batch.pk, request.user)

    @answers(Estimate, body=BatchSettingsSerializer)
    @action(detail=False, methods=["post"])
    def estimate(self, request: Request, body: Body) -> Any:
        """Estimate a batch before launch: calls, tokens and money, with the basis of each line."""
        return estimate.estimate_batch(batch_settings(body))

    @answers({"blocks": BlockSerializer(many=True)})
    @action(detail=True)
    def analysis(self, request: Request, pk: int) -> Any:
        """The recipe's analysis of all drafts of a batch. 404 if the recipe has none."""
        return {"blocks": blocks_to_json(queries.analysis(BATCHES.get(pk)))}

    @answers(FunnelReport)
    @action(detail=True)
    def funnel(self, request: Request, pk: int) -> Any:
        """From the drawn records of a batch to approved samples: where the others were lost, and why."""
        return funnel.funnel(BATCHES.get(pk).benchmark, [pk])

    @answers(StageCost, many=True)
    @action(detail=True, pagination_class=None)
    def costs(self, request: Request, pk: int) -> Any:
        """The calls of a batch by stage (prompt and endpoint), in the order in which they were first made."""
        return jobs_queries.stage_costs(BATCHES.get(pk))
