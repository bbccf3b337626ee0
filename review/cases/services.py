"""What admins do to a case: withdraw it, give it a priority, reserve it."""

from review import errors
from review.access import visibility
from review.assignments import claims
from review.assignments.services import follow_reviews
from review.audit.trail import record, recording_events
from review.models import Assignment, Case, Event, User
from review.rules.permissions import Can, require
from review.rules.state_machine import Phase, Role, State, position


@recording_events()
def withdraw(case_id: int, *, actor: User | None, reason: str) -> Case:
    """Take a case away from the physicians, for good. `actor`: None for the operator of the machine.

    Raises CaseClosed if it has ended already.
    """
    if actor is not None:
        require(actor, Can.OVERSEE)
    case = Case.objects.select_for_update(no_key=True).get(pk=case_id)
    if State(case.state).final:
        raise errors.CaseClosed
    record(case, Event.Kind.WITHDRAWN, actor, reason=reason)
    follow_reviews(case, position(case.frozen.policy, visibility.opinions(case), withdrawn=True), actor=actor)
    return case


@recording_events()
def prioritise(case_id: int, *, actor: User, priority: int) -> Case:
    """Set a case's priority; cases with a higher one are assigned first. Raises CaseClosed if it has ended."""
    require(actor, Can.OVERSEE)
    case = Case.objects.select_for_update(no_key=True).get(pk=case_id)
    if State(case.state).final:
        raise errors.CaseClosed
    record(case, Event.Kind.PRIORITISED, actor, before=case.priority, after=priority)
    case.priority = priority
    case.save(update_fields=["priority"])
    Assignment.objects.filter(case=case).update(priority=priority)
    return case


@recording_events()
def reserve(case_id: int, *, to: User, actor: User) -> Assignment:
    """Reserve the open role that nobody holds for `to`. Raises Committed where there is none, and what `reassign` raises."""
    require(actor, Can.OVERSEE)
    case = Case.objects.select_for_update(no_key=True).get(pk=case_id)
    if State(case.state).final:
        raise errors.CaseClosed
    free = Assignment.objects.filter(case=case, phase=Phase.COMMIT, hold=Assignment.Hold.OPEN).order_by("pk")
    if (role := free.values_list("role", flat=True).first()) is None:
        raise errors.Committed
    return claims.reassign(case_id, Role(role), to=to, actor=actor)
