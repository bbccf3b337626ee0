"""The API of attempts, and the reopening of what a careless physician approved."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from generation.outcomes import attempts, reopening
from generation.outcomes.attempts import Attempts
from generation.outcomes.reopening import Reopened
from generation.recipes.serializers import known_benchmark
from review.common.actions import Body, acts, answers
from review.common.decorators import signed_in_account
from review.common.serializers import Fields
from review.people.queries import physician
from review.quality.api import SET_ASIDE_BODY
from review.rules.permissions import Can

ATTEMPTS_QUERY: Fields = {
    "benchmark": serializers.CharField(max_length=64, validators=[known_benchmark]),
    "by": serializers.MultipleChoiceField(choices=attempts.GROUPINGS, required=False),
}


class AttemptsViewSet(ViewSet):
    """Attempts to approval by trap, prompt and generator, or by some of them."""

    can = Can.PRODUCE
    plural = "attempts"

    @answers(Attempts, query=ATTEMPTS_QUERY, many=True)
    def list(self, request: Request, query: Body) -> Any:
        return attempts.attempts(query["benchmark"], query.get("by", ()))


class ReopeningViewSet(ViewSet):
    """Approved samples of a physician."""

    can = Can.OVERSEE

    @acts(Reopened, SET_ASIDE_BODY)
    def reopen(self, request: Request, body: Body, pk: int) -> Any:
        """Have approved samples that are in no release reviewed again without this physician."""
        return reopening.reopen(physician(pk).pk, actor=signed_in_account(request), **body)
