"""The API of review: a physician's own work, and cases for whoever oversees them. Thin edges over services and queries."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import GenericAPIView, ListAPIView
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from review import queries, services, signing
from review.access import person
from review.citations import KINDS
from review.machine import State, Verdict
from review.models import Assignment, Case, Draft, Event, Review, User
from review.permissions import Can, allowed
from review.public_ids import AssignmentId
from review.questions import RUBRIC_VALUES
from review.rest import NewestFirst, asked, sent
from review.spec import answers_from_json, spec_to_json

# ----------------------------------------------------------------------------------------------------------- answers


class AnswerSerializer(serializers.Serializer[Any]):
    """The answer to one question."""

    value = serializers.CharField(allow_blank=True, default="", max_length=100)
    note = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)


class RubricAnswerSerializer(serializers.Serializer[Any]):
    """The finding on one rubric; `wording` is the physician's own where the value is 'corrected'."""

    value = serializers.ChoiceField(choices=RUBRIC_VALUES, allow_blank=True, default="")
    wording = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    note = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    severity = serializers.CharField(allow_blank=True, default="", max_length=100)


class CitationSerializer(serializers.Serializer[Any]):
    """Evidence. `reference`: a guideline's name (with its `section`), DOI, PMID or URL; `read_on`: ISO date."""

    kind = serializers.ChoiceField(choices=KINDS, allow_blank=True, default="")
    reference = serializers.CharField(allow_blank=True, default="", max_length=2000)
    section = serializers.CharField(allow_blank=True, default="", max_length=500)
    passage = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    read_on = serializers.CharField(allow_blank=True, default="", max_length=10)


class AddedRubricSerializer(serializers.Serializer[Any]):
    """A rubric of the physician's own, tied to traps of the sample by their tags."""

    criterion = serializers.CharField(allow_blank=True, trim_whitespace=False)
    tags = serializers.ListField(child=serializers.CharField(max_length=100), default=list, max_length=100)
    severity = serializers.CharField(allow_blank=True, default="", max_length=100)


class AnswersSerializer(serializers.Serializer[Any]):
    """What a physician has answered so far, by the keys of the case's form. An unfinished draft leaves things blank."""

    questions = serializers.DictField(child=AnswerSerializer(), default=dict)
    rubrics = serializers.DictField(child=RubricAnswerSerializer(), default=dict)
    verdict = serializers.ChoiceField(choices=[verdict.value for verdict in Verdict], allow_blank=True, default="")
    reason = serializers.CharField(allow_blank=True, default="", trim_whitespace=False)
    reason_code = serializers.CharField(
        allow_blank=True, default="", max_length=100, help_text="One of the form's reasons, with a rejection."
    )
    dissent_code = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=100,
        help_text="One of the form's dissents, with the secondary's confirmed approval of what the primary rejected.",
    )
    change_reason = serializers.CharField(
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="Why the secondary's confirmed answer differs from the own blind one.",
    )
    citations = CitationSerializer(many=True, default=list)
    added = AddedRubricSerializer(many=True, default=list)


class TokenSerializer(serializers.Serializer[Any]):
    """The fencing token of a claim, as the assignment shows it. Every phase has its own."""

    token = serializers.UUIDField()


class SubmitSerializer(TokenSerializer):
    """A whole review. With it you sign it off, in your name."""

    answers = AnswersSerializer()
    password = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=4096,
        trim_whitespace=False,
        help_text="Your password, where the case asks that reviews be signed with it. It is not kept.",
    )
    code = serializers.CharField(
        allow_blank=True,
        default="",
        max_length=20,
        help_text="The code your authenticator app shows, where the case asks that reviews be signed with it.",
    )
    revision = serializers.IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        required=False,
        help_text="The draft's revision last seen: too late, the answers are kept as the draft only if it is still that one.",
    )


class SaveSerializer(TokenSerializer):
    """A draft. `revision` is the one last seen, 0 where there was none."""

    answers = AnswersSerializer()
    revision = serializers.IntegerField(min_value=0, max_value=2**31 - 1)


# --------------------------------------------------------------------------------------------------------- the case


class TurnSerializer(serializers.Serializer[Any]):
    """One turn of a conversation."""

    speaker = serializers.CharField()
    text = serializers.CharField()


class PointSerializer(serializers.Serializer[Any]):
    """One point of a scatter; `size` in proportion to the others'."""

    x = serializers.FloatField()
    y = serializers.FloatField()
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    size = serializers.FloatField()
    group = serializers.CharField(allow_blank=True)


