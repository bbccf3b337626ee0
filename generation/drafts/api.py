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
from review.common.actions import Body, acts, answers
from review.common.api import OldestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, related, rows_of
from review.rules.permissions import Can


class ReasonField(serializers.CharField):
    """Why a draft ended, translated if the recipe marked the sentence for translation."""

    def to_representation(self, value: str) -> str:
        if value:
            return gettext(value)
        return ""


DraftSerializer = rows_of(
    "Draft",
    Draft,
    "id parent sample version step status gate at_barrier onward tries error",
    """A sample in the making. `step` is its current step of the recipe, `gate` the decision of the pre-review checks.

    `endpoint` plays the role that several may play. `at_barrier`: it waits for the others of its
    batch; `onward`: the draft in which it now continues.
    """,
    record=serializers.CharField(source="record.external_id"),
    endpoint=related("endpoint.name"),
    preferred=serializers.ListField(child=serializers.CharField()),
    detail=ReasonField(allow_blank=True),
)

DRAFT_QUERY: Fields = {
    "status": serializers.ChoiceField(choices=Work.Status.choices, required=False),
    "gate": serializers.ChoiceField(choices=Draft.Gate.choices, required=False),
}

FindingSerializer = rows_of(
    "Finding",
    Finding,
    "id draft stops detail likeness created_at",
    "A finding of a check in a draft. `other`: the similar sample; `likeness`: from 0 to 1.",
    other=related("other.key"),
    gate=serializers.CharField(source="draft.gate"),
    check_name=serializers.CharField(),
)

FINDING_QUERY: Fields = {
    "check": serializers.CharField(required=False, max_length=40),
    "state": serializers.ChoiceField(choices=Draft.Gate.choices, required=False),
}


REASON_BODY: Fields = {"reason": serializers.CharField(max_length=2_000, help_text="It is recorded.")}


class BatchDraftsViewSet(GenericViewSet[Batch]):
    """What a batch is making."""

    can = Can.PRODUCE
    queryset = Batch.objects.all()

    @answers(DraftSerializer, query=DRAFT_QUERY, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def drafts(self, request: Request, query: Body, pk: int) -> Any:
        """The drafts of a batch."""
        drafts = Draft.objects.select_related("record", "endpoint").defer("data", "record__content", "record__private")
        return drafts.filter(batch=self.get_object(), **query)

    @answers(FindingSerializer, query=FINDING_QUERY, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def findings(self, request: Request, query: Body, pk: int) -> Any:
        """Findings of the checks in the drafts of a batch."""
        return queries.findings(self.get_object(), **query)


class DraftViewSet(GenericViewSet[Draft]):
    """Drafts."""

    can = Can.PRODUCE
    queryset = Draft.objects.select_related("record", "endpoint")

    @acts(DraftSerializer, REASON_BODY, url_path="send-to-review")
    def send_to_review(self, request: Request, body: Body, pk: int) -> Any:
        """Send a stopped draft to review. 409 if it is not stopped."""
        services.send_to_review(self.get_object().pk, actor=signed_in_account(request), **body)
        return self.get_object()

    @acts(DraftSerializer, REASON_BODY)
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
