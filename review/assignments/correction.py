"""Correct a submitted review in place: the case goes on, and the trail keeps both reviews."""

from review import errors
from review.access import visibility
from review.answers import signatures
from review.assignments.retraction import retract_reviews
from review.assignments.services import locked_turn, store_review
from review.audit.trail import recording_events, require_own_act
from review.cases.services import CaseProgress, follow_reviews
from review.models import Assignment, Case, Event, Review, User
from review.rules import limits
from review.rules.permissions import Can, require
from review.rules.questions import Answers
from review.rules.state_machine import Role, State
from review.turns.checks import check_limits
from review.turns.turn import ReviewTurn, turn_of


def is_correctable(review: Review, progress: CaseProgress) -> bool:
    """Whether this review, which counts, may be replaced while its case goes on as it is.

    It must be the last one, so that nobody has built on it, and nobody whose turn it is may read
    it. The answers of a secondary decide what comes next; those of the others only together with
    answers that are still missing, so that another answer neither moves the case nor tells its
    author anything. A copy closes with this one answer and must look like an open case.
    """
    case = review.case
    if State(case.state).final and not case.is_copy:
        return False
    if review.role == Role.SECONDARY or progress.reviews[-1] != review:
        return False
    own = progress.assignments[review.role]
    if own.physician_id != review.physician_id or own.phase != review.phase:
        return False  # the author's next phase has shown them the other's answer
    for assignment in progress.assignments.values():
        if assignment.hold == Assignment.Hold.HELD and _may_read(assignment, case, review, progress):
            return False
    return True


def _may_read(holder: Assignment, case: Case, review: Review, progress: CaseProgress) -> bool:
    holder.case = case
    turn = ReviewTurn(holder.physician, holder)  # type: ignore[arg-type]  # a held assignment has a physician
    turn.counted = progress.reviews
    return review in turn.reviews


def correct(
    physician: User, review_id: int, answers: Answers, *, reason: str, password: str = "", code: str = ""
) -> Review:
    """Replace one of the physician's reviews by these answers.

    Answers committed at the first look stand, whatever `answers` says. The audit trail keeps the
    reason.

    Raises:
        NotAssigned: the physician has no such review.
        NotCorrectable: too late, or the case has gone on by the answers (see `is_correctable`).
        EmptyText, TooLong: the reason.
        Incomplete, OverLimits, SignatureRefused, CodeRefused, NoSecondFactor: as `submit` does.
    """
    require(physician, Can.REVIEW)
    reason = reason.strip()
    if not reason:
        raise errors.EmptyText
    if len(reason) > limits.REMARK:
        raise errors.TooLong
    loaded = turn_of(physician, visibility.own_review(physician, review_id).assignment_id)
    check_limits(loaded.case.frozen, answers)
    signatures.check_password(loaded, loaded.assignment.token, password)
    return _correct(loaded, review_id, answers, reason, code)


@recording_events()
def _correct(loaded: ReviewTurn, review_id: int, answers: Answers, reason: str, code: str) -> Review:
    require_own_act(loaded.physician, Event.Kind.RETRACTED)
    turn, progress = locked_turn(loaded)  # whose phase may have changed since
    physician, case = turn.physician, turn.case
    review = next((counted for counted in progress.reviews if counted.pk == review_id), None)
    if review is None:
        raise errors.NotAssigned
    review.case = case
    if not is_correctable(review, progress):
        raise errors.NotCorrectable
    accepted = turn.accept(answers)
    signatures.check_code(physician, case.frozen.policy, code)
    retract_reviews([review], physician, reason, corrected=True)
    corrected = store_review(turn, accepted, attempt=progress.attempts[review.role, review.phase] + 1)
    if case.is_copy:
        follow_reviews(case, actor=physician)
    return corrected
