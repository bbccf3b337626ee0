"""The API of webhooks, and of what was sent to them and to people."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from generation import tasks
from generation.models import ENV_NAME_PATTERN
from generation.notifications import services
from review.common.actions import Body, acts, answers
from review.common.api import NewestFirst, OldestFirst, validated_body
from review.common.serializers import Fields
from review.models import Delivery, User, Webhook
from review.rules.permissions import Can


class WebhookSerializer(serializers.ModelSerializer[Webhook]):
    """A webhook. `secret_env` is the NAME of a server variable; the secret is not shown."""

    secret_env = serializers.RegexField(ENV_NAME_PATTERN, max_length=100)
    occasions = serializers.ListField(
        child=serializers.ChoiceField(choices=services.OCCASIONS), max_length=len(services.OCCASIONS)
    )

    class Meta:
        model = Webhook
        fields = [*services.FIELDS, "created_at"]
        read_only_fields = ["created_at"]


class DeliverySerializer(serializers.ModelSerializer[Delivery]):
    """A message to a webhook, or to a person by e-mail. `key` is sent to webhooks as
    X-MHB-Delivery, the same at each try.
    """

    webhook = serializers.SlugRelatedField[Webhook]("name", read_only=True)
    person = serializers.SlugRelatedField[User]("username", read_only=True)

    class Meta:
        model = Delivery
        fields = ["key", "webhook", "person", "occasion", "status", "tries", "error", "created_at", "next_at"]
        read_only_fields = fields


DELIVERY_QUERY: Fields = {
    "to": serializers.CharField(required=False, max_length=60, help_text="Name of a webhook; `@`: e-mails."),
    "status": serializers.ChoiceField(choices=Delivery.Status.choices, required=False),
}


class WebhookViewSet(ListModelMixin, GenericViewSet[Webhook]):
    """All webhooks, oldest first."""

    can = Can.CONNECT
    serializer_class = WebhookSerializer
    pagination_class = OldestFirst
    queryset = Webhook.objects.all()
    lookup_field = "name"
    row = "<slug:name>"

    @answers(WebhookSerializer, body=WebhookSerializer, status=201)
    def create(self, request: Request, body: Body) -> Any:
        """Add a webhook."""
        return services.save_webhook(Webhook(), **body)

    @extend_schema(request=WebhookSerializer(partial=True), responses=WebhookSerializer)
    def partial_update(self, request: Request, name: str) -> Response:
        """Change a webhook. `active` false switches it off and drops its waiting messages."""
        hook = self.get_object()
        wanted = validated_body(WebhookSerializer, request, changed=hook)
        return Response(WebhookSerializer(services.save_webhook(hook, **wanted)).data)

    @acts(DeliverySerializer)
    def test(self, request: Request, name: str) -> Any:
        """Send a test now; `status` and `error` say how it went. It is not repeated."""
        return tasks.test_webhook(self.get_object())

    @answers()
    def destroy(self, request: Request, name: str) -> None:
        """Delete a webhook that has received no message; 409 otherwise: switch it off instead."""
        services.delete_webhook(self.get_object())


class DeliveryViewSet(GenericViewSet[Delivery]):
    """What was sent to webhooks and people."""

    can = Can.CONNECT
    serializer_class = DeliverySerializer
    pagination_class = NewestFirst
    queryset = Delivery.objects.none()
    plural = "deliveries"

    @answers(DeliverySerializer, query=DELIVERY_QUERY, paged=True)
    def list(self, request: Request, query: Body) -> Any:
        """Messages of the last month, sent or waiting; newest first."""
        return services.deliveries(**query)
