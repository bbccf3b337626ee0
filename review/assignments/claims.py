"""Claim, renew and return assignments. Each public function is one transaction."""

import uuid
from datetime import timedelta
from itertools import chain

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, Q
from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import case_queue, queries
from review.audit.trail import record, recording_events
from review.calibration import services
from review.calibration.queries import items as calibration_items
from review.cases.services import lease
from review.discussion.remarks import check_rate
from review.models import Assignment, Declined, Draft, Event, Notice, Review, User
from review.rules import limits
from review.rules.permissions import Can, UserRole, require
from review.rules.state_machine import Phase
from review.turns.turn import turn_of

Hold = Assignment.Hold
MIN_RENEWAL_INTERVAL = timedelta(seconds=30)


def claim_next(physician: User, chosen: case_queue.ChosenWork = case_queue.ANY) -> Assignment | None:
    """Return the assignment that the physician holds, or claim the next one.

    The result carries its case. None if no case is available or the physician may not take one
    (`case_queue.blocking_reason`).

    The candidate row is locked, rows that others are claiming are skipped, and the UPDATE checks
    again that the row is free. So two physicians who claim at once get different cases. One
    physician who claims in two windows at once waits on the lock of their account row, and gets the
    same case in both.
    """
    require(physician, Can.REVIEW)
    # An attempt fails only because somebody else claimed the case, so the queue makes progress.
    for _attempt in range(20):
        with recording_events():
            has_items = Exists(calibration_items(active=True))
            me = User.objects.select_for_update(no_key=True).annotate(has_items=has_items).get(pk=physician.pk)
            require(me, Can.REVIEW)
            mine = Q(physician=me, hold=Hold.HELD) | Q(reserved_for=me, hold=Hold.OPEN)
            holds = set(Assignment.objects.filter(mine).values_list("hold", flat=True))
            held = None
            if Hold.HELD in holds:
                held = queries.held_assignment(me, locked=True)
            if held is not None:
                return renew(held)
            if case_queue.blocking_reason(me) is not None:
                return None
            has_copy = services.prepare_copy(me, with_items=me.has_items)
            is_reserved = has_copy or Hold.OPEN in holds
            rounds = case_queue.search_rounds(me, chosen, reserved_too=is_reserved)
            if not is_reserved:
                rounds = chain([case_queue.first_round(me, chosen)], rounds)
            for search in rounds:
                if (claimed := _claim_first(search, me)) is not None:
                    return claimed
            # A database with a single writer skips no locked rows.
            single_writer = not connection.features.has_select_for_update_skip_locked
            if single_writer:
                skipped = None
            else:
                skipped = case_queue.first_candidate(me, case_queue.search_rounds(me, chosen))
        if skipped is None:
            return None
        # Wait for the skipped row. This transaction holds no other lock, so it cannot deadlock.
        with transaction.atomic():
            Assignment.objects.select_for_update().filter(pk=skipped).first()
    return None


def _claim_first(search: case_queue.SearchRound, physician: User) -> Assignment | None:
    """Claim the first free row of a search round; None if there is none."""
    while (found := search.lock_first()) is not None:
        if _claim(found, physician, search):
            return found
    return None


def _claim(found: Assignment, physician: User, search: case_queue.SearchRound) -> bool:
    """Claim an assignment that is locked. Returns whether it is still free."""
    now = timezone.now()
    reason = case_queue.claim_reason(found, physician, search)
    values = {"token": uuid.uuid4(), "hold": Hold.HELD, "lease_until": now + lease(), "reason": reason}
    # The search read a snapshot: what it found may have been claimed or reserved since.
    free = Q(hold=Hold.OPEN) | Q(hold=Hold.HELD, lease_until__lt=now)
    unreserved = Q(reserved_for=None) | Q(reserved_for=physician)
    rows = Assignment.objects.filter(free, unreserved, pk=found.pk, phase=Phase.COMMIT)
    if not rows.update(physician=physician, **values):
        return False
    for name, value in {"physician": physician, **values}.items():
        setattr(found, name, value)
    # An open row has no holder any more; only a claim on a lapsed lease takes it from somebody.
    loser = None
    if search.lapsed:
        loser = visibility.holder_on_record(found)
    if loser is None:
        record(found.case, Event.Kind.CLAIMED, physician, role=found.role)
    else:
        record(found.case, Event.Kind.TAKEN_OVER, physician, role=found.role, taken_from=loser)
    return True


def recently_renewed(assignment: Assignment) -> bool:
    """Whether the lease was renewed so recently that renewing it again would gain nothing."""
    return (
        assignment.lease_until is not None and assignment.lease_until > timezone.now() + lease() - MIN_RENEWAL_INTERVAL
    )


def renew(assignment: Assignment) -> Assignment:
    """Renew the lease of an assignment whose row is locked, unless it was renewed recently."""
    if not recently_renewed(assignment):
        assignment.lease_until = timezone.now() + lease()
        assignment.save(update_fields=["lease_until"])
    return assignment


def hold_on(physician: User, assignment: Assignment, token: uuid.UUID) -> None:
    """Lock the row of an assignment and renew its lease, if `token` is still valid for it.

    Needs a transaction. Raises NotAssigned, LeaseLost, AlreadySubmitted, CaseClosed.
    """
    require(physician, Can.REVIEW)
    until = timezone.now() + lease()
    held = Assignment.objects.filter(pk=assignment.pk, physician=physician, token=token, hold=Hold.HELD)
    if not held.update(lease_until=until):
        fenced_assignment(physician, assignment.pk, token)
    assignment.lease_until = until


