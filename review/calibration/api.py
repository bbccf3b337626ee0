"""The API of calibration."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from review.calibration import queries, services
from review.common.actions import acts
from review.common.api import NewestFirst, validated_body
from review.common.decorators import signed_in_account
from review.common.serializers import AnswersSerializer
from review.models import CalibrationItem, Case, User
from review.rules.case_spec import answers_from_json
from review.rules.permissions import Can, UserRole


class CalibrationSerializer(serializers.ModelSerializer[CalibrationItem]):
    """A case with known answers.

    In `expected`, only the values count; a blank one is not checked.
    """

    expected = AnswersSerializer(required=False)

    class Meta:
        model = CalibrationItem
        fields = ["id", "benchmark", "title", "active", "expected", "created_at"]
        read_only_fields = ["benchmark", "title", "created_at"]


class CalibrationViewSet(ListModelMixin, GenericViewSet[CalibrationItem]):
    """Calibration cases, newest first."""

    can = Can.OVERSEE
    serializer_class = CalibrationSerializer
    pagination_class = NewestFirst
    queryset = queries.items().defer("spec")
    plural = "calibration"

    @extend_schema(request=CalibrationSerializer, responses=CalibrationSerializer)
    def partial_update(self, request: Request, pk: int) -> Response:
        """Activate or deactivate a calibration case, or change its known answers."""
        item = self.get_object()
        body = validated_body(CalibrationSerializer, request, changed=item)
        expected = None
        if body.get("expected") is not None:
            expected = answers_from_json(body["expected"])
        services.change_item(
            item,
            actor=signed_in_account(request),
            expected=expected,
            active=body.get("active"),
        )
        return Response(CalibrationSerializer(item).data)


class CaseCalibrationViewSet(GenericViewSet[Case]):
    """Calibration cases made from cases."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @acts(CalibrationSerializer, status=201)
    def calibration(self, request: Request, pk: int) -> Any:
        """Make a calibration case from an approved or rejected case; its outcome gives the known
        answers. Else 409.
        """
        case = self.get_object()
        return services.make_item(case, queries.suggested_answers(case), actor=signed_in_account(request))


class PersonCalibrationViewSet(GenericViewSet[User]):
    """Calibration cases of a physician."""

    can = Can.OVERSEE
    queryset = User.objects.filter(role=UserRole.PHYSICIAN)

    @acts({"items": serializers.IntegerField(help_text="How many were offered.")})
    def calibration(self, request: Request, pk: int) -> Any:
        """Offer a physician the calibration cases again."""
        return {"items": services.offer_again(self.get_object(), actor=signed_in_account(request))}