class BlockSerializer(serializers.Serializer[Any]):
    """What is shown, by `kind`: text (text, tone), dialogue (turns), diff (before, after), table (columns, rows, tone),
    image (url, alt), points (x_label, y_label, points)."""

    kind = serializers.CharField()
    title = serializers.CharField()
    tone = serializers.CharField(required=False)
    text = serializers.CharField(required=False)
    turns = TurnSerializer(many=True, required=False)
    before = TurnSerializer(many=True, required=False)
    after = TurnSerializer(many=True, required=False)
    columns = serializers.ListField(child=serializers.CharField(), required=False)
    rows = serializers.ListField(child=serializers.ListField(child=serializers.CharField()), required=False)
    url = serializers.CharField(required=False)
    alt = serializers.CharField(required=False)
    x_label = serializers.CharField(required=False)
    y_label = serializers.CharField(required=False)
    points = PointSerializer(many=True, required=False)


class ChoiceSerializer(serializers.Serializer[Any]):
    """One answer to a question. `blocks`: with it the case cannot be approved, and a note is required. `evidence`: it wants
    a citation."""

    value = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    blocks = serializers.BooleanField()
    inadequate = serializers.BooleanField()
    evidence = serializers.BooleanField(default=False)


class QuestionSerializer(serializers.Serializer[Any]):
    """A criterion that every reviewer judges. `first_look`: before the traps are revealed; the answer then stands."""

    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    help = serializers.CharField()
    choices = ChoiceSerializer(many=True)
    first_look = serializers.BooleanField(default=False)


class RubricTextSerializer(serializers.Serializer[Any]):
    """A rubric as put before physicians, with the tags of its traps."""

    key = serializers.CharField()
    criterion = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())


class LevelSerializer(serializers.Serializer[Any]):
    """One level of the harm scale."""

    value = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]


class ReasonSerializer(serializers.Serializer[Any]):
    """Why a sample is rejected, or approved against a rejection. `reducible`: it can be mended."""

    code = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    reducible = serializers.BooleanField()


class FormSerializer(serializers.Serializer[Any]):
    """Everything that is asked about one case; before the first look, only what that asks. `severities`: asked for each
    rubric that stands. `rubrics_editable`: rubrics may be removed and added."""

    questions = QuestionSerializer(many=True)
    rubrics = RubricTextSerializer(many=True)
    severities = LevelSerializer(many=True, default=list)
    reasons = ReasonSerializer(many=True, default=list)
    dissents = ReasonSerializer(
        many=True, default=list, help_text="What a confirmed approval against the primary's rejection is coded by."
    )
    rubrics_editable = serializers.BooleanField(default=False)


class ShownSpecSerializer(serializers.Serializer[Any]):
    """A case as a physician may see it. `asked_for`: why the version before was rejected."""

    benchmark = serializers.CharField()
    version = serializers.IntegerField()
    title = serializers.CharField()
    language = serializers.CharField()
    simulated = serializers.BooleanField()
    asked_for = serializers.ListField(child=serializers.CharField())
    blocks = BlockSerializer(many=True)
    form = FormSerializer()


class SpecSerializer(ShownSpecSerializer):
    """A case as it was frozen, with the name of its sample."""

    lineage = serializers.CharField()


# ------------------------------------------------------------------------------------------------ the physician's work


class ReviewDraftSerializer(serializers.ModelSerializer[Draft]):
    """What the physician has typed for the phase that is due."""

    answers = AnswersSerializer()

    class Meta:
        model = Draft
        fields = ["revision", "answers", "saved_at"]


class ShownReviewSerializer(serializers.Serializer[Any]):
    """A review that the physician may read now, without names. `own`: the physician's."""

    role = serializers.CharField()
    phase = serializers.CharField()
    own = serializers.BooleanField()
    verdict = serializers.CharField()
    answers = AnswersSerializer()
    submitted_at = serializers.DateTimeField()


class HoldSerializer(serializers.ModelSerializer[Any]):
    """Where an assignment stands: what is to be submitted next (`phase`), under which token, until when."""

    id = serializers.CharField(source="public_id", read_only=True)

    class Meta:
        model = Assignment
        fields = ["id", "role", "phase", "hold", "token", "lease_until"]


