"""The API of merges."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from generation.merges import queries, services
from generation.merges.queries import MergedRow, NearRow
from generation.models import Draft, MergeEvent
from review.common.actions import Body, answers
from review.common.api import OldestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, rows_of, serializer_of
from review.rules.limits import MAX_ID
from review.rules.permissions import Can

NEW_MERGE_BODY: Fields = {
    "draft": serializers.IntegerField(min_value=1, max_value=MAX_ID),
    "other": serializers.IntegerField(min_value=1, max_value=MAX_ID),
    "reason": serializers.CharField(max_length=2_000),
}

MergeEventSerializer = rows_of(
    "MergeEvent",
    MergeEvent,
    "draft into kind reason withdrawn",
    "A recorded merge, or its undoing. `withdrawn`: the samples withdrawn with it.",
)


class BatchMergesViewSet(GenericViewSet[Any]):
    """The merges of a batch. 404 if its drafts do not meet at any step."""

    can = Can.PRODUCE
    queryset = Draft.objects.all()
    serializer_class = serializer_of(MergedRow)
    pagination_class = OldestFirst

    @extend_schema(responses=serializer_of(MergedRow)(many=True))
    @action(detail=True)
    def merges(self, request: Request, pk: int) -> Response:
        """The drafts that were merged into others, with distance and reason."""
        batch = queries.merging_batch(pk)
        rows = self.paginate_queryset(queries.merges(batch).select_related("onward").defer("onward__data")) or []
        return self.get_paginated_response(serializer_of(MergedRow)(queries.merged_rows(batch, rows), many=True).data)

    @answers(MergeEventSerializer, body=NEW_MERGE_BODY, many=True, status=201)
    @merges.mapping.post
    def merge(self, request: Request, body: Body, pk: int) -> Any:
        """Merge two drafts. 409 if they are merged already or did not meet at the same step."""
        drafts, batch = (body["draft"], body["other"]), queries.merging_batch(pk)
        return services.merge_drafts(
            *drafts, actor=signed_in_account(request), reason=body["reason"], batch_id=batch.pk
        )

    @extend_schema(responses=serializer_of(NearRow)(many=True))
    @action(detail=True, url_path="merges/near", url_name="near-matches")
    def near_matches(self, request: Request, pk: int) -> Response:
        """Pairs of similar drafts that an admin may merge and nobody has merged yet."""
        batch = queries.merging_batch(pk)
        rows = self.paginate_queryset(queries.near_matches(batch)) or []
        return self.get_paginated_response(serializer_of(NearRow)(queries.near_rows(batch, rows), many=True).data)


class UndoMerge(APIView):
    """Undo a merge: the draft continues by itself.

    409 if it is not merged, or others are merged into it.
    """

    can = Can.PRODUCE

    @answers(
        MergeEventSerializer,
        body={"reason": serializers.CharField(max_length=2_000, help_text="Why a merge is undone.")},
    )
    def post(self, request: Request, body: Body, pk: int) -> Any:
        return services.undo_merge(pk, actor=signed_in_account(request), **body)
