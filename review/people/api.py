"""The API's description of the caller."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from review.access import visibility
from review.assignments import eligibility
from review.calibration import queries
from review.common.api import OldestFirst, sent
from review.common.decorators import person
from review.models import PersonEvent, User
from review.people import accounts
from review.rules.permissions import Can, allowed
from review.rules.state_machine import State


class MeSerializer(serializers.ModelSerializer[Any]):
    """The own account. `can`: what its role lets it do."""

    name = serializers.CharField()
    can = serializers.ListField(child=serializers.ChoiceField(choices=[can.value for can in Can]))

    class Meta:
        model = User
        fields = ["username", "name", "role", "can", "hospital", "specialty", "languages"]


class Me(APIView):
    """Who I am and what I may do."""

    permission_classes = [IsAuthenticated]

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        me = person(request)
        about = {name: getattr(me, name) for name in ("username", "role", "hospital", "specialty", "languages")}
        return Response(MeSerializer({**about, "name": str(me), "can": [can for can in Can if allowed(me, can)]}).data)


STAGES = [state.value for state in State if not state.final]


class PersonSerializer(serializers.ModelSerializer[Any]):
    """An account. `paused_at`: since when no new case is handed out. `simulated`: a scripted stand-in, no person."""

    languages = serializers.ListField(child=serializers.RegexField("^[a-z]{2,3}$"), required=False)
    stages = serializers.ListField(child=serializers.ChoiceField(choices=STAGES), required=False)
    daily_cap = serializers.IntegerField(min_value=1, max_value=1000, allow_null=True, required=False)

    class Meta:
        model = User
        fields = [
            "id", "username", "role", "is_active", "first_name", "last_name", "hospital", "specialty", "languages", "stages",
            "daily_cap", "paused_at", "simulated",
        ]  # fmt: skip
        read_only_fields = ["username", "role", "is_active", "paused_at", "simulated"]


class PersonEventSerializer(serializers.ModelSerializer[PersonEvent]):
    """What was done to an account."""

    actor = serializers.CharField(source="actor.username", allow_null=True, default=None)
    data = serializers.DictField()  # type: ignore[assignment]

    class Meta:
        model = PersonEvent
        fields = ["kind", "actor", "at", "data"]


class StandingSerializer(serializers.Serializer[Any]):
    """How a physician does in one benchmark's calibration: the last items, and the share of expected answers given."""

    benchmark = serializers.CharField()
    answered = serializers.IntegerField()
    needed = serializers.IntegerField()
    share = serializers.FloatField(allow_null=True)
    passed = serializers.BooleanField()


class WholePersonSerializer(PersonSerializer):
    """An account with its calibration and with what was done to it, newest first."""

    today = serializers.IntegerField(help_text="Cases answered since midnight UTC.")
    given_back = serializers.IntegerField(help_text="Cases given back or declined in the last hour.")
    calibration = StandingSerializer(many=True)
    trail = PersonEventSerializer(many=True)

    class Meta(PersonSerializer.Meta):
        fields = [*PersonSerializer.Meta.fields, "today", "given_back", "calibration", "trail"]


class PauseSerializer(serializers.Serializer[Any]):
    """Whether new cases are held back."""

    paused = serializers.BooleanField()


def _person(shown: User) -> dict[str, Any]:
    return {
        **{name: getattr(shown, name) for name in PersonSerializer.Meta.fields},
        "today": eligibility.done_today(shown),
        "given_back": visibility.given_back(shown, visibility.HOUR),
        "calibration": queries.standings(shown),
        "trail": accounts.account_trail(shown),
    }


class AccountList(ListAPIView[User]):
    """Accounts, the oldest first."""

    can = Can.OVERSEE
    serializer_class = PersonSerializer
    pagination_class = OldestFirst

    def get_queryset(self) -> QuerySet[User]:
        return User.objects.all()


class PersonDetail(GenericAPIView[User]):
    """One account; PATCH changes what decides which cases the person is offered."""

    can = Can.OVERSEE
    queryset = User.objects.all()

    @extend_schema(responses=WholePersonSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return Response(WholePersonSerializer(_person(self.get_object())).data)

    @extend_schema(request=PersonSerializer, responses=PersonSerializer)
    def patch(self, request: Request, pk: int) -> Response:
        body = PersonSerializer(self.get_object(), data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        return Response(PersonSerializer(accounts.edit_person(pk, body.validated_data, actor=person(request))).data)


class Pause(GenericAPIView[User]):
    """Hand a physician no new cases, or hand out again. What is in hand can be finished."""

    can = Can.OVERSEE
    queryset = User.objects.all()

    @extend_schema(request=PauseSerializer, responses=PersonSerializer)
    def post(self, request: Request, pk: int) -> Response:
        paused = sent(PauseSerializer, request)["paused"]
        return Response(PersonSerializer(accounts.set_paused(self.get_object().pk, paused, actor=person(request))).data)
