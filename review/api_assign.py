"""The API of who works on what: declining and reporting, handing over, accounts, calibration. Thin edges over services."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from review import accounts, eligibility, queries, services, training
from review.access import person
from review.api import AnswersSerializer, CaseSerializer, HolderSerializer, TokenSerializer
from review.machine import Role, State
from review.models import CalibrationItem, Case, Declined, PersonEvent, User
from review.permissions import Can, UserRole
from review.rest import NewestFirst, OldestFirst, sent
from review.spec import answers_from_json

STAGES = [state.value for state in State if not state.final]

# ------------------------------------------------------------------------------------------------------- physicians


class DeclineSerializer(TokenSerializer):
    """Why not."""

    reason = serializers.ChoiceField(choices=Declined.Reason.choices)
    text = serializers.CharField(allow_blank=True, default="", max_length=2000)


class ProblemTextSerializer(serializers.Serializer[Any]):
    """What is wrong."""

    text = serializers.CharField(max_length=2000)


class Decline(APIView):
    """Decline a case for good: it goes to somebody else and is not offered to you again."""

    can = Can.REVIEW

    @extend_schema(request=DeclineSerializer, responses={204: None})
    def post(self, request: Request, assignment_id: int) -> Response:
        body = sent(DeclineSerializer, request)
        reason = Declined.Reason(body["reason"])
        services.decline(person(request), assignment_id, body["token"], reason, body["text"])
        return Response(status=204)


class Report(APIView):
    """Tell the admins that something is wrong with a case. You keep it."""

    can = Can.REVIEW

    @extend_schema(request=ProblemTextSerializer, responses={204: None})
    def post(self, request: Request, assignment_id: int) -> Response:
        services.report_problem(person(request), assignment_id, sent(ProblemTextSerializer, request)["text"])
        return Response(status=204)


# ------------------------------------------------------------------------------------------------------ handing over


class ReassignSerializer(serializers.Serializer[Any]):
    """Which role goes to whom; null: to anybody."""

    role = serializers.ChoiceField(choices=[role.value for role in Role])
    physician = serializers.SlugRelatedField(
        slug_field="username", queryset=User.objects.filter(role=UserRole.PHYSICIAN), allow_null=True
    )


class Reassign(GenericAPIView[Case]):
    """Take a role from its holder and hand it to somebody, or to anybody. After an answer was committed: 409."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(request=ReassignSerializer, responses=HolderSerializer)
    def post(self, request: Request, pk: int) -> Response:
        body = sent(ReassignSerializer, request)
        assignment = services.reassign(
            self.get_object().pk, Role(body["role"]), to=body["physician"], actor=person(request)
        )
        return Response(HolderSerializer(assignment).data)


class SpecialtySerializer(serializers.Serializer[Any]):
    """Of which specialty whoever reviews a case has to be; empty: of any."""

    specialty = serializers.CharField(max_length=100, allow_blank=True)


class SetSpecialty(GenericAPIView[Case]):
    """Hand a case only to physicians of a specialty, and to those with none on record. One that has ended: 409."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(request=SpecialtySerializer, responses=CaseSerializer)
    def post(self, request: Request, pk: int) -> Response:
        specialty = sent(SpecialtySerializer, request)["specialty"]
        case = services.set_specialty(self.get_object().pk, specialty, actor=person(request))
        return Response(CaseSerializer(case).data)


class SetBackSerializer(serializers.Serializer[Any]):
    """Which role, and why."""

    role = serializers.ChoiceField(choices=[role.value for role in Role])
    reason = serializers.CharField(max_length=2000)


class SetBack(GenericAPIView[Case]):
    """Open a role anew whose holder has answered and left before the confirmation or the second vote. Else: 409."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(request=SetBackSerializer, responses=HolderSerializer)
    def post(self, request: Request, pk: int) -> Response:
        body = sent(SetBackSerializer, request)
        role, actor = Role(body["role"]), person(request)
        assignment = services.set_back(self.get_object().pk, role, actor=actor, reason=body["reason"])
        return Response(HolderSerializer(assignment).data)


# ---------------------------------------------------------------------------------------------------------- accounts


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
        "given_back": queries.given_back(shown, queries.HOUR),
        "calibration": training.standings(shown),
        "trail": accounts.account_trail(shown),
    }


class People(ListAPIView[User]):
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


class GiveAgainSerializer(serializers.Serializer[Any]):
    """How many calibration cases were put before the physician."""

    items = serializers.IntegerField()


class GiveAgain(GenericAPIView[User]):
    """Offer a physician the calibration cases anew."""

    can = Can.OVERSEE
    queryset = User.objects.filter(role=UserRole.PHYSICIAN)

    @extend_schema(request=None, responses=GiveAgainSerializer)
    def post(self, request: Request, pk: int) -> Response:
        return Response({"items": training.give_again(self.get_object(), actor=person(request))})


# ------------------------------------------------------------------------------------------------------- calibration


class CalibrationSerializer(serializers.ModelSerializer[CalibrationItem]):
    """A case with a known answer. Of `expected`, only the values count; a blank one is not asked."""

    expected = AnswersSerializer(required=False)

    class Meta:
        model = CalibrationItem
        fields = ["id", "benchmark", "title", "active", "expected", "created_at"]
        read_only_fields = ["benchmark", "title", "created_at"]


@extend_schema_view(get=extend_schema(responses=CalibrationSerializer))
class Calibration(ListAPIView[CalibrationItem]):
    """Calibration cases, newest first."""

    can = Can.OVERSEE
    serializer_class = CalibrationSerializer
    pagination_class = NewestFirst

    def get_queryset(self) -> QuerySet[CalibrationItem]:
        return training.items().defer("spec")


class CalibrationDetail(APIView):
    """Take a calibration case out of use or back in, or put other answers as the known ones."""

    can = Can.OVERSEE

    @extend_schema(request=CalibrationSerializer, responses=CalibrationSerializer)
    def patch(self, request: Request, pk: int) -> Response:
        item = get_object_or_404(CalibrationItem, pk=pk)
        body = CalibrationSerializer(item, data=request.data, partial=True)
        body.is_valid(raise_exception=True)
        expected = body.validated_data.get("expected")
        training.change_item(
            item,
            actor=person(request),
            expected=answers_from_json(expected) if expected is not None else None,
            active=body.validated_data.get("active"),
        )
        return Response(CalibrationSerializer(item).data)


class MakeCalibration(GenericAPIView[Case]):
    """Make a calibration case of one that was approved or rejected; the known answers are those it settled on. Else: 409."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(request=None, responses={201: CalibrationSerializer})
    def post(self, request: Request, pk: int) -> Response:
        case = self.get_object()
        item = training.make_item(case, training.suggested(case), actor=person(request))
        return Response(CalibrationSerializer(item).data, status=201)
