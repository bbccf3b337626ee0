"""The API of attempts."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from generation.outcomes import attempts
from generation.recipes.serializers import known_benchmark
from review.common.actions import Body, answers
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

    @answers(AttemptsSerializer, query=AttemptsQuery, many=True)
    def list(self, request: Request, query: Body) -> Any:
        by = [name for name in attempts.GROUPINGS if name in (query.get("by") or attempts.GROUPINGS)]
        return attempts.attempts(query["benchmark"], by)