class WorkSerializer(HoldSerializer):
    """Everything that a physician needs to work on one case. `draft` is null where nothing was typed yet. `revealed`: false
    while the first look is due, and `case` holds only what belongs to it."""

    revealed = serializers.BooleanField()
    case = ShownSpecSerializer()
    draft = ReviewDraftSerializer(allow_null=True)
    reviews = ShownReviewSerializer(many=True)

    class Meta(HoldSerializer.Meta):
        fields = [*HoldSerializer.Meta.fields, "revealed", "case", "draft", "reviews"]


class LeaseSerializer(serializers.Serializer[Any]):
    """Until when the claim holds without another sign of life."""

    lease_until = serializers.DateTimeField()


class SavedSerializer(serializers.ModelSerializer[Draft]):
    """A stored draft: its revision is what the next save has to name."""

    class Meta:
        model = Draft
        fields = ["revision", "saved_at"]


class SubmittedSerializer(serializers.Serializer[Any]):
    """What was stored, and where the assignment stands now: a phase may follow, under its own token."""

    review = serializers.IntegerField(source="id")
    verdict = serializers.CharField()
    signed_as = serializers.CharField()
    meaning = serializers.CharField(help_text="Of the signature: review, verification or adjudication.")
    submitted_at = serializers.DateTimeField()
    assignment = HoldSerializer()


class CaseNameSerializer(serializers.ModelSerializer[Case]):
    """Which case; how it stands is not told while it is open."""

    id = serializers.CharField(source="public_id", read_only=True)

    class Meta:
        model = Case
        fields = ["id", "benchmark", "title", "version"]


class MyReviewSerializer(serializers.ModelSerializer[Review]):
    """An own review. `outcome` is empty while the case is open."""

    assignment = serializers.SerializerMethodField()
    case = CaseNameSerializer()
    outcome = serializers.SerializerMethodField()
    answers = AnswersSerializer()

    class Meta:
        model = Review
        fields = [
            "id",
            "assignment",
            "case",
            "role",
            "phase",
            "verdict",
            "answers",
            "submitted_at",
            "meaning",
            "outcome",
        ]

    def get_assignment(self, review: Review) -> str:
        return AssignmentId().to_url(review.assignment_id)

    def get_outcome(self, review: Review) -> str:
        return queries.outcome_shown_to(person(self.context["request"]), review)


def _work(me: User, assignment: Assignment) -> dict[str, Any]:
    """An assignment with its case, the own draft and the reviews that may be read now."""
    shown = [
        {
            "role": review.role,
            "phase": review.phase,
            "own": review.physician_id == me.pk,
            "verdict": review.verdict,
            "answers": review.answers,
            "submitted_at": review.submitted_at,
        }
        for review in queries.reviews_shown_to(me, assignment.case)
    ]
    hold = {name: getattr(assignment, name) for name in HoldSerializer.Meta.fields}
    return {
        **hold,
        "public_id": assignment.public_id,
        "revealed": queries.is_revealed(me, assignment),
        "case": spec_to_json(queries.case_shown_to(me, assignment)),
        "draft": queries.draft_of(assignment, me),
        "reviews": shown,
    }


class Next(APIView):
    """Claim the next case, or get back the one in hand."""

    can = Can.REVIEW

    @extend_schema(
        request=None,
        responses={200: WorkSerializer, 204: OpenApiResponse(description="No case waits for you now.")},
    )
    def post(self, request: Request) -> Response:
        me = person(request)
        taken = services.claim_next(me)
        return Response(WorkSerializer(_work(me, taken)).data) if taken else Response(status=204)


class Work(APIView):
    """One own assignment: the case, the own draft, and the reviews of others that may be read by now."""

    can = Can.REVIEW

    @extend_schema(responses=WorkSerializer)
    def get(self, request: Request, assignment_id: int) -> Response:
        me = person(request)
        return Response(WorkSerializer(_work(me, queries.assignment_of(me, assignment_id))).data)


class Heartbeat(APIView):
    """Renew the lease."""

    can = Can.REVIEW

    @extend_schema(request=TokenSerializer, responses=LeaseSerializer)
    def post(self, request: Request, assignment_id: int) -> Response:
        token = sent(TokenSerializer, request)["token"]
        return Response(LeaseSerializer(services.heartbeat(person(request), assignment_id, token)).data)


