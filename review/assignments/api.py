"""The API of a physician's own work."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet, ViewSet

from review.access import visibility
from review.answers import signatures
from review.assignments import case_queue, claims, correction, first_look, retraction, services
from review.common.actions import Body, acts, answers
from review.common.api import NewestFirst
from review.common.decorators import signed_in_account
from review.common.serializers import (
    TOKEN,
    AnswersSerializer,
    Fields,
    RowSerializer,
    ShownSpecSerializer,
    WithValues,
    extended,
    rows_of,
)
from review.models import Assignment, Case, Declined, Draft, Review
from review.models.public_ids import AssignmentId
from review.rules.case_spec import answers_from_json, spec_to_json
from review.rules.limits import MAX_ID, REMARK
from review.rules.permissions import Can
from review.rules.state_machine import State
from review.turns.turn import ReviewTurn, turn_of

SUBMIT_BODY: Fields = {
    **TOKEN,
    "answers": AnswersSerializer(),
    "password": serializers.CharField(
        allow_blank=True,
        default="",
        max_length=4096,
        trim_whitespace=False,
        help_text="Your password, if the case requires reviews to be signed with it. It is not stored.",
    ),
    "code": serializers.CharField(
        allow_blank=True,
        default="",
        max_length=20,
        help_text="The code from your authenticator app, if the case requires reviews to be signed with it.",
    ),
    "revision": serializers.IntegerField(
        min_value=0,
        max_value=2**31 - 1,
        required=False,
        help_text="The draft revision you last saw. A late submission is kept as the draft only if it is still that one.",
    ),
}

SIGN_BODY: Fields = {
    **TOKEN,
    "review": serializers.IntegerField(
        min_value=1,
        max_value=MAX_ID,
        help_text="The proposal to sign word for word: one of the `reviews` that you are shown.",
    ),
    "password": serializers.CharField(allow_blank=True, default="", max_length=4096, trim_whitespace=False),
    "code": serializers.CharField(allow_blank=True, default="", max_length=20),
}

CORRECT_BODY: Fields = {
    "answers": AnswersSerializer(help_text="The complete review that replaces the submitted one."),
    "reason": serializers.CharField(max_length=REMARK),
    "password": serializers.CharField(allow_blank=True, default="", max_length=4096, trim_whitespace=False),
    "code": serializers.CharField(allow_blank=True, default="", max_length=20),
}

SAVE_BODY: Fields = {
    **TOKEN,
    "answers": AnswersSerializer(),
    "revision": serializers.IntegerField(
        min_value=0, max_value=2**31 - 1, help_text="The one you last saw, 0 before the first save."
    ),
}

ReviewDraftSerializer = rows_of(
    "ReviewDraft",
    Draft,
    "revision saved_at",
    "The physician's draft for the current phase.",
    answers=AnswersSerializer(),
)

ShownReviewSerializer = rows_of(
    "ShownReview",
    Review,
    "role phase verdict submitted_at",
    "A review that the physician may read now, without names. `own`: the physician wrote it.",
    review=serializers.IntegerField(source="pk"),
    own=serializers.BooleanField(),
    answers=AnswersSerializer(),
)

HoldSerializer = rows_of(
    "Hold",
    Assignment,
    "role phase hold token lease_until",
    "The state of an assignment: what to submit next (`phase`), under which token, until when.",
    id=serializers.CharField(source="public_id", read_only=True),
)

WorkSerializer = extended(
    "Work",
    HoldSerializer,
    """Everything a physician needs to work on one case.

    `draft` is null if nothing was saved yet. `revealed` is false until the first look is committed;
    until then, `case` holds only what the first look shows.
    """,
    revealed=serializers.BooleanField(),
    case=ShownSpecSerializer(),
    draft=ReviewDraftSerializer(allow_null=True),
    reviews=ShownReviewSerializer(many=True),
    objection=serializers.CharField(
        allow_blank=True, help_text="For adjudicators: the first reviewer's objection to the second's wording, if any."
    ),
)


SavedSerializer = rows_of("Saved", Draft, "revision saved_at", "A saved draft. Send its revision with the next save.")

SubmittedSerializer = rows_of(
    "Submitted",
    Review,
    "verdict signed_as meaning submitted_at",
    """The submitted review and the assignment's new state: another phase may follow, under its own
    token. `meaning`: of the signature: review, verification or adjudication.
    """,
    review=serializers.IntegerField(source="pk"),
    assignment=HoldSerializer(),
)

CaseNameSerializer = rows_of(
    "CaseName",
    Case,
    "benchmark title version",
    "A case's id and title. Its state is not shown while it is open.",
    id=serializers.CharField(source="public_id", read_only=True),
)


class MyReviewSerializer(RowSerializer):
    """One of your reviews. `outcome` is empty while the case is open."""

    assignment = serializers.SerializerMethodField()
    case = CaseNameSerializer()
    outcome = serializers.SerializerMethodField()
    answers = AnswersSerializer()

    class Meta:
        model = Review
        fields = ["id", "role", "phase", "verdict", "submitted_at", "meaning"]

    def get_assignment(self, review: Review) -> str:
        return AssignmentId().to_url(review.assignment_id)

    def get_outcome(self, review: Review) -> str:
        return visibility.outcome_shown_to(signed_in_account(self.context["request"]), review)


def _work(turn: ReviewTurn) -> WithValues:
    """An assignment with the values of `WorkSerializer`: case, draft and readable reviews."""
    return WithValues(
        turn.assignment,
        revealed=turn.is_revealed,
        case=spec_to_json(turn.shows),
        draft=turn.draft,
        reviews=[WithValues(review, own=review.physician_id == turn.physician.pk) for review in turn.reviews],
        objection=turn.objection.reason if turn.objection else "",
    )


REVEAL_BODY: Fields = {**TOKEN, "answers": AnswersSerializer()}

DECLINE_BODY: Fields = {
    **TOKEN,
    "reason": serializers.ChoiceField(choices=Declined.Reason.choices),
    "text": serializers.CharField(allow_blank=True, default="", max_length=2000),
}

PROBLEM_TEXT_BODY: Fields = {"text": serializers.CharField(max_length=2000, help_text="A description of the problem.")}


CHOSEN_WORK_BODY: Fields = {
    "benchmark": serializers.CharField(default="", allow_blank=True, max_length=64, help_text="Empty: any."),
    "stage": serializers.ChoiceField(
        choices=[state.value for state in State if not state.final],
        default="",
        allow_blank=True,
        help_text="Empty: any.",
    ),
}


class AssignmentViewSet(ViewSet):
    """Your assignments."""

    can = Can.REVIEW
    row = "<assignment:assignment_id>"

    @answers(
        WorkSerializer,
        body=CHOSEN_WORK_BODY,
        responses={200: WorkSerializer, 204: OpenApiResponse(description="No cases are available for you right now.")},
    )
    @action(detail=False, methods=["post"])
    def next(self, request: Request, body: Body) -> Any:
        """Claim the next case, of a benchmark or stage if you like, or get the one you hold."""
        me = signed_in_account(request)
        assignment = claims.claim_next(me, case_queue.ChosenWork(**body))
        if assignment is None:
            return Response(status=204)
        return _work(ReviewTurn(me, assignment))

    @answers(WorkSerializer)
    def retrieve(self, request: Request, assignment_id: int) -> Any:
        """One of your assignments: the case, your draft, and the other reviews that you may read
        now.
        """
        return _work(turn_of(signed_in_account(request), assignment_id))

    @acts({"lease_until": serializers.DateTimeField(help_text="When the claim ends unless it is renewed.")}, TOKEN)
    def heartbeat(self, request: Request, body: Body, assignment_id: int) -> Any:
        """Renew the claim."""
        return claims.heartbeat(signed_in_account(request), assignment_id, **body)

    @answers(SavedSerializer, body=SAVE_BODY)
    @action(detail=True, methods=["put"])
    def draft(self, request: Request, body: Body, assignment_id: int) -> Any:
        """Save the draft and renew the claim.

        If the claim has ended, the draft is saved and the answer is 409.
        """
        turn = turn_of(signed_in_account(request), assignment_id, own=False)
        return services.save_draft(turn, body["token"], answers_from_json(body["answers"]), revision=body["revision"])

    @acts(SubmittedSerializer, SUBMIT_BODY, status=201)
    def submit(self, request: Request, body: Body, assignment_id: int) -> Any:
        """Submit the review for this phase. This signs it in your name.

        Twice, too late or before the first look: 409. Incomplete: 422 with `problems`. If the case
        requires the password or a second-factor code: 403 without it, 429 after too many wrong
        ones.
        """
        answers = answers_from_json(body["answers"])
        turn = turn_of(signed_in_account(request), assignment_id, own=False)
        with signatures.count_refused_signatures(request._request, turn, body["token"]):
            return services.submit(
                turn,
                body["token"],
                answers,
                password=body["password"],
                code=body["code"],
                revision=body.get("revision"),
            )

    @acts(SubmittedSerializer, SIGN_BODY, status=201)
    def sign(self, request: Request, body: Body, assignment_id: int) -> Any:
        """As an adjudicator in the second vote, sign a proposal: its verdict and rubrics, word for word.

        Your levels of harm stand. Not a second vote, or no review that you are shown: 409.
        """
        signature = {"password": body["password"], "code": body["code"]}
        turn = turn_of(signed_in_account(request), assignment_id, own=False)
        with signatures.count_refused_signatures(request._request, turn, body["token"]):
            return services.sign_proposal(turn, body["token"], body["review"], **signature)

    @acts(WorkSerializer, REVEAL_BODY)
    def reveal(self, request: Request, body: Body, assignment_id: int) -> Any:
        """Commit the first look and reveal the traps. Its answers are kept, others are ignored.

        No first look: 409. Incomplete: 422 with `problems`.
        """
        turn = turn_of(signed_in_account(request), assignment_id, own=False)
        return _work(first_look.reveal(turn, body["token"], answers_from_json(body["answers"])))

    @acts(body=TOKEN)
    def release(self, request: Request, body: Body, assignment_id: int) -> None:
        """Return a case to the queue. Your draft is kept."""
        claims.release(signed_in_account(request), assignment_id, body["token"])

    @acts(body=DECLINE_BODY)
    def decline(self, request: Request, body: Body, assignment_id: int) -> None:
        """Decline a case for good. It goes to somebody else and is not offered to you again."""
        reason = Declined.Reason(body["reason"])
        claims.decline(signed_in_account(request), assignment_id, body["token"], reason, body["text"])

    @acts(body=PROBLEM_TEXT_BODY)
    def problem(self, request: Request, body: Body, assignment_id: int) -> None:
        """Report a problem with a case to the admins. You keep the case."""
        claims.report_problem(signed_in_account(request), assignment_id, body["text"])


class OwnReviewViewSet(GenericViewSet[Review]):
    """Your reviews."""

    can = Can.REVIEW
    serializer_class = MyReviewSerializer
    row = "<int:review_id>"

    @answers(MyReviewSerializer, paged=True)
    @action(detail=False, pagination_class=NewestFirst)
    def mine(self, request: Request) -> Any:
        """Your reviews, newest first."""
        return visibility.reviews_by(signed_in_account(request))

    @acts(SubmittedSerializer, CORRECT_BODY, status=201)
    def correct(self, request: Request, body: Body, review_id: int) -> Any:
        """Replace a review of yours while its case goes on. The audit trail keeps both.

        Once others have built on it or may read it, once it decided what comes next, or once the
        case has closed: 409. Otherwise as for a submission.
        """
        me = signed_in_account(request)
        turn = turn_of(me, visibility.own_review(me, review_id).assignment_id)
        with signatures.count_refused_signatures(request._request, turn, turn.assignment.token):
            return correction.correct(
                me,
                review_id,
                answers_from_json(body["answers"]),
                reason=body["reason"],
                password=body["password"],
                code=body["code"],
            )

    @acts(WorkSerializer)
    def retract(self, request: Request, review_id: int) -> Any:
        """Undo a submission of yours: you hold the case again, with your answers as the draft.

        Too late: 409.
        """
        me = signed_in_account(request)
        assignment = retraction.retract(me, review_id)
        return _work(turn_of(me, assignment.pk))
