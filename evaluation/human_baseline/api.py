"""The API of traps that physicians noticed and models fell for."""

from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from evaluation.human_baseline import queries
from evaluation.human_baseline.queries import (
    Failures,
    ModelRate,
    NoticedGroup,
    NoticedReport,
    NoticedSample,
    NoticedTrap,
    PhysicianCount,
)
from evaluation.models import Run
from evaluation.runs.kind import RUNS
from review.common.actions import answers
from review.common.serializers import DataclassSerializer
from review.rules.permissions import Can


class NoticedSerializer(DataclassSerializer):
    """How many of the physicians who were asked noticed something before the trap was revealed."""

    mirrors = PhysicianCount


class FailuresSerializer(DataclassSerializer):
    """The rate of all models of the run together: numerator, denominator, value."""

    mirrors = Failures
    shows = "numerator=hits denominator=counted value=share"


class NoticedTrapSerializer(DataclassSerializer):
    """A trap. `physicians` is null if there are too few answers to show."""

    mirrors = NoticedTrap
    shows = "code answers samples physicians models"


class NoticedRateSerializer(DataclassSerializer):
    """The rate of one model with its 95 % interval; the sample is the cluster."""

    mirrors = ModelRate
    shows = "endpoint value=rate.value low=rate.low high=rate.high method=rate.method clusters=rate.clusters n=rate.n"

    method = serializers.CharField(source="rate.method")


class NoticedGroupSerializer(DataclassSerializer):
    """Samples in which none, some or all of the physicians noticed something."""

    mirrors = NoticedGroup

    name = serializers.ChoiceField(choices=["none", "some", "all"])


class NoticedSampleSerializer(DataclassSerializer):
    """A sample that at least two physicians were asked about."""

    mirrors = NoticedSample


class NoticedReportSerializer(DataclassSerializer):
    """What physicians noticed, and what models fell for. `asked`: samples with an answer from any physician."""

    mirrors = NoticedReport
    shows = "rate=rate.name asked answers traps groups samples"


class HumanBaselineViewSet(GenericViewSet[Run]):
    """Physicians and models on the same samples."""

    can = Can.READ_RESULTS
    queryset = Run.objects.all()

    @answers(NoticedReportSerializer)
    @action(detail=True, url_path="human-baseline")
    def human_baseline(self, request: Request, pk: int) -> Any:
        """What physicians noticed before a trap was revealed, and how often models fell for it."""
        return queries.noticed_report(RUNS.get(pk), request.user)
