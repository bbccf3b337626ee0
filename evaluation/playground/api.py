"""The API of the playground."""

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.views import APIView

from evaluation import tasks
from evaluation.playground import services
from evaluation.playground.services import PlaygroundSettings, Prepared, TriedReply
from generation.jobs.serializers import SettingsSerializer
from generation.models import Endpoint
from review.common.actions import Body, answers
from review.common.api import NamedRowField
from review.common.decorators import signed_in_account
from review.common.serializers import WithValues, extended, serializer_of
from review.rules.permissions import Can


class PlaygroundSerializer(SettingsSerializer):
    """What to try, on what, and with which model."""

    settings_class = PlaygroundSettings

    endpoint = NamedRowField(queryset=Endpoint.objects.all())
    send = serializers.BooleanField(default=False, help_text="Send it once; otherwise only show what would be sent.")


PlaygroundAnswerSerializer = extended(
    "PlaygroundAnswer",
    serializer_of(Prepared),
    "The request as it would be sent and, if it was sent, its outcome.",
    sent=serializers.DictField(),
    outcome=serializer_of(TriedReply)(allow_null=True),
)


class Playground(APIView):
    """Try a prompt outside any batch or run."""

    can = Can.MEASURE

    @answers(PlaygroundAnswerSerializer, body=PlaygroundSerializer)
    def post(self, request: Request, body: Body) -> Any:
        """Show a prompt as it would be sent; with `send`, send it once: priced, in the ledger, in no result."""
        endpoint, send = body.pop("endpoint"), body.pop("send")
        asked = PlaygroundSettings(**body)
        prepared = services.prepare(asked, endpoint.model)
        outcome = None
        if send:
            outcome = tasks.try_out(asked, prepared, endpoint, actor=signed_in_account(request))
        return WithValues(prepared, sent=prepared.body(endpoint), outcome=outcome)
