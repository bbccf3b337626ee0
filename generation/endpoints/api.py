"""The API of endpoints."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from generation import tasks
from generation.endpoints import queries, services
from generation.endpoints.queries import DayTotals, UnknownEndings, UsageTotals
from generation.endpoints.testing import EndpointTest
from generation.jobs.live_status import EndpointStatus, endpoint_now
from generation.llm.provider_words import DECISIONS
from generation.models import ENDPOINT_FIELDS, ENV_NAME_PATTERN, Endpoint
from generation.models.endpoints import MAX_ENDING
from review.common.actions import Body, acts, answers
from review.common.api import OldestFirst, ShortDictField, validated_body
from review.common.serializers import Fields, extended, serializer_of
from review.rules.permissions import Can


class EndpointSerializer(serializers.ModelSerializer[Endpoint]):
    """A model at an OpenAI-compatible address.

    `key_env` is the NAME of a server variable; the key itself is not shown.
    """

    key_env = serializers.RegexField(ENV_NAME_PATTERN, max_length=100, allow_blank=True, default="")
    extra_body = ShortDictField(
        required=False,
        help_text="Further fields of each chat request. They are shown to everyone who may read endpoints.",
    )
    endings = ShortDictField(
        required=False,
        child=serializers.ChoiceField(choices=[str(meaning) for meaning in DECISIONS]),
        help_text="What finish reasons mean that MHB does not know.",
    )

    class Meta:
        model = Endpoint
        fields = [*ENDPOINT_FIELDS, "batch_discount", "context_found", "simulated", "disabled", "created_at"]
        read_only_fields = ["context_found", "simulated", "disabled", "created_at"]


class EndpointChangeSerializer(EndpointSerializer):
    """The fields of an endpoint that can change.

    All except its name and, once it has answered, its address and model.
    """

    class Meta(EndpointSerializer.Meta):
        read_only_fields = ["name", "context_found", "simulated", "disabled", "created_at"]


EndpointTestSerializer = extended(
    "EndpointTest",
    serializer_of(EndpointTest),
    """The result of asking an endpoint one question.

    `structured`: the output format that works (`json_schema`, `json_object`, `text`), or `unusable`
    if the reply did not match the schema. `model`: as named by the server. `context_tokens`: the
    length of its context, if it tells it. `findings`: what it cannot do of what jobs send: `code` and
    the server's words.
    """,
    at=serializers.DateTimeField(),
    cost=serializers.DecimalField(max_digits=18, decimal_places=8, help_text="In the currency of the prices."),
)

ENDPOINT_TEST_QUERY: Fields = {
    "images": serializers.BooleanField(default=False, help_text="Show a picture: one more call.")
}

DECISION_BODY: Fields = {
    "ending": serializers.CharField(max_length=MAX_ENDING),
    "meaning": serializers.ChoiceField(choices=[str(meaning) for meaning in DECISIONS]),
}


USAGE: Fields = {
    "now": serializer_of(EndpointStatus)(),
    "total": serializer_of(UsageTotals)(),
    "days": serializer_of(DayTotals)(many=True),
}


USAGE_QUERY: Fields = {
    "days": serializers.IntegerField(
        default=30, min_value=1, max_value=366, help_text="Number of days, up to today (UTC)."
    )
}


class EndpointViewSet(ListModelMixin, GenericViewSet[Endpoint]):
    """All endpoints, oldest first."""

    can = Can.CONNECT
    serializer_class = EndpointSerializer
    pagination_class = OldestFirst
    queryset = Endpoint.objects.all()
    lookup_field = "name"
    row = "<slug:name>"

    @answers(EndpointSerializer, body=EndpointSerializer, status=201)
    def create(self, request: Request, body: Body) -> Any:
        """Add an endpoint."""
        return services.add_endpoint(**body)

    def retrieve(self, request: Request, name: str) -> Response:
        """One endpoint."""
        return Response(EndpointSerializer(self.get_object()).data)

    @extend_schema(request=EndpointChangeSerializer(partial=True), responses=EndpointSerializer)
    def partial_update(self, request: Request, name: str) -> Response:
        """Change an endpoint: all except its name and, once it has answered, its address and model."""
        endpoint = self.get_object()
        wanted = validated_body(EndpointChangeSerializer, request, changed=endpoint)
        return Response(EndpointSerializer(services.change_endpoint(endpoint, **wanted)).data)

    @answers()
    def destroy(self, request: Request, name: str) -> None:
        """Delete an endpoint that was never used or tested; 409 otherwise: disable it instead."""
        services.delete_endpoint(self.get_object())

    @acts(EndpointSerializer)
    def disable(self, request: Request, name: str) -> Any:
        """Offer an endpoint no longer for new work; what runs goes on."""
        return services.set_disabled(self.get_object(), disabled=True)

    @acts(EndpointSerializer)
    def enable(self, request: Request, name: str) -> Any:
        """Offer a disabled endpoint again."""
        return services.set_disabled(self.get_object(), disabled=False)

    @answers(EndpointTestSerializer, query=ENDPOINT_TEST_QUERY)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, query: Body, name: str) -> Any:
        """Ask the endpoint one question as jobs ask: with a temperature, a token limit and a schema.

        The call costs money; `answered` says whether it worked.
        """
        return tasks.test_endpoint(self.get_object(), images=query["images"])

    @answers(UnknownEndings, many=True)
    @action(detail=True, pagination_class=None)
    def endings(self, request: Request, name: str) -> Any:
        """Endings of the last weeks' replies that nobody has decided about, the most frequent first."""
        return queries.unknown_endings(self.get_object())

    @answers(EndpointSerializer, body=DECISION_BODY)
    @endings.mapping.post  # type: ignore[untyped-decorator]
    def decide_ending(self, request: Request, body: Body, name: str) -> Any:
        """Decide what an ending means. Retry the failed rows then: what is paid for is read again."""
        return services.decide_ending(self.get_object(), **body)

    @answers(USAGE, query=USAGE_QUERY)
    @action(detail=True)
    def usage(self, request: Request, query: Body, name: str) -> Any:
        """An endpoint now, its totals, and its usage by day."""
        endpoint = self.get_object()
        total, days = queries.usage(endpoint, days=query["days"])
        usage: Any = {"now": endpoint_now(endpoint), "total": total, "days": days}
        return usage
