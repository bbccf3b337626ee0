"""The API of traps that physicians noticed and models fell for."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from evaluation.models import Run
from evaluation.noticed import queries
from evaluation.noticed.queries import NoticedGroup, NoticedReport, NoticedSample, NoticedTrap
from evaluation.runs.kind import RUNS
from review.common.serializers import DataclassSerializer
from review.rules.permissions import Can


class NoticedSerializer(serializers.Serializer[Any]):
    """How many of the physicians who were asked noticed something before the trap was revealed."""

    noticed = serializers.IntegerField()
    asked = serializers.IntegerField()


class FailuresSerializer(serializers.Serializer[Any]):
    """The rate of all models of the run together: numerator, denominator, value."""

    numerator = serializers.IntegerField(source="hits")
    denominator = serializers.IntegerField(source="counted")
    value = serializers.FloatField(source="share", allow_null=True)


class NoticedTrapSerializer(DataclassSerializer):
    """A trap. `physicians` is null if there are too few answers to show."""

    mirrors = NoticedTrap
    shows = "code answers samples"

    physicians = NoticedSerializer(allow_null=True)
    models = FailuresSerializer()


class NoticedRateSerializer(serializers.Serializer[Any]):
    """The rate of one model with its 95 % interval; the sample is the cluster."""

    endpoint = serializers.CharField()
    value = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    method = serializers.CharField()
    clusters = serializers.IntegerField()
    n = serializers.IntegerField()


class NoticedGroupSerializer(DataclassSerializer):
    """Samples in which none, some or all of the physicians noticed something."""

    mirrors = NoticedGroup

    name = serializers.ChoiceField(choices=["none", "some", "all"])
    rates = NoticedRateSerializer(many=True)


class NoticedSampleSerializer(DataclassSerializer):
    """A sample that at least two physicians were asked about."""

    mirrors = NoticedSample

    physicians = NoticedSerializer()
    models = FailuresSerializer()


class NoticedReportSerializer(DataclassSerializer):
    """What physicians noticed, and what models fell for."""

    mirrors = NoticedReport
    shows = "answers traps groups samples"

    rate = serializers.CharField()
    asked = serializers.IntegerField(help_text="Samples with an answer from any physician.")


class NoticedViewSet(GenericViewSet[Run]):
    """Physicians and models on the same samples."""

    can = Can.READ_RESULTS
    queryset = Run.objects.all()

    @extend_schema(responses=NoticedReportSerializer)
    @action(detail=True)
    def noticed(self, request: Request, pk: int) -> Response:
        """What physicians noticed before a trap was revealed, and how often models fell for it."""
        report = queries.noticed_report(RUNS.get(pk))
        groups = [
            {
                "name": group.name,
                "samples": group.samples,
                "answers": group.answers,
                "rates": [
                    {
                        "endpoint": endpoint,
                        "value": rate.value,
                        "low": rate.low,
                        "high": rate.high,
                        "method": rate.method,
                        "clusters": rate.clusters,
                        "n": rate.n,
                    }
                    for endpoint, rate in zip(report.endpoints, group.rates, strict=True)
                ],
            }
            for group in report.groups
        ]
        values = {
            "rate": report.rate.name,
            "asked": report.asked,
            "answers": report.answers,
            "traps": report.traps,
            "groups": groups,
            "samples": report.samples,
        }
        return Response(NoticedReportSerializer(values).data)
