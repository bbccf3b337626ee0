"""The API of agreement by criterion and of one physician's own figures."""

from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.viewsets import ViewSet

from review.assignments import retraction
from review.cases import care
from review.common.actions import Body, acts, answers
from review.common.decorators import signed_in_account
from review.common.serializers import DataclassSerializer
from review.people.queries import physician
from review.quality import activity, reliability
from review.quality.agreement import Agreement, AgreementEstimate
from review.quality.progress import Day, Projection, ReviewProgress, progress
from review.quality.reliability import PhysicianFigures, RaterPair, Share
from review.rules.permissions import Can


class EstimateSerializer(DataclassSerializer):
    """A figure and its 95 % bootstrap interval. An undefined figure is null, never 0, and `why`
    gives the reason.
    """

    mirrors = AgreementEstimate


class AgreementFiguresSerializer(DataclassSerializer):
    """All figures for one criterion. `n`: pairs of answers; `cases`: the cases they come from.
    `categories`: the answers that may be given; `used`: how many of them were given.
    """

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

    @answers(AgreementSerializer, query=AgreementQuery)
    @action(detail=False)
    def agreement(self, request: Request, query: Body) -> Any:
        """Agreement between physicians who had not seen each other's answers, with n and
        intervals.
        """
        return reliability.agreement_table(**query)

    @answers(ReviewProgressSerializer, query=ProgressQuery)
    @action(detail=False)
    def progress(self, request: Request, query: Body) -> Any:
        """Throughput, backlog and the projected finish of the reviews."""
        return progress(**query)

    @answers(CareSerializer, many=True)
    @action(detail=False)
    def care(self, request: Request) -> Any:
        """Physicians with signs of careless work: reasons to look and to ask, not proof."""
        return care.careless_physicians()


class ActivityViewSet(ViewSet):
    """When you worked on a case."""

    can = Can.REVIEW
    row = "<assignment:assignment_id>"

    @acts(body=StretchesSerializer)
    def activity(self, request: Request, body: Body, assignment_id: int) -> None:
        """Record when you worked on a case. Time that is sent repeatedly counts once."""
        stretches = activity.parse_stretches(body["stretches"])
        activity.record_stretches(signed_in_account(request), assignment_id, stretches)


class ReviewerViewSet(ViewSet):
    """Physicians' figures. There is no list of physicians, so no ranking."""

    can = Can.OVERSEE

    @answers(FiguresSerializer)
    def retrieve(self, request: Request, pk: int) -> Any:
        """One physician's figures. There is no list of physicians, so no ranking."""
        return reliability.figures(physician(pk))

    @acts(SetAsideSerializer, SetAsideRequest, url_path="set-aside")
    def set_aside(self, request: Request, body: Body, pk: int) -> Any:
        """Pause a physician and have their reviews of open cases done again by others."""
        return retraction.set_aside(physician(pk).pk, actor=signed_in_account(request), **body)

    @acts(SetAsideSerializer)
    def restore(self, request: Request, pk: int) -> Any:
        """Let the reviews count again that were set aside and that nobody has redone."""
        return retraction.restore(physician(pk).pk, actor=signed_in_account(request))

    @answers(FiguresSerializer)
    @action(detail=False, can=Can.REVIEW)
    def me(self, request: Request) -> Any:
        """Your own figures."""
        return reliability.figures(signed_in_account(request))
