"""The API of attempts."""

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from generation.outcomes import attempts
from generation.recipes.serializers import known_benchmark
from review.common.api import validated_query
from review.common.serializers import DataclassSerializer
from review.rules.permissions import Can


class AttemptsSerializer(DataclassSerializer):
    """Decided versions of one group; a field is null if the versions are not grouped by it."""

    mirrors = attempts.Attempts
    shows = "decided approved first_approved"

    trap = serializers.CharField(allow_null=True)
    prompt = serializers.CharField(allow_null=True)
    generator = serializers.CharField(allow_null=True)
    first = serializers.IntegerField(help_text="How many of them are first versions.")
    mean = serializers.FloatField(allow_null=True, help_text="Mean attempts to approval, over approved samples.")


class AttemptsQuery(serializers.Serializer[Any]):
    """The benchmark, and what to group by."""

    benchmark = serializers.CharField(max_length=64, validators=[known_benchmark])
    by = serializers.MultipleChoiceField(choices=attempts.GROUPINGS, required=False)


class AttemptsViewSet(ViewSet):
    """Attempts to approval by trap, prompt and generator, or by some of them."""

    can = Can.PRODUCE
    plural = "attempts"

    @extend_schema(parameters=[AttemptsQuery], responses=AttemptsSerializer(many=True))
    def list(self, request: Request) -> Response:
        query = validated_query(AttemptsQuery, request)
        by = [name for name in attempts.GROUPINGS if name in (query.get("by") or attempts.GROUPINGS)]
        ungrouped = dict.fromkeys(attempts.GROUPINGS)
        rows = [
            {**ungrouped, **asdict(row), "mean": row.mean, **dict(zip(by, row.key, strict=True))}
            for row in attempts.attempts(query["benchmark"], by)
        ]
        return Response(AttemptsSerializer(rows, many=True).data)
