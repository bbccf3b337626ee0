"""The API of batches."""

from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from generation import tasks
from generation.batches import estimate, launch, queries, services
from generation.jobs.serializers import (
    JOB_FIELDS,
    LAUNCH_KEY,
    BudgetSerializer,
    ConfirmSerializer,
    FailedCallSerializer,
    FailureQuery,
    JobSerializer,
    LaunchEstimateSerializer,
    LiveSerializer,
    ProgressSerializer,
    TotalsSerializer,
    budget_sent,
    job_values,
    launch_key,
)
from generation.models import Batch, BatchRole, Call, Endpoint, Import, Source
from generation.recipes import registry
from generation.recipes.serializers import known_benchmark
from generation.sources import queries as sources_queries
from generation.sources.api import ImportSerializer
from review.common.api import MAX_ID, ByName, NewestFirst, asked, sent
from review.common.decorators import person
from review.common.serializers import BlockSerializer
from review.models import User
from review.rules.case_spec import blocks_to_json
from review.rules.permissions import Can


class CancelImport(GenericAPIView[Import]):
    """Read no further; the records that were added stay. One that is over: 409."""

    can = Can.PRODUCE
    queryset = sources_queries.imports()

    @extend_schema(request=None, responses=ImportSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return Response(ImportSerializer(services.cancel_import(self.get_object().pk)).data)


class BatchSerializer(serializers.ModelSerializer[Any]):
    """One launch of a recipe over the records of a source."""

    source = serializers.CharField(source="source.name")  # type: ignore[assignment]
    created_by = serializers.CharField(source="created_by.username", allow_null=True, default=None)

    class Meta:
        model = Batch
        fields = [
            "id",
            "benchmark",
            "source",
            "status",
            "prompts",
            "preset",
            "comparison",
            "created_by",
            "created_at",
            "finished_at",
        ]


class CountedBatchSerializer(BatchSerializer):
    """A batch in the list, with counts of its drafts."""

    drafts_count = serializers.IntegerField()
    ended_count = serializers.IntegerField()
    failed_count = serializers.IntegerField()

    class Meta(BatchSerializer.Meta):
        fields = [*BatchSerializer.Meta.fields, "drafts_count", "ended_count", "failed_count"]


class WholeBatchSerializer(JobSerializer, BatchSerializer):
    """A batch with its models, its settings (those of its preset, as they were), its plan (scaled to it), its checks, its
    budget and its progress."""

    plan = serializers.DictField(help_text="name, targets by task and subtype, clusters by task and cluster.")
    settings = serializers.DictField(help_text="By name, as they were at the launch.")
    changed = serializers.ListField(
        child=serializers.CharField(), help_text="The settings that the launch changed in the preset."
    )
    checks = serializers.ListField(child=serializers.CharField())
    roles = serializers.DictField(child=serializers.CharField(), help_text="Role of the recipe: endpoint.")
    progress = ProgressSerializer()
    totals = TotalsSerializer()
    live = LiveSerializer()

    class Meta(BatchSerializer.Meta):
        fields = [
            *BatchSerializer.Meta.fields,
            "plan",
            "settings",
            "changed",
            "checks",
            "roles",
            *JOB_FIELDS,
            "progress",
            "totals",
            "live",
        ]


class BatchAskSerializer(serializers.Serializer[Any]):
    """What a batch is to be. Every role that its records need wants an endpoint, unless it has another's by default or is
    optional.

    `plan`: a plan's name ("" the usual one, "none" for none), or targets by trap code. `checks`: null for all there are.
    """

    benchmark = serializers.CharField(max_length=64, validators=[known_benchmark])
    source = ByName(queryset=Source.objects.all())  # type: ignore[assignment]
    roles = serializers.DictField(child=ByName(queryset=Endpoint.objects.all()))
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_ID, allow_null=True, default=None, help_text="At most so many records."
    )
    plan = serializers.JSONField(required=False, help_text='A name, or targets such as {"A1": 30, "C": 20}.')
    prompts = serializers.CharField(max_length=64, default="", allow_blank=True, help_text="The set of prompts.")
    preset = serializers.CharField(
        max_length=64, default="", allow_blank=True, help_text="The recipe's preset; empty: the usual one."
    )
    settings = serializers.DictField(
        source="changes", default=dict, help_text='Values of the preset that are to be others: {"reviewers": "two"}.'
    )
    checks = serializers.ListField(child=serializers.CharField(max_length=40), allow_null=True, default=None)


class LaunchSerializer(ConfirmSerializer, BatchAskSerializer):
    """A batch to be launched, with a budget or `confirmed`."""


def estimate_response(body: dict[str, Any]) -> Response:
    """What a launch would come to."""
    prompts = [body["prompts"], *([body["compare"]] if "compare" in body else [])]
    names = ("benchmark", "source", "roles", "limit", "checks", "preset", "changes")
    plan = registry.plan_of(body["benchmark"], body.get("plan", ""))
    found = estimate.of_batch(prompts=prompts, plan=plan, **{name: body[name] for name in names})
    return Response(LaunchEstimateSerializer(found).data)


