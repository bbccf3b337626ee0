"""The API of agreement by criterion and of one physician's own figures."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from review.assignments import retraction
from review.cases import care
from review.common.api import validated_body, validated_query
from review.common.decorators import signed_in_account
from review.common.serializers import DataclassSerializer
from review.models import User
from review.people import accounts
from review.quality import activity, reliability
from review.quality.agreement import Agreement, AgreementEstimate
from review.quality.progress import Day, Projection, ReviewProgress, progress
from review.quality.reliability import PhysicianFigures, RaterPair, Share
from review.rules.permissions import Can, UserRole


class EstimateSerializer(DataclassSerializer):
    """A figure and its 95 % bootstrap interval. An undefined figure is null, never 0, and `why`
    gives the reason.
    """

    mirrors = AgreementEstimate


class AgreementFiguresSerializer(DataclassSerializer):
    """All figures for one criterion. `n`: pairs of answers; `cases`: the cases they come from."""

    mirrors = Agreement


class AgreementLineSerializer(DataclassSerializer):
    """One criterion (`verdict`, `question.KEY`, `rubric`, `severity`) of one benchmark. `ordinal`:
    alpha is ordinal.
    """

    mirrors = reliability.AgreementLine


class AgreementSerializer(serializers.Serializer[Any]):
    """Agreement, one line per criterion."""

    lines = AgreementLineSerializer(many=True)


class AgreementQuery(serializers.Serializer[Any]):
    """Which answers are compared."""

    benchmark = serializers.CharField(required=False, max_length=64)
    task = serializers.CharField(required=False, max_length=64)
    pair = serializers.ChoiceField(choices=[pair.value for pair in RaterPair], required=False)


class ProgressQuery(serializers.Serializer[Any]):
    """Of which benchmark; of all without it."""

    benchmark = serializers.CharField(required=False, max_length=64)


class WorkDaySerializer(DataclassSerializer):
    """Reviews submitted and cases closed on one day."""

    mirrors = Day


class ProjectionSerializer(DataclassSerializer):
    """When all open cases will have closed at the pace of the last active days: cases closed on a
    typical one (`pace`).

    Null where too few days are known, or nothing closes.
    """

    mirrors = Projection


class ReviewProgressSerializer(DataclassSerializer):
    """The last days, the backlog and the projected finish."""

    mirrors = ReviewProgress

    backlog = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField()),
        help_text="Specialty (empty: any), stage: open cases.",
    )


class StretchesSerializer(serializers.Serializer[Any]):
    """When you worked on the case: pairs of when a stretch began and ended, in milliseconds since
    1970.
    """

    stretches = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(), min_length=2, max_length=2),
        max_length=activity.MAX_STRETCHES,
    )


class ShareSerializer(DataclassSerializer):
    """A part of a whole; `value` is null if the whole is 0."""

    mirrors = Share
    shows = "part whole value"


class WeekSerializer(DataclassSerializer):
    """One week, starting on `monday`."""

    mirrors = reliability.Week


class DotSerializer(DataclassSerializer):
    """One case: its length in words (two CJK characters count as one) and the active minutes spent
    on it.
    """

    mirrors = reliability.Dot


class FiguresSerializer(DataclassSerializer):
    """One physician's work, including training cases and repeats. `minutes`: median active minutes
    per case over the `measured` cases, null if there are none. `first_pass`: of the answered cases
    that have closed, those that matched the physician's blind verdict.
    """

    mirrors = PhysicianFigures
    shows = "stages minutes measured first_pass calibration calibrated repeat_verdicts repeat_answers speed=dots weeks"


def _figures(physician: User) -> Response:
    return Response(FiguresSerializer(reliability.figures(physician)).data)


class CareSerializer(DataclassSerializer):
    """Signs that a physician does not read what they judge, of the last four weeks. `hasty`: cases
    answered faster than anyone can read them (`seconds`: their median); `same_answers`,
    `same_verdict`: cases with the most frequent ones; `changed`: of the silent `repeats`, those
    with another verdict; `signs`: which of these are beyond what careful work shows by chance.
    """

    mirrors = care.Care


class SetAsideRequest(serializers.Serializer[Any]):
    """Why the reviews are set aside; it is kept in the audit trail."""

    reason = serializers.CharField(max_length=2000)


class SetAsideSerializer(DataclassSerializer):
    """`cases`: whose reviews were set aside, or restored. Left as they are: those that others have
    `built_on`, and those that are `closed`.
    """

    mirrors = retraction.SetAside


class OversightViewSet(ViewSet):
    """Agreement and progress of the reviews."""

    can = Can.OVERSEE

    @extend_schema(parameters=[AgreementQuery], responses=AgreementSerializer)
    @action(detail=False)
    def agreement(self, request: Request) -> Response:
        """Agreement between physicians who had not seen each other's answers, with n and
        intervals.
        """
        return Response(
            AgreementSerializer(reliability.agreement_table(**validated_query(AgreementQuery, request))).data
        )

    @extend_schema(parameters=[ProgressQuery], responses=ReviewProgressSerializer)
    @action(detail=False)
    def progress(self, request: Request) -> Response:
        """Throughput, backlog and the projected finish of the reviews."""
        return Response(ReviewProgressSerializer(progress(**validated_query(ProgressQuery, request))).data)

    @extend_schema(responses=CareSerializer(many=True))
    @action(detail=False)
    def care(self, request: Request) -> Response:
        """Physicians with signs of careless work: reasons to look and to ask, not proof."""
        return Response(CareSerializer(care.careless_physicians(), many=True).data)


class ActivityViewSet(ViewSet):
    """When you worked on a case."""

    can = Can.REVIEW
    row = "<assignment:assignment_id>"

    @extend_schema(request=StretchesSerializer, responses={204: None})
    @action(detail=True, methods=["post"])
    def activity(self, request: Request, assignment_id: int) -> Response:
        """Record when you worked on a case. Time that is sent repeatedly counts once."""
        stretches = activity.parse_stretches(validated_body(StretchesSerializer, request)["stretches"])
        activity.record_stretches(signed_in_account(request), assignment_id, stretches)
        return Response(status=204)


class ReviewerViewSet(ViewSet):
    """Physicians' figures. There is no list of physicians, so no ranking."""

    can = Can.OVERSEE

    @extend_schema(responses=FiguresSerializer)
    def retrieve(self, request: Request, pk: int) -> Response:
        """One physician's figures. There is no list of physicians, so no ranking."""
        return _figures(get_object_or_404(User, pk=pk, role=UserRole.PHYSICIAN))

    @extend_schema(request=SetAsideRequest, responses=SetAsideSerializer)
    @action(detail=True, methods=["post"], url_path="set-aside")
    def set_aside(self, request: Request, pk: int) -> Response:
        """Pause a physician and have their reviews of open cases done again by others."""
        reason, actor = validated_body(SetAsideRequest, request)["reason"], signed_in_account(request)
        shown = get_object_or_404(User, pk=pk, role=UserRole.PHYSICIAN)
        accounts.set_paused(shown.pk, True, actor=actor)
        return Response(SetAsideSerializer(retraction.set_aside(shown.pk, actor=actor, reason=reason)).data)

    @extend_schema(request=None, responses=SetAsideSerializer)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, pk: int) -> Response:
        """Let the reviews count again that were set aside and that nobody has redone."""
        shown = get_object_or_404(User, pk=pk, role=UserRole.PHYSICIAN)
        return Response(SetAsideSerializer(retraction.restore(shown.pk, actor=signed_in_account(request))).data)

    @extend_schema(responses=FiguresSerializer)
    @action(detail=False, can=Can.REVIEW)
    def me(self, request: Request) -> Response:
        """Your own figures."""
        return _figures(signed_in_account(request))
