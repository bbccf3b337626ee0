"""The API of calibration."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from review.calibration import queries, services
from review.common.api import NewestFirst
from review.common.decorators import person
from review.common.serializers import AnswersSerializer
from review.models import CalibrationItem, Case, User
from review.rules.case_spec import answers_from_json
from review.rules.permissions import Can, UserRole


class GiveAgainSerializer(serializers.Serializer[Any]):
    """How many calibration cases were offered to the physician."""

    items = serializers.IntegerField()


class GiveAgain(GenericAPIView[User]):
    """Offer a physician the calibration cases again."""

    can = Can.OVERSEE
    queryset = User.objects.filter(role=UserRole.PHYSICIAN)

    @extend_schema(request=None, responses=GiveAgainSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return Response({"items": services.give_again(self.get_object(), actor=person(request))})


class CalibrationSerializer(serializers.ModelSerializer[CalibrationItem]):
    """A case with known answers. In `expected`, only the values count; a blank one is not checked."""

    expected = AnswersSerializer(required=False)

    class Meta:
        model = CalibrationItem
        fields = ["id", "benchmark", "title", "active", "expected", "created_at"]
        read_only_fields = ["benchmark", "title", "created_at"]


@extend_schema_view(get=extend_schema(responses=CalibrationSerializer))
class Calibration(ListAPIView[CalibrationItem]):
    """Calibration cases, newest first."""

    can = Can.OVERSEE
    serializer_class = CalibrationSerializer
    pagination_class = NewestFirst

    def get_queryset(self) -> QuerySet[CalibrationItem]:
        return queries.items().defer("spec")


class CalibrationDetail(APIView):
    """Activate or deactivate a calibration case, or change its known answers."""

    can = Can.OVERSEE

    @extend_schema(request=CalibrationSerializer, responses=CalibrationSerializer)
    def patch(self, request: Request, pk: int) -> Response:
        item = get_object_or_404(CalibrationItem, pk=pk)
        body = CalibrationSerializer(item, data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        expected = body.validated_data.get("expected")
        services.change_item(
            item,
            actor=person(request),
            expected=answers_from_json(expected) if expected is not None else None,
            active=body.validated_data.get("active"),
        )
        return Response(CalibrationSerializer(item).data)


class MakeCalibration(GenericAPIView[Case]):
    """Make a calibration case from an approved or rejected case; its outcome gives the known answers. Else 409."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(request=None, responses={201: CalibrationSerializer})
    def post(self, request: Request, pk: int) -> Response:
        case = self.get_object()
        item = services.make_item(case, queries.suggested(case), actor=person(request))
        return Response(CalibrationSerializer(item).data, status=201)
