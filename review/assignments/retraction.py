"""Retract a submitted review while nobody has built on it."""

from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import review_drafts
from review.audit.trail import record, recording_events
from review.cases.services import lease
from review.models import Assignment, Case, Event, Retraction, Rewording, User
from review.rules.permissions import Can, require
from review.rules.state_machine import Phase, State, position

Hold = Assignment.Hold


@recording_events()
def retract(physician: User, review_id: int) -> Assignment:
    """Retract one of the physician's reviews.

    It no longer counts, its answers become a draft again, and its author holds the case.

    Possible only for the last review of an open case, as long as nobody has held what it opened.
    That includes the author: a blind answer would no longer be blind after the other's was shown.
    So the secondary can change a first answer only in the confirmation, with a reason, and a vote
    that opened the discussion cannot be changed.

    A review that closed its case cannot be retracted: the outcome is carried over to the sample at
    once (a release, the next version), and everybody who had a role may read everything from then
    on. A copy is an exception, because it belongs to no sample.

    Raises:
        NotAssigned: the physician has no such review.
        NotUndoable.
    """
    require(physician, Can.REVIEW)
    # Lock the case before its assignments, as everywhere: see services._submit.
    case = Case.objects.select_for_update(no_key=True, of=("self",)).filter(reviews=review_id).first()
    review = visibility.reviews_by(physician).filter(pk=review_id).first()
    if case is None or review is None:
        raise errors.NotAssigned
    # A copy closes with this one answer and nobody builds on it, so it counts as still open.
    too_late = State(case.state).final and not case.is_copy
    too_late = too_late or Rewording.objects.filter(review=review).exists()  # the primary has been asked
    if too_late or visibility.counted_reviews().filter(case=case).order_by("-id").first() != review:
        raise errors.NotUndoable
    Retraction.objects.create(review=review, at=timezone.now())
    now = position(case.frozen.policy, visibility.opinions(case))
    turns = {(turn.role, turn.phase) for turn in now.openings}
    committed = set(visibility.counted_reviews().filter(case=case).values_list("assignment", flat=True))
    for assignment in Assignment.objects.select_for_update(of=("self",)).filter(case=case).order_by("pk"):
        if assignment.pk == review.assignment_id:
            own = assignment
        elif (assignment.role, assignment.phase) not in turns and assignment.pk not in committed:
            _delete_unheld(assignment)
    if own.phase != review.phase:  # the author's own next phase is open: the other's answer was shown
        raise errors.NotUndoable
    own.hold, own.lease_until = Hold.HELD, timezone.now() + lease()
    own.new_token()
    own.save(update_fields=["hold", "lease_until", "token"])
    review_drafts.store(own, physician, Phase(review.phase), review.answers)
    record(case, Event.Kind.RETRACTED, physician, role=review.role, phase=review.phase, review=review.pk)
    if now.state != case.state:
        before, case.state, case.ground, case.closed_at = case.state, now.state, "", None
        case.save(update_fields=["state", "ground", "closed_at"])
        record(case, Event.Kind.MOVED, physician, before=before, after=now.state, ground="")
    return own


def _delete_unheld(assignment: Assignment) -> None:
    """Delete an assignment that a review opened. Raises NotUndoable if anybody has ever held it."""
    claim_events = Event.objects.filter(
        case_id=assignment.case_id, kind__in=visibility.CLAIMS, data__role=assignment.role
    )
    worked_on = assignment.drafts.exists() or assignment.first_looks.exists() or assignment.intervals.exists()
    if assignment.hold != Hold.OPEN or assignment.reserved_for_id or worked_on or claim_events.exists():
        raise errors.NotUndoable
    assignment.delete()
