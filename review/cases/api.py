"""The API of cases, for those who oversee them."""

from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from review.assignments import annotation_formats, annotations, reassignment, retraction
from review.assignments.annotations import AnnotationImport
from review.audit.trail import record_read
from review.cases import queries, services
from review.cases.forms import LANGUAGE_CODE
from review.common.actions import Body, acts, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import (
    AnswersSerializer,
    Fields,
    SpecSerializer,
    WithValues,
    extended,
    related,
    rows_of,
)
from review.models import Assignment, Case, Event, Review, User
from review.rules import limits
from review.rules.permissions import Can, UserRole
from review.rules.state_machine import NOT_SAMPLED, Role, State
from review.turns.turn import readable_reviews

STATUSES = [*(state.value for state in State), NOT_SAMPLED]

CaseSerializer = rows_of(
    "Case",
    Case,
    """id benchmark kind lineage version title language specialty simulated priority state ground opened_at
    closed_at""",
    """A case with its state.

    `status`: the state, or `not-sampled` for a case not sampled for review.
    """,
    status=serializers.ChoiceField(choices=STATUSES, read_only=True),
)

HolderSerializer = rows_of(
    "Holder",
    Assignment,
    "id role phase hold lease_until",
    "Who holds which role. The token is known only to the holder.",
    physician=related("physician.username"),
    reserved_for=related("reserved_for.username"),
)

ReviewSerializer = rows_of(
    "Review",
    Review,
    "id role phase verdict inadequate submitted_at signed_as meaning",
    "What a physician submitted.",
    physician=serializers.CharField(source="physician.username"),
    guideline=serializers.IntegerField(
        source="guideline.version",
        allow_null=True,
        default=None,
        help_text="Guideline version in force; null: the built-in text.",
    ),
    answers=AnswersSerializer(),
)

EventSerializer = rows_of(
    "Event",
    Event,
    "sequence kind at hash",
    """One audit event.

    `data` holds what changed, by kind of event; `sequence` and `hash` link it into the chain.
    """,
    actor=related("actor.username"),
    data=serializers.DictField(),
)

CaseVersionSerializer = rows_of(
    "CaseVersion",
    Case,
    "id version state",
    "One version of the same sample.",
    status=serializers.ChoiceField(choices=STATUSES, read_only=True),
)

WholeCaseSerializer = extended(
    "WholeCase",
    CaseSerializer,
    "A case with its versions, holders, reviews and events.",
    spec=SpecSerializer(),
    assignments=HolderSerializer(many=True),
    reviews=ReviewSerializer(many=True),
    trail=EventSerializer(many=True),
    versions=CaseVersionSerializer(many=True),
)


CASE_QUERY: Fields = {
    "state": serializers.ChoiceField(
        choices=STATUSES, required=False, help_text="`approved` leaves out what is `not-sampled`."
    ),
    "benchmark": serializers.CharField(required=False, max_length=64),
    "text": serializers.CharField(
        required=False, max_length=200, help_text="Search text: in the title or the lineage."
    ),
    "language": serializers.CharField(
        required=False, max_length=16, help_text="ISO 639-1; `und`: unknown, waits for an admin."
    ),
    "kind": serializers.ChoiceField(
        choices=Case.Kind.choices, required=False, help_text="Kind of case; default: work."
    ),
}


WITHDRAW_BODY: Fields = {"reason": serializers.CharField(max_length=2000, help_text="The reason for the withdrawal.")}

PRIORITY_BODY: Fields = {
    "priority": serializers.IntegerField(
        min_value=limits.LEAST_PRIORITY,
        max_value=limits.MOST_PRIORITY,
        help_text="The priority of a case; cases with a higher one are assigned first.",
    )
}


def _whole(me: User, case: Case) -> WithValues:
    return WithValues(
        case,
        assignments=queries.assignments_of(case),
        reviews=readable_reviews(me, case),
        trail=queries.trail(case),
        versions=queries.versions(case),
    )


REASSIGN_BODY: Fields = {
    "role": serializers.ChoiceField(choices=[role.value for role in Role]),
    "physician": serializers.SlugRelatedField(
        slug_field="username",
        queryset=User.objects.filter(role=UserRole.PHYSICIAN),
        allow_null=True,
        help_text="The new holder; null: anybody may take it.",
    ),
}

SPECIALTY_BODY: Fields = {
    "specialty": serializers.CharField(
        max_length=100, allow_blank=True, help_text="The specialty that a case's reviewers need; empty: any."
    )
}

