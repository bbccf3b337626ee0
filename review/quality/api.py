"""The API of agreement by criterion and of one physician's own figures."""

from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from review.assignments import retraction
from review.assignments.retraction import SetAside
from review.cases import care
from review.cases.care import Care
from review.common.actions import Body, acts, answers
from review.common.decorators import signed_in_account
from review.common.serializers import Fields
from review.people.queries import physician
from review.quality import activity, reliability
from review.quality.progress import ReviewProgress, progress
from review.quality.reliability import AgreementTable, PhysicianFigures, RaterPair
from review.rules.permissions import Can

AGREEMENT_QUERY: Fields = {
    "benchmark": serializers.CharField(required=False, max_length=64),
    "task": serializers.CharField(required=False, max_length=64),
    "pair": serializers.ChoiceField(choices=[pair.value for pair in RaterPair], required=False),
}

STRETCHES_BODY: Fields = {
    "stretches": serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(), min_length=2, max_length=2),
        max_length=activity.MAX_STRETCHES,
        help_text="When you worked on the case: pairs of when a stretch began and ended, in milliseconds since 1970.",
    )
}


_REASON_HELP = "Why the reviews are set aside; it is kept in the audit trail."
SET_ASIDE_BODY: Fields = {"reason": serializers.CharField(max_length=2000, help_text=_REASON_HELP)}


class OversightViewSet(ViewSet):
    """Agreement and progress of the reviews."""

    can = Can.OVERSEE

    @answers(AgreementTable, query=AGREEMENT_QUERY)
    @action(detail=False)
    def agreement(self, request: Request, query: Body) -> Any:
        """Agreement between physicians who had not seen each other's answers, with n and
        intervals.
        """
        return reliability.agreement_table(**query)

    @answers(ReviewProgress, query={"benchmark": serializers.CharField(required=False, max_length=64)})
    @action(detail=False)
    def progress(self, request: Request, query: Body) -> Any:
        """Throughput, backlog and the projected finish of the reviews."""
        return progress(**query)

    @answers(Care, many=True)
    @action(detail=False)
    def care(self, request: Request) -> Any:
        """Physicians with signs of careless work: reasons to look and to ask, not proof."""
        return care.careless_physicians()


class ActivityViewSet(ViewSet):
    """When you worked on a case."""

    can = Can.REVIEW
    row = "<assignment:assignment_id>"

    @acts(body=STRETCHES_BODY)
    def activity(self, request: Request, body: Body, assignment_id: int) -> None:
        """Record when you worked on a case. Time that is sent repeatedly counts once."""
        stretches = activity.parse_stretches(body["stretches"])
        activity.record_stretches(signed_in_account(request), assignment_id, stretches)


class ReviewerViewSet(ViewSet):
    """Physicians' figures. There is no list of physicians, so no ranking."""

    can = Can.OVERSEE

    @answers(PhysicianFigures)
    def retrieve(self, request: Request, pk: int) -> Any:
        """One physician's figures. There is no list of physicians, so no ranking."""
        return reliability.figures(physician(pk))

    @acts(SetAside, SET_ASIDE_BODY, url_path="set-aside")
    def set_aside(self, request: Request, body: Body, pk: int) -> Any:
        """Pause a physician and have their reviews of open cases done again by others."""
        return retraction.set_aside(physician(pk).pk, actor=signed_in_account(request), **body)

    @acts(SetAside)
    def restore(self, request: Request, pk: int) -> Any:
        """Let the reviews count again that were set aside and that nobody has redone."""
        return retraction.restore(physician(pk).pk, actor=signed_in_account(request))

    @answers(PhysicianFigures)
    @action(detail=False, can=Can.REVIEW)
    def me(self, request: Request) -> Any:
        """Your own figures."""
        return reliability.figures(signed_in_account(request))
