"""The API on trust: agreement by criterion, and one physician's own figures. Thin edges over `trust`."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from review.common.api import asked
from review.common.decorators import person
from review.models import User
from review.quality import reliability
from review.quality.agreement import Why
from review.quality.reliability import RaterPair
from review.rules.permissions import Can, UserRole


class EstimateSerializer(serializers.Serializer[Any]):
    """A figure and its 95 % bootstrap interval. What is not defined is null, and `why` says why; it is never 0."""

    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    why = serializers.ChoiceField(choices=[why.value for why in Why], allow_null=True)


class AgreementFiguresSerializer(serializers.Serializer[Any]):
    """All figures for one criterion. `n`: pairs of answers; `cases`: the cases they come from."""

    n = serializers.IntegerField()
    cases = serializers.IntegerField()
    raw = EstimateSerializer()
    kappa = EstimateSerializer()
    ac1 = EstimateSerializer()
    alpha = EstimateSerializer()


class AgreementLineSerializer(serializers.Serializer[Any]):
    """One criterion (`verdict`, `question.KEY`, `rubric`, `severity`) of one benchmark. `ordinal`: alpha is the ordinal one."""

    benchmark = serializers.CharField()
    pair = serializers.ChoiceField(choices=[pair.value for pair in RaterPair])
    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    ordinal = serializers.BooleanField()
    agreement = AgreementFiguresSerializer()


class AgreementSerializer(serializers.Serializer[Any]):
    """The lines asked for."""

    lines = AgreementLineSerializer(many=True)


class AgreementQuery(serializers.Serializer[Any]):
    """Which answers are compared."""

    benchmark = serializers.CharField(required=False, max_length=64)
    task = serializers.CharField(required=False, max_length=64)
    pair = serializers.ChoiceField(choices=[pair.value for pair in RaterPair], required=False)


class AgreementView(APIView):
    """How far physicians agree who had not seen each other's answer, with n and intervals."""

    can = Can.OVERSEE

    @extend_schema(parameters=[AgreementQuery], responses=AgreementSerializer, operation_id="review_agreement_retrieve")
    def get(self, request: Request) -> Response:
        return Response(AgreementSerializer(reliability.agreement_table(**asked(AgreementQuery, request))).data)


class ShareSerializer(serializers.Serializer[Any]):
    """So many of so many; `value` is null of none."""

    part = serializers.IntegerField()
    whole = serializers.IntegerField()
    value = serializers.FloatField(allow_null=True)


class WeekSerializer(serializers.Serializer[Any]):
    """One week from `monday` on."""

    monday = serializers.DateField()
    cases = serializers.IntegerField()
    minutes = serializers.FloatField(allow_null=True)
    agreed = ShareSerializer()


class DotSerializer(serializers.Serializer[Any]):
    """One case: its length in words (two CJK characters count as one) and the active minutes on it."""

    words = serializers.IntegerField()
    minutes = serializers.FloatField()


class FiguresSerializer(serializers.Serializer[Any]):
    """One physician's work, training cases and repeats included. `minutes` is the median of active minutes a case over the
    `measured` ones, null where none is; `first_pass`: of the answered cases that have closed, those that ended as the own
    blind verdict said."""

    stages = serializers.DictField(child=serializers.IntegerField())
    minutes = serializers.FloatField(allow_null=True)
    measured = serializers.IntegerField()
    first_pass = ShareSerializer()
    calibration = ShareSerializer()
    calibrated = serializers.IntegerField()
    repeat_verdicts = ShareSerializer()
    repeat_answers = ShareSerializer()
    speed = DotSerializer(many=True, source="dots")
    weeks = WeekSerializer(many=True)


def _figures(physician: User) -> Response:
    return Response(FiguresSerializer(reliability.figures(physician)).data)


class ReviewerView(APIView):
    """One physician's figures. There is no list of them, and so no order."""

    can = Can.OVERSEE

    @extend_schema(responses=FiguresSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return _figures(get_object_or_404(User, pk=pk, role=UserRole.PHYSICIAN))


class OwnFigures(APIView):
    """My own figures; nobody else's can be asked for here."""

    can = Can.REVIEW

    @extend_schema(responses=FiguresSerializer, operation_id="reviewers_me_retrieve")
    def get(self, request: Request) -> Response:
        return _figures(person(request))
