"""The API of guidelines and remarks."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from review import errors
from review.assignments.queries import assignment_of
from review.cases import queries
from review.common.api import NewestFirst, OldestFirst, sent
from review.common.decorators import person
from review.discussion import guidelines, remarks
from review.models import Case, Guideline, Remark
from review.rules.permissions import Can, allowed
from review.rules.state_machine import State


class GuidelineInForceSerializer(serializers.Serializer[Any]):
    """What is asked of physicians at a stage. `version` 0: no guideline was written, and `text` is the benchmark's own, in the
    language of the request."""

    benchmark = serializers.CharField()
    stage = serializers.ChoiceField(choices=[stage.value for stage in guidelines.STAGES])
    version = serializers.IntegerField(default=0)
    text = serializers.CharField(allow_blank=True, default="")
    at = serializers.DateTimeField(allow_null=True, default=None)


class GuidelineVersionSerializer(serializers.ModelSerializer[Guideline]):
    """One version of a guideline."""

    author = serializers.CharField(source="author.username", allow_null=True, default=None)

    class Meta:
        model = Guideline
        fields = ["version", "text", "author", "at"]


class WriteGuidelineSerializer(serializers.Serializer[Any]):
    """The next version, in Markdown. `base`: the version it was made from (0: none); without it, whichever is in force."""

    text = serializers.CharField(trim_whitespace=False)
    base = serializers.IntegerField(min_value=0, required=False)


class GuidelinesInForce(APIView):
    """The guidelines in force, by benchmark and stage. For: physician or admin."""

    permission_classes = [IsAuthenticated]

    @extend_schema(responses=GuidelineInForceSerializer(many=True))
    def get(self, request: Request) -> Response:
        if not (allowed(request.user, Can.REVIEW) or allowed(request.user, Can.OVERSEE)):
            raise errors.NotAllowed
        shown = [
            guidelines.guideline(benchmark, stage)
            or {"benchmark": benchmark, "stage": stage, "text": guidelines.built_in(benchmark, stage)}
            for benchmark in queries.benchmarks()
            for stage in guidelines.STAGES
        ]
        return Response(GuidelineInForceSerializer(shown, many=True).data)


@extend_schema_view(get=extend_schema(operation_id="guidelines_versions_list"))
class GuidelineVersions(ListAPIView[Guideline]):
    """All versions of a guideline, newest first."""

    can = Can.OVERSEE
    serializer_class = GuidelineVersionSerializer
    pagination_class = NewestFirst
    queryset = Guideline.objects.none()

    def get_queryset(self) -> QuerySet[Guideline]:
        return guidelines.guideline_versions(*self._named())

    @extend_schema(request=WriteGuidelineSerializer, responses=GuidelineVersionSerializer)
    def post(self, request: Request, benchmark: str, stage: str) -> Response:
        """Put a new version in force; the same text changes nothing. Another version than `base` is in force: 409."""
        named, body = self._named(), sent(WriteGuidelineSerializer, request)
        made = guidelines.write_guideline(person(request), benchmark=named[0], stage=named[1], **body)
        return Response(GuidelineVersionSerializer(made).data)

    def _named(self) -> tuple[str, State]:
        benchmark, stage = self.kwargs["benchmark"], self.kwargs["stage"]
        if stage not in set(guidelines.STAGES) or benchmark not in queries.benchmarks():
            raise Http404
        return benchmark, State(stage)


class AnchorSerializer(serializers.Serializer[Any]):
    """The passage that a remark is about. `source`: of the text before it was changed."""

    block = serializers.IntegerField()
    turn = serializers.IntegerField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()
    quote = serializers.CharField()
    source = serializers.BooleanField(default=False)  # type: ignore[assignment]


class RemarkSerializer(serializers.ModelSerializer[Remark]):
    """A line of the discussion, perhaps about a passage."""

    author = serializers.CharField(source="author.username")
    anchor = AnchorSerializer(allow_null=True)

    class Meta:
        model = Remark
        fields = ["id", "author", "text", "anchor", "at"]


class SayRemarkSerializer(serializers.Serializer[Any]):
    """What to say. `quote`: a passage, word for word; `passage`: the key of where it stands, for words that stand twice."""

    text = serializers.CharField(max_length=remarks.LONGEST)
    quote = serializers.CharField(max_length=remarks.LONGEST, allow_blank=True, default="", trim_whitespace=False)
    passage = serializers.CharField(max_length=100, allow_blank=True, default="")


class CaseRemarks(ListAPIView[Remark]):
    """The discussion of a case, oldest first."""

    can = Can.OVERSEE
    serializer_class = RemarkSerializer
    pagination_class = OldestFirst
    queryset = Remark.objects.none()

    def case(self) -> Case:
        return remarks.case_spoken_of(person(self.request), self.kwargs["pk"])

    def get_queryset(self) -> QuerySet[Remark]:
        return remarks.remarks_shown_to(person(self.request), self.case())

    @extend_schema(request=SayRemarkSerializer, responses={201: RemarkSerializer})
    def post(self, request: Request, **_named: int) -> Response:
        """Say something about the case. People mentioned by `@username` who may know of it get a notice."""
        made = remarks.remark(person(request), self.case().pk, **sent(SayRemarkSerializer, request))
        return Response(RemarkSerializer(made).data, status=201)


class OwnRemarks(CaseRemarks):
    """The discussion of your case as far as you may read it by now, oldest first."""

    can = Can.REVIEW

    def case(self) -> Case:
        return assignment_of(person(self.request), self.kwargs["assignment_id"]).case