class SaveDraft(APIView):
    """Keep what was typed and renew the lease. Too late (409) is answered after the draft was kept."""

    can = Can.REVIEW

    @extend_schema(request=SaveSerializer, responses=SavedSerializer)
    def put(self, request: Request, assignment_id: int) -> Response:
        body = sent(SaveSerializer, request)
        answers = answers_from_json(body["answers"])
        draft = services.save_draft(person(request), assignment_id, body["token"], answers, revision=body["revision"])
        return Response(SavedSerializer(draft).data)


class Submit(APIView):
    """Submit the review that is due. Twice, too late, or before the first look: 409. Not complete: 422 with `problems`.

    Where the case asks for the password or a second factor's code: 403 without it, and 429 after too many wrong ones.
    """

    can = Can.REVIEW

    @extend_schema(request=SubmitSerializer, responses={201: SubmittedSerializer})
    def post(self, request: Request, assignment_id: int) -> Response:
        body, me = sent(SubmitSerializer, request), person(request)
        answers = answers_from_json(body["answers"])
        with signing.counted(request._request, me, assignment_id, body["token"]):
            review = services.submit(
                me,
                assignment_id,
                body["token"],
                answers,
                password=body["password"],
                code=body["code"],
                revision=body.get("revision"),
            )
        return Response(SubmittedSerializer(review).data, status=201)


class RevealSerializer(TokenSerializer):
    """The answers of the first look; others are left out."""

    answers = AnswersSerializer()


class Reveal(APIView):
    """Commit the first look and see the traps. Where the case hides nothing: 409. Not complete: 422 with `problems`."""

    can = Can.REVIEW

    @extend_schema(request=RevealSerializer, responses=WorkSerializer)
    def post(self, request: Request, assignment_id: int) -> Response:
        me, body = person(request), sent(RevealSerializer, request)
        services.reveal(me, assignment_id, body["token"], answers_from_json(body["answers"]))
        return Response(WorkSerializer(_work(me, queries.assignment_of(me, assignment_id))).data)


class Retract(APIView):
    """Take an own review back; the case is in your hands again, the answers as its draft. Too late: 409."""

    can = Can.REVIEW

    @extend_schema(request=None, responses=WorkSerializer)
    def post(self, request: Request, review_id: int) -> Response:
        me = person(request)
        assignment = services.retract(me, review_id)
        return Response(WorkSerializer(_work(me, queries.assignment_of(me, assignment.pk))).data)


class GiveBack(APIView):
    """Give a case back uncommitted; the draft is kept for you."""

    can = Can.REVIEW

    @extend_schema(request=TokenSerializer, responses={204: None})
    def post(self, request: Request, assignment_id: int) -> Response:
        services.release(person(request), assignment_id, sent(TokenSerializer, request)["token"])
        return Response(status=204)


class Mine(ListAPIView[Review]):
    """My reviews, newest first."""

    can = Can.REVIEW
    serializer_class = MyReviewSerializer
    pagination_class = NewestFirst

    def get_queryset(self) -> QuerySet[Review]:
        return queries.submitted_by(person(self.request))


class MeSerializer(serializers.ModelSerializer[Any]):
    """The own account. `can`: what its role lets it do."""

    name = serializers.CharField()
    can = serializers.ListField(child=serializers.ChoiceField(choices=[can.value for can in Can]))

    class Meta:
        model = User
        fields = ["username", "name", "role", "can", "hospital", "specialty", "languages"]


class Me(APIView):
    """Who I am and what I may do."""

    permission_classes = [IsAuthenticated]

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        me = person(request)
        about = {name: getattr(me, name) for name in ("username", "role", "hospital", "specialty", "languages")}
        return Response(MeSerializer({**about, "name": str(me), "can": [can for can in Can if allowed(me, can)]}).data)


# ------------------------------------------------------------------------------------------------ cases, for overseers


class CaseSerializer(serializers.ModelSerializer[Any]):
    """Where a case stands."""

    class Meta:
        model = Case
        fields = [
            "id",
            "benchmark",
            "kind",
            "lineage",
            "version",
            "title",
            "language",
            "specialty",
            "simulated",
            "priority",
            "state",
            "ground",
            "opened_at",
            "closed_at",
        ]


class HolderSerializer(serializers.ModelSerializer[Assignment]):
    """Who holds which role; the token stays with the holder."""

    physician = serializers.CharField(source="physician.username", allow_null=True, default=None)
    reserved_for = serializers.CharField(source="reserved_for.username", allow_null=True, default=None)

    class Meta:
        model = Assignment
        fields = ["id", "role", "phase", "hold", "physician", "reserved_for", "lease_until"]


