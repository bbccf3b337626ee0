"""The API of the audit trail."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from review.audit import acts, exports, verification
from review.audit.exports import Exported
from review.audit.verification import AuditFault
from review.cases.api import EventSerializer
from review.common.actions import Body, answers
from review.common.api import NewestFirst, paginated_response, validated_query
from review.common.decorators import signed_in_account
from review.common.serializers import RowSerializer, serializer_of
from review.models import Audit, Event, PersonEvent
from review.rules.limits import MAX_ID
from review.rules.permissions import Can


class CheckSerializer(RowSerializer):
    """One check of the trail: its progress and its result.

    `faults` are the first of `faults_count`.
    """

    asked_by = serializers.CharField(source="asked_by.username", default=None, allow_null=True)

    faults = serializers.SerializerMethodField()

    class Meta:
        model = Audit
        fields = [
            "id", "asked_at", "seen_at", "ended_at", "total", "checked", "reviews", "unsealed", "sequence",
            "hash", "faults_count",
        ]  # fmt: skip

    @extend_schema_field(serializer_of(AuditFault)(many=True))
    def get_faults(self, audit: Audit) -> Any:
        return serializer_of(AuditFault)(verification.faults(audit), many=True).data


class AuditSerializer(serializers.Serializer[Any]):
    """The latest check (null if there is none), and whether a worker is running it.

    `ends`: where both chains end now, as `cases:SEQUENCE:HASH` and `accounts:SEQUENCE:HASH`.
    `contains`: whether the chain still has the event of the anchor; null without one.
    """

    running = serializers.BooleanField()
    check = CheckSerializer(allow_null=True, source="last")
    ends = serializers.ListField(child=serializers.CharField())
    contains = serializers.BooleanField(allow_null=True)


class AnchorQuery(serializers.Serializer[Any]):
    """The end of a chain, noted earlier: `[cases:|accounts:]SEQUENCE:HASH`."""

    anchor = serializers.RegexField(verification.ANCHOR_FORMAT, required=False)


class AuditEventSerializer(EventSerializer):
    """One entry of the trail of all cases."""

    class Meta(EventSerializer.Meta):
        fields = [*EventSerializer.Meta.fields, "case"]


class ActSerializer(RowSerializer):
    """Something done to an account (`person`) or to the site; `data` says to what, and what changed."""

    actor = serializers.CharField(source="actor.username", default=None, allow_null=True)
    person = serializers.CharField(source="person.username", default=None, allow_null=True)

    class Meta:
        model = PersonEvent
        fields = ["sequence", "kind", "at", "data", "previous", "hash"]


_DAYS = [MinValueValidator(acts.FIRST_DAY), MaxValueValidator(acts.LAST_DAY)]


class ActQuery(serializers.Serializer[Any]):
    """Filters of acts. `since` and `until` are dates in UTC, both included."""

    actor = serializers.CharField(max_length=150, required=False)
    kind = serializers.ChoiceField(choices=PersonEvent.Kind.choices, required=False)
    since = serializers.DateField(required=False, validators=_DAYS)
    until = serializers.DateField(required=False, validators=_DAYS)


class EventQuery(ActQuery):
    """The filters of acts, and the case."""

    case = serializers.IntegerField(min_value=1, max_value=MAX_ID, required=False)
    kind = serializers.ChoiceField(choices=Event.Kind.choices, required=False)


class ChecksumQuery(serializers.Serializer[Any]):
    """The SHA-256 of an export's `SHA256SUMS`, in hexadecimal digits."""

    sha256 = serializers.RegexField(exports.CHECKSUM)


class ChecksumSerializer(serializers.Serializer[Any]):
    """Whether the site wrote files with a checksum; null if it did not."""

    exported = serializer_of(Exported)(allow_null=True)


def _report(anchor: str | None = None) -> dict[str, Any]:
    contains = None
    if anchor:
        contains = verification.contains(anchor)
    return {
        "running": verification.check_in_progress() is not None,
        "last": verification.latest(),
        "ends": verification.ends(),
        "contains": contains,
    }


class AuditViewSet(GenericViewSet[Event]):
    """The audit trail."""

    can = Can.OVERSEE

    @answers(AuditSerializer, query=AnchorQuery)
    def show(self, request: Request, query: Body) -> Any:
        """The result of the latest integrity check, the ends of both chains, and an anchor's."""
        return _report(query.get("anchor"))

    @answers(AuditSerializer, status=202)
    @action(detail=False, methods=["post"])
    def check(self, request: Request) -> Any:
        """Have a worker check the whole trail. If a check is in progress, returns that one."""
        verification.request_check(signed_in_account(request))
        return _report()

    @extend_schema(parameters=[EventQuery], responses=AuditEventSerializer(many=True))
    @action(detail=False, serializer_class=AuditEventSerializer, pagination_class=NewestFirst)
    def events(self, request: Request) -> Response:
        """The trail of all cases, newest first."""
        return paginated_response(self, verification.events(**validated_query(EventQuery, request)))

    @extend_schema(parameters=[ActQuery], responses=ActSerializer(many=True))
    @action(detail=False, serializer_class=ActSerializer, pagination_class=NewestFirst)
    def acts(self, request: Request) -> Response:
        """What was done to accounts and the site, newest first."""
        return paginated_response(self, acts.acts(**validated_query(ActQuery, request)))

    @answers(ChecksumSerializer, query=ChecksumQuery)
    @action(detail=False)
    def checksum(self, request: Request, query: Body) -> Any:
        """Whether this site wrote the files with this checksum."""
        return {"exported": exports.find(query["sha256"])}
