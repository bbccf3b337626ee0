"""What admins do to a case: withdraw it, give it a priority."""

from review import errors
from review.access import visibility
from review.assignments.services import follow_reviews
from review.audit.trail import record, recording_events
from review.models import Assignment, Case, Event, User
from review.rules.permissions import Can, require
from review.rules.state_machine import State, position


@recording_events()
def withdraw(case_id: int, *, actor: User, reason: str) -> Case:
    """Take a case away from the physicians, for good. Raises CaseClosed if it has ended already."""
    require(actor, Can.OVERSEE)
    case = Case.objects.select_for_update(no_key=True).get(pk=case_id)
    if State(case.state).final:
        raise errors.CaseClosed
    record(case, Event.Kind.WITHDRAWN, actor, reason=reason)
    follow_reviews(case, position(case.frozen.policy, visibility.opinions(case), withdrawn=True), actor=actor)
    return case


@recording_events()
def prioritise(case_id: int, *, actor: User, priority: int) -> Case:
    """Set a case's priority; cases with a higher one are assigned first."""
    require(actor, Can.OVERSEE)
    case = Case.objects.select_for_update(no_key=True).get(pk=case_id)
    record(case, Event.Kind.PRIORITISED, actor, before=case.priority, after=priority)
    case.priority = priority
    case.save(update_fields=["priority"])
    Assignment.objects.filter(case=case).update(priority=priority)
    return case
