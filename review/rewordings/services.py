"""Services for the outcome of a rewording.

Each is one transaction, which locks the case row first.
"""

from django.utils import timezone

from review import errors
from review.audit.trail import record, recording_events
from review.cases.services import follow_reviews
from review.models import Case, Event, Rewording, RewordingOutcome, User
from review.rewordings import queries
from review.rules import limits
from review.rules.permissions import Can, require
from review.rules.state_machine import Consent, State

_EVENTS = {
    Consent.ACCEPTED: Event.Kind.ACCEPTED,
    Consent.OBJECTED: Event.Kind.OBJECTED,
    Consent.LAPSED: Event.Kind.LAPSED,
}


def accept(physician: User, rewording_id: int) -> RewordingOutcome:
    """Accept the secondary's wording, which approves the case. Raises like `object_to`."""
    return _record_answer(physician, rewording_id, Consent.ACCEPTED)


def object_to(physician: User, rewording_id: int, reason: str) -> RewordingOutcome:
    """Object to the secondary's wording: it counts as dissent, and the case goes to adjudication.

    Raises:
        NotAssigned: it was not shown to this physician. EmptyText: the reason is empty. TooLong.
        RewordingAnswered, RewordingLapsed, CaseClosed: too late. Nothing was written.
    """
    if not reason.strip():
        raise errors.EmptyText
    if len(reason) > limits.COMMENT:
        raise errors.TooLong
    return _record_answer(physician, rewording_id, Consent.OBJECTED, reason.strip())


@recording_events()
def _record_answer(physician: User, rewording_id: int, consent: Consent, reason: str = "") -> RewordingOutcome:
    require(physician, Can.REVIEW)
    case = _locked_case(queries.rewording_of(physician, rewording_id))
    rewording = queries.rewording_of(physician, rewording_id)  # read again under the lock
    outcome = RewordingOutcome.objects.filter(rewording=rewording).first()
    if outcome is not None and outcome.consent != Consent.LAPSED:
        raise errors.RewordingAnswered
    if outcome is not None or rewording.due_at <= timezone.now():
        raise errors.RewordingLapsed
    if State(case.state).final:
        raise errors.CaseClosed
    return _decide(rewording, case, consent, physician, reason)


def lapse_due() -> int:
    """Approve the cases whose primary has not objected in time; returns how many.

    For the sweeper.
    """
    count = 0
    for rewording in queries.pending().filter(due_at__lte=timezone.now()):
        with recording_events():
            case = _locked_case(rewording)
            if queries.pending().filter(pk=rewording.pk).exists():
                _decide(rewording, case, Consent.LAPSED, None)
                count += 1
    return count


def _locked_case(rewording: Rewording) -> Case:
    return Case.objects.select_for_update(no_key=True, of=("self",)).get(pk=rewording.case_id)


def _decide(
    rewording: Rewording, case: Case, consent: Consent, physician: User | None, reason: str = ""
) -> RewordingOutcome:
    outcome = RewordingOutcome.objects.create(rewording=rewording, consent=consent, reason=reason, at=timezone.now())
    data = {}
    if reason:
        data = {"reason": reason}
    record(case, _EVENTS[consent], physician, review=rewording.review_id, **data)
    follow_reviews(case, actor=physician)
    return outcome