def read_launch(body: dict[str, Any], actor: User) -> dict[str, Any]:
    """The arguments of a launch. Raises WrongPlan."""
    setting = launch.Setting(
        plan=registry.plan_of(body["benchmark"], body.pop("plan", "")),
        prompts=body.pop("prompts"),
        preset=body.pop("preset"),
        changes=body.pop("changes"),
        checks=body.pop("checks"),
        **{name: body.pop(name) for name in ("budget_money", "budget_calls", "fresh")},
    )
    return {**body, "setting": setting, "actor": actor}


@extend_schema_view(get=extend_schema(parameters=[FailureQuery]))
class BatchFailures(ListAPIView[Call]):
    """The calls of a batch that ended in an error, newest first; what healed by trying again is among them."""

    can = Can.PRODUCE
    serializer_class = FailedCallSerializer
    pagination_class = NewestFirst
    queryset = Call.objects.none()

    def get_queryset(self) -> QuerySet[Call]:
        batch = get_object_or_404(Batch, pk=self.kwargs["pk"])
        return queries.failed_calls(batch.job, **asked(FailureQuery, self.request))


def _whole_batch(batch: Batch) -> dict[str, Any]:
    bound = BatchRole.objects.filter(batch=batch).order_by("pk").values_list("role", "endpoint__name")
    return {
        **{name: getattr(batch, name) for name in BatchSerializer.Meta.fields},
        **job_values(batch),
        "plan": batch.plan,
        "settings": batch.settings,
        "changed": batch.changed,
        "checks": batch.checks,
        "roles": dict(bound),
        "progress": queries.batch_progress(batch),
        "totals": batch,
        "live": queries.batch_live(batch),
    }


def _batch_answer(pk: int, status: int = 200) -> Response:
    batch = queries.watched_batches().get(pk=pk)
    return Response(WholeBatchSerializer(_whole_batch(batch)).data, status=status)


class Batches(ListAPIView[Batch]):
    """Batches, newest first."""

    can = Can.PRODUCE
    serializer_class = CountedBatchSerializer
    pagination_class = NewestFirst
    queryset = queries.batches()

    @extend_schema(parameters=[LAUNCH_KEY], request=LaunchSerializer, responses={202: WholeBatchSerializer})
    def post(self, request: Request) -> Response:
        """Launch a recipe over records that have no draft of this benchmark yet; workers take it."""
        asked = read_launch(sent(LaunchSerializer, request), person(request))
        batch = launch.launch_batch(**asked, key=launch_key(request))
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, batch.pk))
        return _batch_answer(batch.pk, 202)


class EstimateBatch(APIView):
    """What a batch would come to, before anything is asked: calls, tokens and money, with the basis of each line."""

    can = Can.PRODUCE

    @extend_schema(request=BatchAskSerializer, responses=LaunchEstimateSerializer)
    def post(self, request: Request) -> Response:
        return estimate_response(sent(BatchAskSerializer, request))


class BatchDetail(GenericAPIView[Batch]):
    """One batch with its progress."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(responses=WholeBatchSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return _batch_answer(self.get_object().pk)


class AnalysisSerializer(serializers.Serializer[Any]):
    """What the drafts of a batch show together, block by block."""

    blocks = BlockSerializer(many=True)


class BatchAnalysis(GenericAPIView[Batch]):
    """What the data of all drafts of a batch show together. A benchmark whose recipe has no analysis: 404."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(responses=AnalysisSerializer)
    def get(self, request: Request, pk: int) -> Response:
        found: Any = {"blocks": blocks_to_json(queries.analysis(self.get_object()))}
        return Response(AnalysisSerializer(found).data)


class CancelBatch(GenericAPIView[Batch]):
    """Take no further draft of it; what it made stays. One that is over: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses=WholeBatchSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return _batch_answer(services.cancel_batch(self.get_object().pk).pk)


class PauseBatch(GenericAPIView[Batch]):
    """Start no further call of it; what is in flight is kept. One that is over: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses=WholeBatchSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return _batch_answer(services.pause_batch(self.get_object().pk).pk)


class ResumeBatch(GenericAPIView[Batch]):
    """Go on with it, its endpoints included. One that is over, or whose budget is spent: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses={202: WholeBatchSerializer})
    def post(self, request: Request, pk: int) -> Response:
        services.resume_batch(self.get_object().pk)
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
        return _batch_answer(pk, 202)


class BatchBudget(GenericAPIView[Batch]):
    """Give it another budget; one that had paused for want of it goes on. A cancelled one: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=BudgetSerializer, responses={202: WholeBatchSerializer})
    def post(self, request: Request, pk: int) -> Response:
        services.set_batch_budget(pk, **budget_sent(request, self.get_object()))
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
        return _batch_answer(pk, 202)


class RetryBatch(GenericAPIView[Batch]):
    """Queue again what failed. A cancelled batch: 409."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(request=None, responses={202: WholeBatchSerializer})
    def post(self, request: Request, pk: int) -> Response:
        services.retry_failed(self.get_object().pk)
        transaction.on_commit(partial(tasks.wake, tasks.work_on_batch, pk))
        return _batch_answer(pk, 202)