@transaction.atomic
def heartbeat(physician: User, assignment_id: int, token: uuid.UUID) -> Assignment:
    """Renew the lease. Raises LeaseLost if somebody else holds the assignment now."""
    return renew(fenced_assignment(physician, assignment_id, token))


def fenced_assignment(physician: User, assignment_id: int, token: uuid.UUID) -> Assignment:
    """Lock and return the assignment if `token` is still valid for it. Needs a transaction.

    Raises:
        NotAssigned, LeaseLost, AlreadySubmitted, CaseClosed.
    """
    require(physician, Can.REVIEW)
    rows = Assignment.objects.select_for_update(of=("self",)).select_related("case").defer("case__spec")
    assignment = rows.filter(pk=assignment_id).first()
    if assignment is None:
        raise errors.NotAssigned
    return fence(assignment, physician, token)


def fence(assignment: Assignment, physician: User, token: uuid.UUID) -> Assignment:
    """Return `assignment` if `token` is still valid for it; else raise as `fenced_assignment` does.

    The result is reliable only while the row is locked.
    """
    if assignment.physician_id == physician.pk and assignment.token == token:
        # A physician who has submitted no longer holds it, until the next phase returns it to them
        # under a new token. Not by the state of the case: a lock that waited returns the assignment
        # as it is now, but its case as it was before.
        if assignment.hold != Hold.HELD:
            submitted = _submitted(assignment, physician, phase=assignment.phase, retraction__isnull=True)
            raise errors.AlreadySubmitted if submitted else errors.CaseClosed
        return assignment
    # If the physician lost the assignment after retracting a review, what they typed since is a
    # draft, so the retracted review must not count here.
    conditions = {}
    if assignment.physician_id != physician.pk:
        conditions = {"retraction__isnull": True}
    # Every phase has its own token; this one belongs to an earlier phase.
    if _submitted(assignment, physician, **conditions):
        raise errors.AlreadySubmitted
    drafts, claims = Draft.objects.filter(assignment=assignment), visibility.claims_of(assignment)
    if drafts.filter(physician=physician).exists() or claims.filter(actor=physician).exists():
        raise errors.LeaseLost
    raise errors.NotAssigned


def _submitted(assignment: Assignment, physician: User, **conditions: object) -> bool:
    return Review.objects.filter(assignment=assignment, physician=physician, **conditions).exists()


@recording_events()
def release(physician: User, assignment_id: int, token: uuid.UUID) -> None:
    """Return a case to the queue without submitting.

    The draft is kept for the physician, who is offered other cases before this one.

    Raises:
        TooManyReleases: the hourly limit is reached. Without it, a physician could browse all
            waiting cases by returning one and taking the next.
        NotAssigned, LeaseLost, AlreadySubmitted, CaseClosed.
    """
    assignment = _uncommitted_assignment(physician, assignment_id, token)
    _check_release_limit(physician)
    assignment.free()
    record(assignment.case, Event.Kind.RELEASED, physician, role=assignment.role)


@recording_events()
def decline(physician: User, assignment_id: int, token: uuid.UUID, reason: Declined.Reason, text: str = "") -> Declined:
    """Return a case for good: it is never offered to this physician again.

    Raises as `release` does.
    """
    assignment = _uncommitted_assignment(physician, assignment_id, token)
    _check_release_limit(physician)
    declined = Declined.objects.create(
        case=assignment.case, physician=physician, reason=reason, text=text, at=timezone.now()
    )
    if not assignment.case.is_copy:  # a copy stays reserved: nobody else may work on it
        assignment.reserved_for = None
    assignment.free()
    record(assignment.case, Event.Kind.DECLINED, physician, role=assignment.role, because=reason, text=text)
    return declined


@recording_events()
def report_problem(physician: User, assignment_id: int, text: str) -> None:
    """Notify all admins that something is wrong with a case. Its assignment does not change.

    Raises:
        NotAssigned: the physician neither holds this assignment nor submitted a review for it.
        TooLong, TooManyComments.
    """
    require(physician, Can.REVIEW)
    assignment = turn_of(physician, assignment_id).assignment
    if len(text) > limits.REMARK:
        raise errors.TooLong
    check_rate(physician)
    now = timezone.now()
    record(assignment.case, Event.Kind.PROBLEM, physician, role=assignment.role, text=text)
    admins = User.objects.filter(role=UserRole.ADMIN, is_active=True)
    Notice.objects.bulk_create(
        Notice(user=admin, kind=Notice.Kind.PROBLEM, case=assignment.case, text=text, at=now) for admin in admins
    )


def _check_release_limit(physician: User) -> None:
    if visibility.count_released_cases(physician) >= settings.MHB_RELEASES_PER_HOUR:
        raise errors.TooManyReleases


def _uncommitted_assignment(physician: User, assignment_id: int, token: uuid.UUID) -> Assignment:
    assignment = fenced_assignment(physician, assignment_id, token)
    if assignment.phase != Phase.COMMIT:
        raise errors.AlreadySubmitted
    return assignment


def expire_leases() -> int:
    """Reopen assignments whose lease ran out before anything was committed; called by the sweeper.

    Returns: how many were reopened.
    """
    expired = Assignment.objects.filter(hold=Hold.HELD, phase=Phase.COMMIT, lease_until__lt=timezone.now())
    count = 0
    for assignment in expired.select_related("case", "physician"):
        with recording_events():
            updated = expired.filter(pk=assignment.pk, token=assignment.token).update(
                hold=Hold.OPEN, physician=None, token=None, lease_until=None
            )
            if updated:
                record(assignment.case, Event.Kind.EXPIRED, assignment.physician, role=assignment.role)
                count += 1
    return count
