"""The API of attempts, and the reopening of what a careless physician approved."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from generation.outcomes import attempts, reopening
from generation.recipes.serializers import known_benchmark
from review.common.actions import Body, acts, answers
from review.common.decorators import signed_in_account
from review.common.serializers import DataclassSerializer
from review.people.queries import physician
from review.quality.api import SetAsideRequest
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
        return attempts.attempts(query["benchmark"], query.get("by", ()))


class ReopenedSerializer(DataclassSerializer):
    """`cases`: that others review again; `kept`: left, as the first reviewer was asked about their
    wording; `released`: ids of samples in releases, to be withdrawn if they are wrong.
    """

    mirrors = reopening.Reopened


class ReopeningViewSet(ViewSet):
    """Approved samples of a physician."""

    can = Can.OVERSEE

    @acts(ReopenedSerializer, SetAsideRequest)
    def reopen(self, request: Request, body: Body, pk: int) -> Any:
        """Have approved samples that are in no release reviewed again without this physician."""
        return reopening.reopen(physician(pk).pk, actor=signed_in_account(request), **body)
