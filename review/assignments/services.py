"""Store drafts and submit reviews. Each public function is one transaction."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.utils import timezone
from django.utils.translation import gettext as _

from review import errors
from review.answers import signatures
from review.assignments import review_drafts
from review.assignments.claims import fence, heartbeat, recently_renewed
from review.audit.trail import record_submitted, recording_events
from review.cases.services import CaseProgress, follow_reviews, load_progress
from review.discussion import guidelines
from review.models import Assignment, Case, Draft, Review, User
from review.rules import questions
from review.rules.case_spec import answers_to_json
from review.rules.permissions import Can, require
from review.rules.questions import Answers
from review.rules.state_machine import Phase
from review.turns.checks import check_limits, highlight_problems, with_allowed_highlights
from review.turns.turn import ReviewTurn, turn_of


def save_draft(turn: ReviewTurn, token: uuid.UUID, answers: Answers, *, revision: int) -> Draft:
    """Store a draft of a physician's turn, also of one that they lost, and renew the lease.

    It is stored without a lock: the draft belongs to its author, no matter who holds the case.

    Args:
        revision: the revision of the draft that the writer has seen (0: none).

    Raises:
        LeaseLost, CaseClosed: too late to review. The draft was stored, unless another window has
            saved one since `revision`; the error's `detail` then says so.
        StaleDraft: another window has saved a draft since `revision`; nothing was stored.
        Incomplete: the words of a highlight are not at its position; nothing was stored.
        OverLimits: more than `review.rules.limits` allows; nothing was stored.
        AlreadySubmitted, NotAssigned: nothing was stored.
    """
    physician, assignment, spec = turn.physician, turn.assignment, turn.case.frozen
    require(physician, Can.REVIEW)
    answers = turn.answerable(answers)
    check_limits(spec, answers)
    late = _lateness(assignment, physician, token)
    if answers.highlights:
        answers = with_allowed_highlights(answers, revealed=turn.is_revealed)
        if faults := highlight_problems(spec, answers, draft=True):
            raise errors.Incomplete(faults)
    draft = _store_draft(turn, answers, revision)
    if draft is None:
        # The other window may have saved it after the assignment was lost, which is then the news.
        late = late or _lateness(turn_of(physician, assignment.pk, own=False).assignment, physician, token)
        if late is None:
            raise errors.StaleDraft
        raise _with_stale_note(late)
    if late is not None:
        raise late
    if not recently_renewed(assignment):
        # Submitted in another window since: as if this draft had been saved before.
        with suppress(errors.AlreadySubmitted):
            assignment.lease_until = heartbeat(physician, assignment.pk, token).lease_until
    return draft


def _lateness(assignment: Assignment, physician: User, token: uuid.UUID) -> errors.LeaseLost | errors.CaseClosed | None:
    """The error if `token` no longer fences the assignment."""
    try:
        fence(assignment, physician, token)
    except (errors.LeaseLost, errors.CaseClosed) as late:
        return late
    return None


def _store_draft(turn: ReviewTurn, answers: Answers, revision: int | None) -> Draft | None:
    phase = Phase.COMMIT  # nearly all that are lost are in it; the newest draft of any phase is offered
    if turn.is_own:
        phase = turn.phase
    return review_drafts.store(turn.assignment, turn.physician, phase, answers_to_json(answers), revision=revision)


def submit(
    turn: ReviewTurn,
    token: uuid.UUID,
    answers: Answers,
    *,
    password: str = "",
    code: str = "",
    revision: int | None = None,
) -> Review:
    """Submit the review that is due and update the case. `turn.following` is then what follows.

    Answers committed at the first look stand, whatever `answers` says.

    Args:
        revision: the revision of the draft that the writer has seen; None: do not check for a
            draft from another window.

    Raises:
        Incomplete: holds every problem by field. Nothing was written.
        OverLimits: more than `review.rules.limits` allows. Nothing was written.
        AlreadySubmitted: nothing was written.
        NotRevealed: the first look is due. Nothing was written.
        SignatureRefused: the policy requires the password, and `password` is wrong. Nothing was
            written.
        CodeRefused, NoSecondFactor: the policy requires a code of the second factor, and `code` is
            wrong or there is no second factor. Nothing was written.
        LeaseLost, CaseClosed: too late. The answers were stored as the physician's draft, unless
            another window has saved one since `revision`; nothing else was written.
    """
    answers = turn.answerable(answers)
    check_limits(turn.case.frozen, answers)
    signatures.check_password(turn, token, password)
    with keeping_late_answers(turn, answers, revision):
        return _submit(turn, token, answers, code)


def sign_proposal(turn: ReviewTurn, token: uuid.UUID, review_id: int, *, password: str = "", code: str = "") -> Review:
    """Cast an adjudicator's second vote by signing a proposal word for word.

    A proposal is any review that the adjudicator may read; once the other adjudicator has voted a
    second time, that vote is one as well. If both sign the same one, it is the consensus.

    Raises what `submit` raises, NotAssigned, NotAProposal (no such review, or no second vote).
    """
    if not turn.is_own:
        raise errors.NotAssigned
    return submit(turn, token, turn.sign(review_id), password=password, code=code)


@contextmanager
def keeping_late_answers(turn: ReviewTurn, answers: Answers, revision: int | None) -> Iterator[None]:
    """Store the answers as the draft if it is too late for what is done with them here.

    Unless another window has saved one since `revision`: the error's `detail` then says so.
    """
    try:
        yield
    except (errors.LeaseLost, errors.CaseClosed) as late:
        if _store_draft(turn, answers, revision) is None:
            _with_stale_note(late)
        raise


def _with_stale_note(late: errors.ReviewError) -> errors.ReviewError:
    late.detail = _("Another window saved a later version, and that version is kept. Copy what you typed here.")
    return late


def locked_turn(loaded: ReviewTurn) -> tuple[ReviewTurn, CaseProgress]:
    """Lock the case of a turn; returns the turn and the state of the case as they are now.

    Needs a transaction. Raises NotAssigned: a retraction has deleted the assignment.
    """
    # Lock the case before its assignments, as everywhere. FOR NO KEY UPDATE, because a concurrent
    # claim of another assignment of this case holds that row and inserts an event that references
    # the case: with FOR UPDATE the two would deadlock.
    case = Case.objects.select_for_update(no_key=True).defer("spec").get(pk=loaded.case.pk)
    case.spec, case.frozen = loaded.case.spec, loaded.case.frozen  # never change
    progress = load_progress(case)
    assignment = progress.assignments.get(loaded.role)  # a role never changes either
    if assignment is None or assignment.pk != loaded.assignment.pk:
        raise errors.NotAssigned
    assignment.case = case
    turn = ReviewTurn(loaded.physician, assignment)
    turn.counted, turn.first_look = progress.reviews, loaded.first_look
    return turn, progress


@recording_events()
def _submit(loaded: ReviewTurn, token: uuid.UUID, answers: Answers, code: str) -> Review:
    turn, progress = locked_turn(loaded)
    physician, case, assignment = turn.physician, turn.case, turn.assignment
    require(physician, Can.REVIEW)
    fence(assignment, physician, token)
    answers = turn.accept(answers)
    signatures.check_code(physician, case.frozen.policy, code)
    review = store_review(turn, answers, attempt=progress.attempts[turn.role, turn.phase] + 1)
    progress.reviews.append(review)
    # This may move the assignment to its next phase, with a new token.
    follow_reviews(case, actor=physician, progress=progress)
    if assignment.hold == Assignment.Hold.HELD:
        loaded.following = ReviewTurn(physician, assignment)
        loaded.following.counted, loaded.following.first_look = progress.reviews, loaded.first_look
        if review.attempt == 1:  # nobody in this role has been in the next phase, and left a draft
            loaded.following.draft = None
    return review


def store_review(turn: ReviewTurn, accepted: Answers, *, attempt: int) -> Review:
    """Store and record a review, signed by its author. Needs the lock of the case."""
    physician, case, stage = turn.physician, turn.case, turn.role.stage
    # Guidelines are about samples with a trap or mistake, not about controls or answers of models.
    guided = case.kind != Case.Kind.VALIDATION and case.frozen.policy.guided
    guideline = None
    if guided:
        guideline = guidelines.guideline(case.benchmark, stage)
    opinion = questions.opinion(turn.asks, accepted, turn.role, turn.phase)
    review = Review.objects.create(
        case=case,
        assignment=turn.assignment,
        physician=physician,
        role=turn.role,
        phase=turn.phase,
        answers=answers_to_json(accepted),
        verdict=opinion.verdict,
        inadequate=opinion.inadequate,
        submitted_at=timezone.now(),
        signed_as=signatures.signing_name(physician),
        meaning=signatures.MEANINGS[stage],
        guideline=guideline,
        attempt=attempt,
    )
    record_submitted(review)
    return review
