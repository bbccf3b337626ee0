"""The API of attempts."""

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
    """Decided versions of one group; a field is null if the versions are not grouped by it.

    `first`: how many of them are first versions. `mean`: mean attempts to approval, over approved
    samples.
    """

    mirrors = attempts.Attempts
    shows = f"trap=of.trap prompt=of.prompt generator=of.generator {attempts.SHOWN} mean"


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
        return Response(AttemptsSerializer(attempts.attempts(query["benchmark"], by), many=True).data)
