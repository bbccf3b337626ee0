"""The API of rewordings for their primary reviewers."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from review.common.actions import Body, acts, answers
from review.common.api import OldestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import RowSerializer, serializer_of
from review.models import Rewording
from review.models.public_ids import CaseId
from review.rewordings import queries, services
from review.rewordings.queries import RewordedRubric
from review.rules.permissions import Can


class RewordingSerializer(RowSerializer):
    """Rubrics that the second reviewer approves in another wording. You may object until `due_at`;
    then it is approved.
    """

    title = serializers.CharField(source="case.title")

    case = serializers.SerializerMethodField()
    rubrics = serializers.SerializerMethodField()

    class Meta:
        model = Rewording
        fields = ["id", "asked_at", "due_at"]

    def get_case(self, rewording: Rewording) -> str:
        return CaseId().to_url(rewording.case_id)

    @extend_schema_field(serializer_of(RewordedRubric)(many=True))
    def get_rubrics(self, rewording: Rewording) -> Any:
        return serializer_of(RewordedRubric)(queries.reworded_rubrics(rewording), many=True).data


class RewordingViewSet(GenericViewSet[Rewording]):
    """Wordings put to you."""

    can = Can.REVIEW
    serializer_class = RewordingSerializer
    pagination_class = OldestFirst
    row = "<int:rewording_id>"

    @answers(RewordingSerializer, paged=True)
    def list(self, request: Request) -> Any:
        """The wordings that await your answer, oldest first."""
        return queries.waiting_for(signed_in_account(request))

    @answers(RewordingSerializer)
    def retrieve(self, request: Request, rewording_id: int) -> Any:
        """One wording, answered or not."""
        return queries.rewording_of(signed_in_account(request), rewording_id)

    @acts()
    def accept(self, request: Request, rewording_id: int) -> None:
        """Accept the wording: the case is approved. Already answered, or too late: 409."""
        services.accept(signed_in_account(request), rewording_id)

    @acts(
        body={"reason": serializers.CharField(max_length=4000, help_text="Why you object.")},
        url_path="object",
        url_name="object",
    )
    def object_to(self, request: Request, body: Body, rewording_id: int) -> None:
        """Object with a reason: the case goes to adjudication. Already answered, or too late:
        409.
        """
        services.object_to(signed_in_account(request), rewording_id, **body)
