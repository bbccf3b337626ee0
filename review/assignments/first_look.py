"""The first look: questions answered before the traps are shown.

A trap that is marked as one no longer looks natural.
"""

import uuid

from django.db import IntegrityError
from django.utils import timezone

from review import errors
from review.assignments.claims import hold_on
from review.assignments.services import keeping_late_answers
from review.audit.trail import record, recording_events
from review.models import Event, FirstLook
from review.rules.case_spec import answers_to_json
from review.rules.consolidation import with_first_look
from review.rules.questions import Answers, question_problems
from review.turns.checks import check_limits, highlight_problems, with_allowed_highlights
from review.turns.turn import ReviewTurn, requires_first_look, turn_of


def reveal(turn: ReviewTurn, token: uuid.UUID, answers: Answers, *, revision: int | None = None) -> ReviewTurn:
    """Commit the first look for good, reveal the rest of the case, and renew the lease.

    Only answers to first-look questions count. A second call changes nothing.
    `revision` as for `services.submit`. Returns the turn that follows.

    Raises:
        Incomplete: an answer of the first look is missing. OverLimits.
        NothingToReveal: the policy requires no first look.
        LeaseLost, CaseClosed: too late; the answers were stored as `services.submit` does.
        NotAssigned, AlreadySubmitted.
    """
    answers = turn.answerable(answers)
    check_limits(turn.case.frozen, answers)
    answers = with_allowed_highlights(answers, revealed=False)
    try:
        with keeping_late_answers(turn, answers, revision):
            first_look = _commit(turn, token, answers)
    except IntegrityError:  # another window was faster
        return turn_of(turn.physician, turn.assignment.pk)
    revealed = ReviewTurn(turn.physician, turn.assignment)
    revealed.first_look, revealed.draft = first_look, turn.draft
    return revealed


@recording_events()
def _commit(turn: ReviewTurn, token: uuid.UUID, answers: Answers) -> FirstLook:
    hold_on(turn.physician, turn.assignment, token)
    if not requires_first_look(turn.case):
        raise errors.NothingToReveal
    if turn.first_look is not None:
        return turn.first_look
    missing = question_problems(turn.asks.first_look, answers) + highlight_problems(turn.case.frozen, answers)
    if missing:
        raise errors.Incomplete(missing)
    first_look = FirstLook.objects.create(
        assignment=turn.assignment,
        physician=turn.physician,
        answers=answers_to_json(with_first_look(turn.asks, Answers(), answers)),
        at=timezone.now(),
    )
    record(turn.case, Event.Kind.REVEALED, turn.physician, role=turn.role, phase=turn.phase)
    return first_look