LANGUAGE_BODY: Fields = {
    "language": serializers.RegexField(
        LANGUAGE_CODE,
        max_length=16,
        allow_blank=True,
        help_text="The language that a case's reviewers must read (ISO 639-1); empty: any.",
    )
}

SET_BACK_BODY: Fields = {
    "role": serializers.ChoiceField(choices=[role.value for role in Role]),
    "reason": serializers.CharField(max_length=2000),
}

TASKS_QUERY: Fields = {
    "tool": serializers.ChoiceField(choices=annotation_formats.TOOLS),
    "benchmark": serializers.CharField(default="", max_length=64, help_text="Default: all."),
}


ANNOTATIONS_BODY: Fields = {
    "tool": serializers.ChoiceField(choices=annotation_formats.TOOLS),
    "file": serializers.FileField(max_length=300),
    "accounts": serializers.CharField(
        default="",
        allow_blank=True,
        max_length=20_000,
        help_text="NAME=ACCOUNT, one a line, where the tool knows a physician by another name.",
    ),
}


class CaseViewSet(GenericViewSet[Case]):
    """Cases, newest first."""

    can = Can.OVERSEE
    pagination_class = NewestFirst
    queryset = Case.objects.all()

    @answers(CaseSerializer, query=CASE_QUERY, paged=True)
    def list(self, request: Request, query: Body) -> Any:
        return queries.cases(**query).defer("spec")

    @answers({"files": serializers.DictField(child=serializers.CharField(), help_text="By name.")}, query=TASKS_QUERY)
    @action(detail=False, methods=["get"])
    def tasks(self, request: Request, query: Body) -> Any:
        """The questions about waiting cases as files for Label Studio or Argilla."""
        return {"files": annotations.task_files(query["tool"], query["benchmark"], actor=signed_in_account(request))}

    @answers(AnnotationImport, body=ANNOTATIONS_BODY)
    @action(detail=False, methods=["post"], parser_classes=[MultiPartParser])
    def annotations(self, request: Request, body: Body) -> Any:
        """Store annotations of another tool as drafts of the physicians who made them.

        They check and submit them here. 422 if the file is not an export of the tool.
        """
        actor = signed_in_account(request)
        file, accounts = body["file"], body["accounts"].splitlines()
        return annotations.import_file(body["tool"], file, file.name, accounts=accounts, actor=actor)

    @answers(WholeCaseSerializer)
    def retrieve(self, request: Request, pk: int) -> Any:
        """A case with its reviews and its full history."""
        reader, case = signed_in_account(request), self.get_object()
        record_read(reader, case)
        return _whole(reader, case)

    @acts(CaseSerializer, WITHDRAW_BODY)
    def withdraw(self, request: Request, body: Body, pk: int) -> Any:
        """Withdraw a case from review for good. 409 if it has ended."""
        return services.withdraw(self.get_object().pk, actor=signed_in_account(request), **body)

    @acts(CaseSerializer, PRIORITY_BODY)
    def priority(self, request: Request, body: Body, pk: int) -> Any:
        """Set a case's priority in the queue. 409 if it has ended."""
        return services.prioritise(self.get_object().pk, actor=signed_in_account(request), **body)

    @acts(HolderSerializer, REASSIGN_BODY)
    def reassign(self, request: Request, body: Body, pk: int) -> Any:
        """Reassign a role to a named physician, or to anybody. 409 once an answer is committed."""
        role, actor = Role(body["role"]), signed_in_account(request)
        return reassignment.reassign(self.get_object().pk, role, to=body["physician"], actor=actor)

    @acts(CaseSerializer, SPECIALTY_BODY)
    def specialty(self, request: Request, body: Body, pk: int) -> Any:
        """Limit a case to physicians of a specialty and to those with none on record.

        409 if it has ended.
        """
        return services.set_specialty(self.get_object().pk, actor=signed_in_account(request), **body)

    @acts(CaseSerializer, LANGUAGE_BODY)
    def language(self, request: Request, body: Body, pk: int) -> Any:
        """Limit a case to physicians who read a language and to those with none on record.

        A case whose language is `und` is offered to nobody until this is set. 409 if it has ended.
        """
        return services.set_language(self.get_object().pk, actor=signed_in_account(request), **body)

    @acts(HolderSerializer, SET_BACK_BODY, url_path="set-back")
    def set_back(self, request: Request, body: Body, pk: int) -> Any:
        """Reopen a role whose holder answered and left before the confirmation or the second vote.

        Else 409.
        """
        role, actor = Role(body["role"]), signed_in_account(request)
        return retraction.reopen_role(self.get_object().pk, role, actor=actor, reason=body["reason"])
