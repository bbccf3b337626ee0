"""Admins give roles to physicians. Each public function is one transaction."""

from django.urls import reverse
from django.utils.translation import gettext as _

from review import errors
from review.assignments import case_queue
from review.audit.trail import record, recording_events
from review.cases.services import lock_open_case
from review.common import notifications
from review.models import Assignment, Event, Occasion, User
from review.rules.permissions import Can, allowed, require
from review.rules.state_machine import Phase, Role

Hold = Assignment.Hold


@recording_events()
def reassign(case_id: int, role: Role, *, to: User | None, actor: User) -> Assignment:
    """Take a role from its holder and reserve it for `to`; if None, anybody eligible may take it.

    Possible only before an answer was committed. Afterwards the role belongs to its holder: the
    state machine replays the reviews, and a confirmation or a second vote can only come from the
    author of the first. `reopen_role` resolves a case that is stuck there.

    Raises:
        NotAssigned: the case has no such role.
        Committed: an answer was committed for this role.
        CaseClosed.
        NotReserved: `to` may not work on it; the error says why.
    """
    require(actor, Can.OVERSEE)
    if to is not None:
        to = _lock_account(to)
    case = lock_open_case(case_id)
    assignment = Assignment.objects.select_for_update(of=("self",)).filter(case=case, role=role).first()
    if assignment is None:
        raise errors.NotAssigned
    if assignment.phase != Phase.COMMIT or assignment.hold not in (Hold.OPEN, Hold.HELD):
        raise errors.Committed
    if case.is_copy and to is None:
        to = assignment.reserved_for  # nobody else may work on a copy
    loser = assignment.physician_id
    assignment.reserved_for = to
    assignment.free()
    keeps_copy = case.is_copy and assignment.reserved_for_id == loser
    if to is not None and not keeps_copy:
        _check_reservable(assignment, to)
    if to is not None and to.pk != loser:
        notifications.tell(Occasion.ASSIGNED, [to], case=case.pk, path=reverse("review:workbench"))
    record(case, Event.Kind.REASSIGNED, actor, role=role, taken_from=loser, given_to=assignment.reserved_for_id)
    return assignment


@recording_events()
def reserve(case_id: int, *, to: User, actor: User) -> Assignment:
    """Reserve for `to` the first role of the case that is open and that nobody holds.

    Raises Committed if there is none, and whatever `reassign` raises.
    """
    require(actor, Can.OVERSEE)
    to = _lock_account(to)
    case = lock_open_case(case_id)
    free = Assignment.objects.filter(case=case, phase=Phase.COMMIT, hold=Hold.OPEN).order_by("pk")
    if (role := free.values_list("role", flat=True).first()) is None:
        raise errors.Committed
    return reassign(case_id, Role(role), to=to, actor=actor)


def _lock_account(to: User) -> User:
    """The account as it is now, locked: what ends its right to the case waits, and then frees it.

    Before the case, like every lock of an account.
    """
    return User.objects.select_for_update(no_key=True).get(pk=to.pk)


def _check_reservable(assignment: Assignment, to: User) -> None:
    if not allowed(to, Can.REVIEW):
        raise errors.NotReserved(_("This account cannot review cases."))
    if to.paused_at is not None:
        raise errors.NotReserved(_("%(name)s is paused and gets no new cases.") % {"name": to})
    if assignment.case.is_copy:
        raise errors.NotReserved(_("This is another physician's training case."))
    problem = case_queue.ineligibility(to, assignment)
    if problem is not None:
        raise errors.NotReserved(str(problem))
