"""The API of drafts and findings."""

from typing import Any

from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from generation.batches import queries, services
from generation.endpoints.queries import calls_of
from generation.jobs.serializers import CallSerializer
from generation.models import Batch, Draft, Finding, load_requests
from generation.models.work import Work
from review.common.actions import Body, acts
from review.common.api import OldestFirst, paginated_response, validated_query
from review.common.decorators import signed_in_account
from review.common.serializers import RowSerializer
from review.rules.permissions import Can


class ReasonField(serializers.CharField):
    """Why a draft ended, translated if the recipe marked the sentence for translation."""

    def to_representation(self, value: str) -> str:
        if value:
            return gettext(value)
        return ""


class DraftSerializer(RowSerializer):
    """A sample in the making. `step` is its current step of the recipe, `gate` the decision of the pre-review checks.

    `endpoint` plays the role that several may play. `at_barrier`: it waits for the others of its
    batch; `onward`: the draft in which it now continues.
    """

    record = serializers.CharField(source="record.external_id")
    endpoint = serializers.CharField(source="endpoint.name", default=None, allow_null=True)

    preferred = serializers.ListField(child=serializers.CharField())
    detail = ReasonField(allow_blank=True)

    class Meta:
        model = Draft
        fields = [
            "id", "parent", "sample", "version", "step", "status", "gate", "at_barrier", "onward", "tries",
            "error",
        ]  # fmt: skip


class DraftQuery(serializers.Serializer[Any]):
    """Which drafts."""

    status = serializers.ChoiceField(choices=Work.Status.choices, required=False)
    gate = serializers.ChoiceField(choices=Draft.Gate.choices, required=False)


class FindingSerializer(RowSerializer):
    """A finding of a check in a draft. `other`: the similar sample; `likeness`: from 0 to 1."""

    other = serializers.CharField(source="other.key", default=None, allow_null=True)
    gate = serializers.CharField(source="draft.gate")

    check_name = serializers.CharField()

    class Meta:
        model = Finding
        fields = ["id", "draft", "stops", "detail", "likeness", "created_at"]


class FindingQuery(serializers.Serializer[Any]):
    """Which findings."""

    check = serializers.CharField(required=False, max_length=40)
    state = serializers.ChoiceField(choices=Draft.Gate.choices, required=False)


class ReasonSerializer(serializers.Serializer[Any]):
    """The reason, which is recorded."""

    reason = serializers.CharField(max_length=2_000)


class BatchDraftsViewSet(GenericViewSet[Batch]):
    """What a batch is making."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @extend_schema(parameters=[DraftQuery], responses=DraftSerializer(many=True))
    @action(detail=True, serializer_class=DraftSerializer, pagination_class=OldestFirst)
    def drafts(self, request: Request, pk: int) -> Response:
        """The drafts of a batch."""
        drafts = Draft.objects.select_related("record", "endpoint").defer("data", "record__content", "record__private")
        return paginated_response(self, drafts.filter(batch=self.get_object(), **validated_query(DraftQuery, request)))

    @extend_schema(parameters=[FindingQuery], responses=FindingSerializer(many=True))
    @action(detail=True, serializer_class=FindingSerializer, pagination_class=OldestFirst)
    def findings(self, request: Request, pk: int) -> Response:
        """Findings of the checks in the drafts of a batch."""
        return paginated_response(self, queries.findings(self.get_object(), **validated_query(FindingQuery, request)))


class DraftViewSet(GenericViewSet[Draft]):
    """Drafts."""

    can = Can.PRODUCE
    queryset = Draft.objects.select_related("record", "endpoint")

    @acts(DraftSerializer, ReasonSerializer, url_path="send-to-review")
    def send_to_review(self, request: Request, body: Body, pk: int) -> Any:
        """Send a stopped draft to review. 409 if it is not stopped."""
        services.send_to_review(self.get_object().pk, actor=signed_in_account(request), **body)
        return self.get_object()

    @acts(DraftSerializer, ReasonSerializer)
    def discard(self, request: Request, body: Body, pk: int) -> Any:
        """Discard a stopped draft. 409 if it is not stopped."""
        services.discard_stopped(self.get_object().pk, actor=signed_in_account(request), **body)
        return self.get_object()

    @extend_schema(responses=CallSerializer(many=True))
    @action(detail=True, serializer_class=CallSerializer, pagination_class=OldestFirst)
    def calls(self, request: Request, pk: int) -> Response:
        """The model calls of a draft, one by one, with prompts and replies."""
        calls: Any = calls_of(f"draft:{self.get_object().pk}")
        page: Any = self.paginate_queryset(calls) or []
        load_requests(page)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)