class ReviewSerializer(serializers.ModelSerializer[Review]):
    """What a physician submitted."""

    physician = serializers.CharField(source="physician.username")
    guideline = serializers.IntegerField(
        source="guideline.version",
        allow_null=True,
        default=None,
        help_text="Version in force; null: the built-in text.",
    )
    answers = AnswersSerializer()

    class Meta:
        model = Review
        fields = [
            *("id", "role", "phase", "physician", "verdict", "inadequate", "answers", "submitted_at"),
            *("signed_as", "meaning", "guideline"),
        ]


class EventSerializer(serializers.ModelSerializer[Event]):
    """One entry of the trail. `data` says what changed, by the kind of event; `sequence` and `hash` tie it into the chain."""

    actor = serializers.CharField(source="actor.username", allow_null=True, default=None)
    data = serializers.DictField()  # type: ignore[assignment]

    class Meta:
        model = Event
        fields = ["sequence", "kind", "actor", "at", "data", "hash"]


class CaseVersionSerializer(serializers.ModelSerializer[Case]):
    """One version of the same sample."""

    class Meta:
        model = Case
        fields = ["id", "version", "state"]


class WholeCaseSerializer(CaseSerializer):
    """A case with everything that was said and done about it."""

    spec = SpecSerializer()
    assignments = HolderSerializer(many=True)
    reviews = ReviewSerializer(many=True)
    trail = EventSerializer(many=True)
    versions = CaseVersionSerializer(many=True)

    class Meta(CaseSerializer.Meta):
        fields = [*CaseSerializer.Meta.fields, "spec", "assignments", "reviews", "trail", "versions"]


class CaseQuery(serializers.Serializer[Any]):
    """Which cases."""

    state = serializers.ChoiceField(choices=[state.value for state in State], required=False)
    benchmark = serializers.CharField(required=False, max_length=64)
    text = serializers.CharField(required=False, max_length=200, help_text="In the title or the lineage.")
    kind = serializers.ChoiceField(choices=Case.Kind.choices, required=False, help_text="Without it: work.")


class WithdrawSerializer(serializers.Serializer[Any]):
    """Why."""

    reason = serializers.CharField(max_length=2000)


class PrioritySerializer(serializers.Serializer[Any]):
    """Cases of higher priority are handed out first."""

    priority = serializers.IntegerField(min_value=-(2**15), max_value=2**15 - 1)


def _whole(me: User, case: Case) -> dict[str, Any]:
    return {
        **{name: getattr(case, name) for name in CaseSerializer.Meta.fields},
        "spec": case.spec,
        "assignments": queries.holds(case),
        "reviews": queries.reviews_shown_to(me, case),
        "trail": queries.trail(case),
        "versions": queries.versions(case),
    }


@extend_schema_view(get=extend_schema(parameters=[CaseQuery]))
class Cases(ListAPIView[Case]):
    """Cases, newest first."""

    can = Can.OVERSEE
    serializer_class = CaseSerializer
    pagination_class = NewestFirst

    def get_queryset(self) -> QuerySet[Case]:
        return queries.cases(**asked(CaseQuery, self.request)).defer("spec")


class CaseDetail(GenericAPIView[Case]):
    """A case with its reviews and its full history."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(responses=WholeCaseSerializer)
    def get(self, request: Request, pk: int) -> Response:
        return Response(WholeCaseSerializer(_whole(person(request), self.get_object())).data)


class Withdraw(GenericAPIView[Case]):
    """Take a case away from the physicians, for good. One that has ended: 409."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(request=WithdrawSerializer, responses=CaseSerializer)
    def post(self, request: Request, pk: int) -> Response:
        reason = sent(WithdrawSerializer, request)["reason"]
        case = services.withdraw(self.get_object().pk, actor=person(request), reason=reason)
        return Response(CaseSerializer(case).data)


class Prioritise(GenericAPIView[Case]):
    """Hand a case out earlier or later than the others."""

    can = Can.OVERSEE
    queryset = Case.objects.all()

    @extend_schema(request=PrioritySerializer, responses=CaseSerializer)
    def post(self, request: Request, pk: int) -> Response:
        priority = sent(PrioritySerializer, request)["priority"]
        case = services.prioritise(self.get_object().pk, actor=person(request), priority=priority)
        return Response(CaseSerializer(case).data)
