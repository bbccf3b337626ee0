"""The API of drafts and findings."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from generation.batches import queries, services
from generation.batches.kind import BATCHES
from generation.models import Draft, Finding
from generation.models.work import Work
from review.common.api import OldestFirst, asked, sent
from review.common.decorators import person
from review.rules.permissions import Can


class DraftSerializer(serializers.ModelSerializer[Draft]):
    """A sample in the making. `step` is its current step of the recipe, `gate` the decision of the pre-review checks."""

    record = serializers.CharField(source="record.external_id")
    preferred = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = Draft
        fields = [
            "id",
            "record",
            "parent",
            "sample",
            "version",
            "preferred",
            "step",
            "status",
            "gate",
            "tries",
            "error",
            "detail",
        ]


class DraftQuery(serializers.Serializer[Any]):
    """Which drafts."""

    status = serializers.ChoiceField(choices=Work.Status.choices, required=False)
    gate = serializers.ChoiceField(choices=Draft.Gate.choices, required=False)


class FindingSerializer(serializers.ModelSerializer[Finding]):
    """A finding of a check in a draft. `other`: the similar sample; `likeness`: from 0 to 1."""

    check_name = serializers.CharField()
    gate = serializers.CharField(source="draft.gate")
    other = serializers.CharField(source="other.key", allow_null=True, default=None)

    class Meta:
        model = Finding
        fields = ["id", "draft", "check_name", "stops", "detail", "other", "likeness", "gate", "created_at"]


class FindingQuery(serializers.Serializer[Any]):
    """Which findings."""

    check = serializers.CharField(required=False, max_length=40)
    state = serializers.ChoiceField(choices=Draft.Gate.choices, required=False)


class ReasonSerializer(serializers.Serializer[Any]):
    """The reason, which is recorded."""

    reason = serializers.CharField(max_length=2_000)


@extend_schema_view(get=extend_schema(parameters=[DraftQuery]))
class Drafts(ListAPIView[Draft]):
    """The drafts of a batch."""

    can = Can.PRODUCE
    serializer_class = DraftSerializer
    pagination_class = OldestFirst
    queryset = Draft.objects.select_related("record").defer("data", "record__content", "record__private")

    def get_queryset(self) -> QuerySet[Draft]:
        batch = BATCHES.get(self.kwargs["pk"])
        return super().get_queryset().filter(batch=batch, **asked(DraftQuery, self.request))


@extend_schema_view(get=extend_schema(parameters=[FindingQuery]))
class Findings(ListAPIView[Finding]):
    """Findings of the checks in the drafts of a batch."""

    can = Can.PRODUCE
    serializer_class = FindingSerializer
    pagination_class = OldestFirst
    queryset = Finding.objects.none()

    def get_queryset(self) -> QuerySet[Finding]:
        batch = BATCHES.get(self.kwargs["pk"])
        return queries.findings(batch, **asked(FindingQuery, self.request))


class LetThrough(GenericAPIView[Draft]):
    """Send a stopped draft to review. 409 if it is not stopped."""

    can = Can.PRODUCE
    queryset = Draft.objects.select_related("record")

    @extend_schema(request=ReasonSerializer, responses=DraftSerializer)
    def post(self, request: Request, pk: int) -> Response:
        reason = sent(ReasonSerializer, request)["reason"]
        services.let_through(self.get_object().pk, actor=person(request), reason=reason)
        return Response(DraftSerializer(self.get_object()).data)


class DiscardStopped(GenericAPIView[Draft]):
    """Discard a stopped draft. 409 if it is not stopped."""

    can = Can.PRODUCE
    queryset = Draft.objects.select_related("record")

    @extend_schema(request=ReasonSerializer, responses=DraftSerializer)
    def post(self, request: Request, pk: int) -> Response:
        reason = sent(ReasonSerializer, request)["reason"]
        services.discard_stopped(self.get_object().pk, actor=person(request), reason=reason)
        return Response(DraftSerializer(self.get_object()).data)
