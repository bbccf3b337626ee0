"""The API of guidelines and remarks."""

from typing import Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from review.cases import queries
from review.common.actions import Body, answers
from review.common.api import HasRight, NewestFirst, OldestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import Fields, related, rows_of
from review.discussion import guidelines, remarks
from review.models import Case, Guideline, Remark
from review.rules import limits
from review.rules.permissions import Can, require
from review.rules.state_machine import State
from review.turns.turn import turn_of

GUIDELINE_IN_FORCE: Fields = {
    "benchmark": serializers.CharField(),
    "stage": serializers.ChoiceField(choices=[stage.value for stage in guidelines.STAGES]),
    "version": serializers.IntegerField(
        default=0, help_text="0: none was written; `text` is the benchmark's own, in the language of the request."
    ),
    "text": serializers.CharField(allow_blank=True, default=""),
    "at": serializers.DateTimeField(allow_null=True, default=None),
}


GuidelineVersionSerializer = rows_of(
    "GuidelineVersion", Guideline, "version text at", "One version of a guideline.", author=related("author.username")
)

WRITE_GUIDELINE_BODY: Fields = {
    "text": serializers.CharField(trim_whitespace=False, max_length=limits.GUIDELINE, help_text="In Markdown."),
    "base": serializers.IntegerField(
        min_value=0,
        required=False,
        help_text="The version it was made from (0: none); default: the version in force.",
    ),
}


def _validated_path(benchmark: str, stage: str) -> tuple[str, State]:
    """The benchmark and stage named in a URL. Raises Http404."""
    if stage not in set(guidelines.STAGES) or benchmark not in queries.benchmarks():
        raise Http404
    return benchmark, State(stage)


class GuidelineViewSet(GenericViewSet[Guideline]):
    """Guidelines."""

    can: Can | None = None
    permission_classes = [IsAuthenticated]
    serializer_class = GuidelineVersionSerializer

    @answers(GUIDELINE_IN_FORCE, many=True)
    def list(self, request: Request) -> Any:
        """The guidelines in force, by benchmark and stage. For: physician or admin."""
        require(request.user, Can.REVIEW, Can.OVERSEE, reading=True)
        in_force: list[Any] = []
        for benchmark in queries.benchmarks():
            for stage in guidelines.STAGES:
                version: Any = guidelines.guideline(benchmark, stage)
                if not version:
                    text = guidelines.built_in(benchmark, stage)
                    version = {"benchmark": benchmark, "stage": stage, "text": text}
                in_force.append(version)
        return in_force

    @answers(GuidelineVersionSerializer, paged=True, operation_id="guidelines_versions_list")
    @action(
        detail=False,
        url_path="<slug:benchmark>/<slug:stage>",
        can=Can.OVERSEE,
        permission_classes=[HasRight],
        pagination_class=NewestFirst,
    )
    def versions(self, request: Request, benchmark: str, stage: str) -> Any:
        """All versions of a guideline, newest first."""
        return guidelines.guideline_versions(*_validated_path(benchmark, stage))

    @answers(GuidelineVersionSerializer, body=WRITE_GUIDELINE_BODY)
    @versions.mapping.post  # type: ignore[untyped-decorator]
    def write(self, request: Request, body: Body, benchmark: str, stage: str) -> Any:
        """Put a new version in force; the same text changes nothing. Another version than `base` is
        in force: 409.
        """
        name, state = _validated_path(benchmark, stage)
        return guidelines.write_guideline(signed_in_account(request), benchmark=name, stage=state, **body)


class AnchorSerializer(serializers.Serializer[Any]):
    """The passage that a remark is about. `source`: of the text before it was changed."""

    block = serializers.IntegerField()
    turn = serializers.IntegerField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()
    quote = serializers.CharField()

    source = serializers.BooleanField(default=False)  # type: ignore[assignment]


RemarkSerializer = rows_of(
    "Remark",
    Remark,
    "id text at",
    "A line of the discussion, perhaps about a passage.",
    author=serializers.CharField(source="author.username"),
    anchor=AnchorSerializer(allow_null=True),
)

SAY_REMARK_BODY: Fields = {
    "text": serializers.CharField(max_length=limits.COMMENT),
    "quote": serializers.CharField(
        max_length=limits.COMMENT,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="A passage, word for word.",
    ),
    "passage": serializers.CharField(
        max_length=100,
        allow_blank=True,
        default="",
        help_text="The key of the text of `quote`, for words that occur more than once.",
    ),
}


class CaseRemarksViewSet(GenericViewSet[Remark]):
    """The discussion of a case."""

    can = Can.OVERSEE
    serializer_class = RemarkSerializer

    def case(self) -> Case:
        return remarks.discussed_case(signed_in_account(self.request), self.kwargs["pk"])

    @answers(RemarkSerializer, paged=True)
    @action(detail=True, pagination_class=OldestFirst)
    def remarks(self, request: Request, **_row: int) -> Any:
        """The discussion of a case as far as you may read it, oldest first."""
        return remarks.remarks_shown_to(signed_in_account(request), self.case())

    @answers(RemarkSerializer, body=SAY_REMARK_BODY, status=201)
    @remarks.mapping.post  # type: ignore[untyped-decorator]
    def remark(self, request: Request, body: Body, **_row: int) -> Any:
        """Comment on the case. People mentioned by `@username` are notified if they may read about
        it.
        """
        return remarks.remark(signed_in_account(request), self.case().pk, **body)


class OwnRemarksViewSet(CaseRemarksViewSet):
    """The discussion of your case."""

    can = Can.REVIEW
    row = "<assignment:assignment_id>"

    def case(self) -> Case:
        return turn_of(signed_in_account(self.request), self.kwargs["assignment_id"]).case
