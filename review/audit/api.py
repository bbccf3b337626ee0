"""The API of the audit trail."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from review.audit import acts, exports, verification
from review.audit.exports import Exported
from review.audit.verification import AuditFault
from review.cases.api import EventSerializer
from review.common.actions import Body, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, RowSerializer, related, rows_of, serializer_of
from review.models import Audit, Event, PersonEvent
from review.rules.limits import MAX_ID
from review.rules.permissions import Can


class CheckSerializer(RowSerializer):
    """One check of the trail: its progress and its result.

    `faults` are the first of `faults_count`.
    """

    asked_by = related("asked_by.username")

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


AuditEventSerializer = rows_of(
    "AuditEvent", Event, "case", "One entry of the trail of all cases.", extends=EventSerializer
)

ActSerializer = rows_of(
    "Act",
    PersonEvent,
    "sequence kind at data previous hash",
    "Something done to an account (`person`) or to the site; `data` says to what, and what changed.",
    actor=related("actor.username"),
    person=related("person.username"),
)

_DAYS = [MinValueValidator(acts.FIRST_DAY), MaxValueValidator(acts.LAST_DAY)]


# `since` and `until` are dates in UTC, both included.
ACT_QUERY: Fields = {
    "actor": serializers.CharField(max_length=150, required=False),
    "kind": serializers.ChoiceField(choices=PersonEvent.Kind.choices, required=False),
    "since": serializers.DateField(required=False, validators=_DAYS),
    "until": serializers.DateField(required=False, validators=_DAYS),
}
EVENT_QUERY: Fields = {
    **ACT_QUERY,
    "case": serializers.IntegerField(min_value=1, max_value=MAX_ID, required=False),
    "kind": serializers.ChoiceField(choices=Event.Kind.choices, required=False),
}


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

    @answers(AuditSerializer, query={"anchor": serializers.RegexField(verification.ANCHOR_FORMAT, required=False)})
    def show(self, request: Request, query: Body) -> Any:
        """The result of the latest integrity check, the ends of both chains, and an anchor's."""
        return _report(query.get("anchor"))

    @answers(AuditSerializer, status=202)
    @action(detail=False, methods=["post"])
    def check(self, request: Request) -> Any:
        """Have a worker check the whole trail. If a check is in progress, returns that one."""
        verification.request_check(signed_in_account(request))
        return _report()

    @answers(AuditEventSerializer, query=EVENT_QUERY, paged=True)
    @action(detail=False, pagination_class=NewestFirst)
    def events(self, request: Request, query: Body) -> Any:
        """The trail of all cases, newest first."""
        return verification.events(**query)

    @answers(ActSerializer, query=ACT_QUERY, paged=True)
    @action(detail=False, pagination_class=NewestFirst)
    def acts(self, request: Request, query: Body) -> Any:
        """What was done to accounts and the site, newest first."""
        return acts.acts(**query)

    @answers(
        {"exported": serializer_of(Exported)(allow_null=True)},
        query={"sha256": serializers.RegexField(exports.CHECKSUM)},
    )
    @action(detail=False)
    def checksum(self, request: Request, query: Body) -> Any:
        """Whether this site wrote the files with this checksum; null if it did not."""
        return {"exported": exports.find(query["sha256"])}
