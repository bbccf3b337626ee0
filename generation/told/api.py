"""The API of webhooks."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from generation import tasks
from generation.models import ENV_NAME_PATTERN
from generation.told import services
from review.common.actions import Body, acts, answers
from review.common.api import OldestFirst, validated_body
from review.models import Delivery, Webhook
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
    """A message to a webhook. `key` is sent as X-MHB-Delivery, the same at each try."""

    class Meta:
        model = Delivery
        fields = ["key", "occasion", "status", "tries", "error", "created_at", "next_at"]
        read_only_fields = fields


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

    @extend_schema(responses=DeliverySerializer(many=True))
    @action(detail=True, pagination_class=OldestFirst)
    def deliveries(self, request: Request, name: str) -> Response:
        """Messages to a webhook of the last month, sent or waiting; oldest first."""
        rows: Any = Delivery.objects.filter(webhook=self.get_object())
        page: Any = self.paginate_queryset(rows)
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)
