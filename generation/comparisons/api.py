"""The API of comparisons."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from generation.batches import estimate, launch
from generation.batches.serializers import BatchSettingsSerializer, batch_settings
from generation.comparisons import queries
from generation.comparisons.queries import Arm, RecordPair
from generation.jobs.estimate import Estimate
from generation.jobs.serializers import LAUNCH_KEY, launch_key, launching
from generation.models import Comparison
from review.common.actions import Body, answers
from review.common.api import NewestFirst, OldestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import WithValues, extended, rows_of, serializer_of
from review.rules.permissions import Can


class ComparisonSettingsSerializer(BatchSettingsSerializer):
    """The settings of a comparison: the same records with the prompt sets `prompts` and `compare`."""

    compare = serializers.CharField(max_length=64, allow_blank=True)


LaunchComparisonSerializer = launching(
    "LaunchComparison",
    ComparisonSettingsSerializer,
    "A comparison to launch, with a budget for each of its batches, or `confirmed`.",
)


ComparisonSerializer = rows_of(
    "Comparison",
    Comparison,
    "id benchmark created_at",
    "Two batches over the same records with different prompt sets.",
    source=serializers.CharField(source="source.name"),
    records_count=serializers.IntegerField(),
)

ComparedSerializer = extended(
    "Compared",
    ComparisonSerializer,
    """A comparison with the results of both batches.

    `only_a`: records approved with A and decided but not approved with B. `chance`: the probability
    of a split at least as uneven if both were equally good.
    """,
    only_a=serializers.IntegerField(),
    only_b=serializers.IntegerField(),
    chance=serializers.FloatField(allow_null=True),
    arms=serializer_of(Arm)(many=True),
)


class ComparisonViewSet(ListModelMixin, GenericViewSet[Any]):
    """Comparisons of two prompt sets, newest first."""

    can = Can.PRODUCE
    serializer_class = ComparisonSerializer
    pagination_class = NewestFirst
    queryset = queries.comparisons()

    @answers(ComparedSerializer, body=LaunchComparisonSerializer, status=202, parameters=[LAUNCH_KEY])
    def create(self, request: Request, body: Body) -> Any:
        """Launch two batches over the same records. Workers do the rest."""
        settings = batch_settings(body)
        comparison = launch.launch_comparison(settings, actor=signed_in_account(request), key=launch_key(request))
        return _with_results(queries.comparison(comparison.pk))

    @answers(Estimate, body=ComparisonSettingsSerializer)
    @action(detail=False, methods=["post"])
    def estimate(self, request: Request, body: Body) -> Any:
        """Estimate a comparison before launch, both batches together."""
        return estimate.estimate_batch(batch_settings(body))

    @answers(ComparedSerializer)
    def retrieve(self, request: Request, pk: int) -> Any:
        """One comparison with the results of both batches."""
        return _with_results(queries.comparison(pk))

    @extend_schema(responses=serializer_of(RecordPair)(many=True))
    @action(detail=True, pagination_class=OldestFirst)
    def pairs(self, request: Request, pk: int) -> Response:
        """The records of a comparison, each with both outcomes; one for each endpoint where several play a role."""
        comparison = queries.comparison(pk)
        drafts = self.paginate_queryset(queries.paired_drafts(comparison)) or []
        return self.get_paginated_response(serializer_of(RecordPair)(queries.pairs(comparison, drafts), many=True).data)


def _with_results(comparison: Comparison) -> WithValues:
    result = queries.compare_arms(comparison)
    return WithValues(comparison, arms=result.arms, only_a=result.only_a, only_b=result.only_b, chance=result.chance)
