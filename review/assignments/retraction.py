"""Taking a submitted review back while nobody has built on it."""

from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import review_drafts
from review.assignments.claims import lease
from review.audit.trail import record, recording_events
from review.models import Assignment, Case, Event, Retraction, Rewording, User
from review.rules.permissions import Can, require
from review.rules.state_machine import Phase, State, position

Hold = Assignment.Hold
_TAKEN = (Event.Kind.CLAIMED, Event.Kind.TAKEN_OVER)


@recording_events()
def retract(physician: User, review_id: int) -> Assignment:
    """Take an own review back: it counts as not given, its answers are a draft again, and its author holds the case.

    Possible as long as it is the last one of an open case and nobody has had in hand what it opened; nobody includes the
    author: a blind answer after which the other's was shown would not be blind a second time, so the secondary's first
    answer can only be changed by the confirmation, with a reason, and a vote that opened the discussion stands.

    A review that closed its case cannot be taken back: an outcome is carried over to the sample at once (a release, the
    next version), and all who had a role may read everything from then on. A copy of the author's own is nobody's sample.

    Raises:
        NotYours: no such review of this physician. NotUndoable.
    """
    require(physician, Can.REVIEW)
    # The case before its assignments, as everywhere: see services._submit.
    case = Case.objects.select_for_update(no_key=True, of=("self",)).filter(reviews=review_id).first()
    review = visibility.reviews_by(physician).filter(pk=review_id).first()
    if case is None or review is None:
        raise errors.NotYours
    # A copy ends with this one answer and nobody builds on it: it can be taken back like a case that is still open.
    ended = State(case.state).final and not case.is_copy
    ended = ended or Rewording.objects.filter(review=review).exists()  # the primary has been asked
    if ended or visibility.counted_reviews().filter(case=case).order_by("-id").first() != review:
        raise errors.NotUndoable
    Retraction.objects.create(review=review, at=timezone.now())
    now = position(case.frozen.policy, visibility.opinions(case))
    turns = {(turn.role, turn.phase) for turn in now.openings}
    for opened in Assignment.objects.select_for_update(of=("self",)).filter(case=case).order_by("pk"):
        if opened.pk == review.assignment_id:
            own = opened
        elif (opened.role, opened.phase) not in turns and not _committed(opened):
            _close_again(opened)
    if own.phase != review.phase:  # the author's own next phase is open: the other's answer was shown
        raise errors.NotUndoable
    own.hold, own.lease_until = Hold.HELD, timezone.now() + lease()
    own.new_token()
    own.save(update_fields=["hold", "lease_until", "token"])
    review_drafts.keep(own, physician, Phase(review.phase), review.answers)
    record(case, Event.Kind.RETRACTED, physician, role=review.role, phase=review.phase, review=review.pk)
    if now.state != case.state:
        before, case.state, case.ground, case.closed_at = case.state, now.state, "", None
        case.save(update_fields=["state", "ground", "closed_at"])
        record(case, Event.Kind.MOVED, physician, before=before, after=now.state, ground="")
    return own


def _committed(assignment: Assignment) -> bool:
    return visibility.counted_reviews().filter(assignment=assignment).exists()


def _close_again(opened: Assignment) -> None:
    """Delete an assignment that a review opened, if nobody has had it in hand."""
    taken = Event.objects.filter(case_id=opened.case_id, kind__in=_TAKEN, data__role=opened.role)
    touched = opened.drafts.exists() or opened.first_looks.exists() or opened.intervals.exists()
    if opened.hold != Hold.OPEN or opened.reserved_for_id or touched or taken.exists():
        raise errors.NotUndoable
    opened.delete()
