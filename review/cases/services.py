"""Actions of admins on a case: withdraw it, change its queue settings, reserve it."""

from review import errors
from review.access import visibility
from review.assignments import claims, eligibility
from review.assignments.services import follow_reviews
from review.audit.trail import record, recording_events
from review.models import Assignment, Case, Event, User
from review.rules.permissions import Can, require
from review.rules.state_machine import Phase, Role, State, position


@recording_events()
def withdraw(case_id: int, *, actor: User | None, reason: str) -> Case:
    """Withdraw a case from review for good. Raises CaseClosed if it has ended already.

    `actor` is None for the operator of the machine.
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
    """Set a case's priority; cases with a higher one are assigned first.

    Raises CaseClosed if the case has ended.
    """
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
def set_specialty(case_id: int, specialty: str, *, actor: User) -> Case:
    """Limit a case to physicians of this specialty and to those with none on record.

    Empty lifts the limit. Assignments that are held stay with their holders. Raises NotYours,
    CaseClosed.
    """
    require(actor, Can.OVERSEE)
    case = claims.lock_open_case(case_id)
    case.specialty = specialty.strip()
    case.save(update_fields=["specialty"])
    policy = case.frozen.policy
    for assignment in Assignment.objects.select_for_update(of=("self",)).filter(case=case).order_by("pk"):
        assignment.specialty = eligibility.reviewer_requirements(case, Role(assignment.role), policy)["specialty"]
        assignment.save(update_fields=["specialty"])
    record(case, Event.Kind.SPECIALTY, actor, text=case.specialty)
    return case


@recording_events()
def set_language(case_id: int, language: str, *, actor: User) -> Case:
    """Limit a case to physicians who read this language (ISO 639-1) or have none on record.

    Empty lifts the limit; UNDETERMINED offers the case to nobody. Assignments that are held stay
    with their holders. Raises NotYours, CaseClosed.
    """
    require(actor, Can.OVERSEE)
    case = claims.lock_open_case(case_id)
    case.language = language.strip().lower()
    case.save(update_fields=["language"])
    policy = case.frozen.policy
    for assignment in Assignment.objects.select_for_update(of=("self",)).filter(case=case).order_by("pk"):
        assignment.language = eligibility.reviewer_requirements(case, Role(assignment.role), policy)["language"]
        assignment.save(update_fields=["language"])
    record(case, Event.Kind.LANGUAGE, actor, text=case.language)
    return case


@recording_events()
def reserve(case_id: int, *, to: User, actor: User) -> Assignment:
    """Reserve for `to` the first role of the case that is open and that nobody holds.

    Raises Committed if there is none, and whatever `claims.reassign` raises.
    """
    require(actor, Can.OVERSEE)
    case = Case.objects.select_for_update(no_key=True).get(pk=case_id)
    if State(case.state).final:
        raise errors.CaseClosed
    free = Assignment.objects.filter(case=case, phase=Phase.COMMIT, hold=Assignment.Hold.OPEN).order_by("pk")
    if (role := free.values_list("role", flat=True).first()) is None:
        raise errors.Committed
    return claims.reassign(case_id, Role(role), to=to, actor=actor)
