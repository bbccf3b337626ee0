"""The API of accounts: the caller's own, and everybody's for admins."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from review.access import visibility
from review.assignments import case_queue
from review.calibration import queries
from review.calibration.queries import CalibrationStanding
from review.common.actions import Body, acts, answers
from review.common.api import OldestFirst, ShortListField, validated_body
from review.common.decorators import signed_in_account
from review.common.serializers import (
    Fields,
    WithValues,
    related,
    rows_of,
    serializer_of,
)
from review.models import PersonEvent, User
from review.models.enums import values_of
from review.people import accounts, invitations, roster
from review.people.anonymise import anonymise
from review.people.invitations import Invitation
from review.people.roster import ImportedPerson, RosterRefusal
from review.rules.permissions import Can, allowed
from review.rules.state_machine import State

MeSerializer = rows_of(
    "Me",
    User,
    "username role institution hospital specialty languages",
    "Your account. `can`: what its role allows.",
    name=serializers.CharField(),
    can=serializers.ListField(child=serializers.ChoiceField(choices=values_of(Can))),
)


class Me(APIView):
    """Your account and what you may do."""

    permission_classes = [IsAuthenticated]

    @answers(MeSerializer)
    def get(self, request: Request) -> Any:
        me = signed_in_account(request)
        return WithValues(me, name=str(me), can=[can for can in Can if allowed(me, can)])


STAGES = [state.value for state in State if not state.final]


class PersonSerializer(serializers.ModelSerializer[Any]):
    """An account. `specialty`: separated by commas; `specialties`: the same as a list.
    `paused_at`: when new cases were paused. `invited_at`: when the open invitation was made.
    `senior`: may decide where a policy asks for it. `simulated`: a script, not a person.
    """

    specialties = serializers.ListField(child=serializers.CharField(), read_only=True)
    languages = ShortListField(child=serializers.RegexField("^[a-z]{2,3}$"), required=False)
    stages = ShortListField(child=serializers.ChoiceField(choices=STAGES), required=False)
    daily_cap = serializers.IntegerField(min_value=1, max_value=1000, allow_null=True, required=False)

    class Meta:
        model = User
        fields = ["id", "username", "role", "is_active", *accounts.PERSONAL, "specialty", "specialties", "languages",
                  "stages", "senior", "daily_cap", "paused_at", "invited_at", "simulated"]  # fmt: skip
        read_only_fields = ["username", "role", "is_active", "paused_at", "invited_at", "simulated"]


def _password(**options: Any) -> serializers.CharField:
    return serializers.CharField(
        write_only=True, max_length=4096, trim_whitespace=False, style={"input_type": "password"}, **options
    )


class NewPersonSerializer(PersonSerializer):
    """A new account with its first password, which is handed over in person. Without one, invite
    the person.
    """

    password = _password(required=False)

    class Meta(PersonSerializer.Meta):
        fields = [*PersonSerializer.Meta.fields, "password"]
        read_only_fields = ["is_active", "paused_at", "invited_at", "simulated"]


# What an import did, or would do.
IMPORT_REPORT: Fields = {
    "file": serializers.CharField(),
    "added": serializers.IntegerField(),
    "people": serializer_of(ImportedPerson)(many=True),
    "refusals": serializer_of(RosterRefusal)(many=True, help_text="With one, no account is created."),
}
ROSTER_BODY: Fields = {
    "csv": serializers.CharField(
        trim_whitespace=False, max_length=roster.MAX_BYTES, help_text="The people, with a header."
    ),
    "file": serializers.CharField(max_length=200, default="csv", help_text="Its name, for refusals."),
    "dry_run": serializers.BooleanField(default=False, help_text="Only show what would happen."),
}


PersonEventSerializer = rows_of(
    "PersonEvent",
    PersonEvent,
    "kind at",
    "A change to an account.",
    actor=related("actor.username"),
    data=serializers.DictField(),
)


class WholePersonSerializer(PersonSerializer):
    """An account with its calibration and its changes, newest first."""

    today = serializers.IntegerField(help_text="Cases answered since midnight, in the site's time zone.")
    given_back = serializers.IntegerField(help_text="Cases returned or declined in the last hour.")
    calibration = serializer_of(CalibrationStanding)(many=True)
    trail = PersonEventSerializer(many=True)

    class Meta(PersonSerializer.Meta):
        fields = [*PersonSerializer.Meta.fields, "today", "given_back", "calibration", "trail"]


PAUSE_BODY: Fields = {"paused": serializers.BooleanField(help_text="Whether the physician gets no new cases.")}


class PersonViewSet(ListModelMixin, GenericViewSet[User]):
    """Accounts, oldest first."""

    can = Can.OVERSEE
    serializer_class = PersonSerializer
    pagination_class = OldestFirst
    queryset = User.objects.all()
    plural = "people"

    @answers(PersonSerializer, body=NewPersonSerializer, status=201)
    def create(self, request: Request, body: Body) -> Any:
        """Create an account; there is no self-registration. Without a password, nobody can sign in
        until an invitation is used.
        """
        password = body.pop("password", None)
        return accounts.add_person(User(**body), password, actor=signed_in_account(request))

    @answers(IMPORT_REPORT, body=ROSTER_BODY)
    @action(detail=False, methods=["post"], url_path="import", url_name="import")
    def import_(self, request: Request, body: Body) -> Any:
        """Create the accounts listed in a CSV file, all or none, and invite each person. 422 if a
        row is refused.
        """
        parsed = roster.read_roster(body["file"], body["csv"].encode())
        users: list[User] = []
        if not body["dry_run"]:
            users = accounts.import_people(parsed, actor=signed_in_account(request))
        sent = invitations.send_invitations(users, request.build_absolute_uri("/"))
        return roster.import_report(parsed, invitations.invitations_as_json(sent))

    @acts(Invitation)
    def invite(self, request: Request, pk: int) -> Any:
        """Create an invitation for an account without a password. It replaces the previous one. 409
        if there is a password.
        """
        user = accounts.invite(self.get_object().pk, actor=signed_in_account(request))
        [sent] = invitations.send_invitations([user], request.build_absolute_uri("/"))
        return sent

    @acts(PersonSerializer)
    def uninvite(self, request: Request, pk: int) -> Any:
        """Withdraw an invitation: its link is no longer valid."""
        return accounts.withdraw_invitation(self.get_object().pk, actor=signed_in_account(request))

    @answers(WholePersonSerializer)
    def retrieve(self, request: Request, pk: int) -> Any:
        """One account."""
        user = self.get_object()
        return WithValues(
            user,
            today=case_queue.done_today(user),
            given_back=visibility.count_released_cases(user),
            calibration=queries.standings(user),
            trail=accounts.account_trail(user),
        )

    @extend_schema(request=PersonSerializer, responses=PersonSerializer)
    def partial_update(self, request: Request, pk: int) -> Response:
        """Change the profile that decides which cases a person is offered."""
        body = validated_body(PersonSerializer, request, changed=self.get_object())
        return Response(PersonSerializer(accounts.edit_person(pk, body, actor=signed_in_account(request))).data)

    @acts(PersonSerializer, PAUSE_BODY)
    def pause(self, request: Request, body: Body, pk: int) -> Any:
        """Stop or restart assigning new cases to a physician. Current cases can be finished."""
        return accounts.set_paused(self.get_object().pk, **body, actor=signed_in_account(request))

    @acts(PersonSerializer)
    def anonymise(self, request: Request, pk: int) -> Any:
        """Close an account for good and remove names, addresses and sign-ins. Reviews stay."""
        return anonymise(self.get_object().pk, actor=signed_in_account(request))

    @acts(PersonSerializer, {"active": serializers.BooleanField(help_text="Whether the person may sign in.")})
    def active(self, request: Request, body: Body, pk: int) -> Any:
        """Close an account, or reopen it. Closing ends its sessions and tokens; the person's work
        is kept.
        """
        return accounts.set_active(self.get_object().pk, **body, actor=signed_in_account(request))

    @acts(PersonSerializer, {"password": _password(help_text="A new password, which is handed over in person.")})
    def password(self, request: Request, body: Body, pk: int) -> Any:
        """Set a person's password. This ends all of that person's sessions and tokens."""
        return accounts.set_password(self.get_object().pk, **body, actor=signed_in_account(request))

    @acts(PersonSerializer, url_path="second-factor")
    def second_factor(self, request: Request, pk: int) -> Any:
        """Remove a lost second factor together with its recovery codes."""
        return accounts.remove_second_factor(self.get_object().pk, actor=signed_in_account(request))
