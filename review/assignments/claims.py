"""Who works on what: claims, leases and what gives a case back. Each function is one transaction."""

import uuid
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from review import errors
from review.access import visibility
from review.assignments import eligibility, queries
from review.audit.trail import record, recording_events
from review.calibration import services
from review.common import sql
from review.models import Assignment, Case, Declined, Draft, Event, FirstLook, Notice, Retraction, Review, User
from review.rules.permissions import Can, UserRole, allowed, require
from review.rules.state_machine import Phase, Role, State

Hold = Assignment.Hold
JUST_NOW = timedelta(seconds=30)


def lease() -> timedelta:
    """How long a claim holds without a heartbeat."""
    return timedelta(minutes=settings.MHB_REVIEW_LEASE_MINUTES)


_ACCOUNT = "SELECT {u} FROM review_user u WHERE u.id = %s"
_STANDING = """SELECT EXISTS (SELECT 1 FROM review_assignment WHERE physician_id = %s AND hold = 'held'),
EXISTS (SELECT 1 FROM review_calibrationitem WHERE active),
EXISTS (SELECT 1 FROM review_assignment WHERE reserved_for_id = %s)"""


def claim_next(physician: User) -> Assignment | None:
    """The physician's case in hand, else the next one that may be taken, with the case and its first look as
    `queries.assignment_of` reads them; None when nothing waits or something hinders.

    The row that is chosen is locked, those that others are just taking are passed over, and the UPDATE that takes it asks
    again whether it is free: two physicians who press at once get two different cases. One who presses in two windows at
    once waits on the row of the same account and gets the same case twice.
    """
    require(physician, Can.REVIEW)
    for _attempt in range(20):  # each round lost means that somebody else has taken a case: progress was made
        with recording_events():
            [(me,)] = sql.instances(_ACCOUNT + sql.locks("no key u"), (physician.pk,), u=User)
            # Asked under the lock, not with it: who has waited for it would see what was before.
            standing = sql.first_row(_STANDING + sql.planned_once(), me.pk, me.pk)
            in_hand, calibrates, reserved = standing[:3] if standing else (False, False, False)
            if in_hand:
                held = queries.in_hand(me, locked=True)
                if held is not None:
                    return renew(held)
            if eligibility.blocking_reason(me) is not None:
                return None
            changed = services.prepare(me, calibrates=calibrates)
            for found in eligibility.passes(me, reserved_for_me=None if changed else reserved):
                taken = _take(found, me)
                if taken is not None:
                    return taken
            # Where writers take turns, nothing can have been locked by somebody else.
            alone = not connection.features.has_select_for_update_skip_locked
            # Also among what is reserved for this person, of which there may have been nothing a moment ago.
            passes = eligibility.passes(me, reserved_for_me=True)
            passed_over = None if alone else eligibility.first_of(passes)
        if passed_over is None:
            return None
        # In a transaction of its own, which holds no other lock: this cannot be part of a deadlock.
        with transaction.atomic():
            Assignment.objects.select_for_update().filter(pk=passed_over).first()
    return None


def _take(found: eligibility.Pass, physician: User) -> Assignment | None:
    search, params = found.first()
    rows = sql.instances(f"{_FOUND}({search})", (physician.pk, *params), a=Assignment, c=_CASE, f=FirstLook)
    if not rows:
        return None
    taken: Assignment = rows[0][0]
    taken.case, taken.looks_read[physician.pk], spec = rows[0][1:]
    taken.case.freeze(spec)
    now = timezone.now()
    why, until, token = eligibility.why(taken, physician, found), now + lease(), uuid.uuid4()
    if not sql.execute(
        _TAKE,
        physician.pk,
        sql.prepared(Assignment, "token", token),
        sql.prepared(Assignment, "lease_until", until),
        why,
        taken.pk,
        sql.prepared(Assignment, "lease_until", now),
    ):
        return None
    taken.physician, taken.token, taken.hold, taken.lease_until, taken.why = physician, token, Hold.HELD, until, why
    # What is open was given back, and its holder is no longer its holder: only a lapsed lease has a loser.
    loser = visibility.holder_on_record(taken) if found.lapsed else None
    if loser is None:
        record(taken.case, Event.Kind.CLAIMED, physician, role=taken.role)
    else:
        record(taken.case, Event.Kind.TAKEN_OVER, physician, role=taken.role, taken_from=loser)
    return taken


_FOUND = """SELECT {a}, {c}, {f}, c.spec FROM review_assignment a JOIN review_case c ON c.id = a.case_id
LEFT JOIN review_firstlook f ON f.assignment_id = a.id AND f.physician_id = %s WHERE a.id = """
# Asked again: nobody holds it, or the holder has let the lease run out before committing anything.
_TAKE = """UPDATE review_assignment SET physician_id = %s, token = %s, hold = 'held', lease_until = %s, why = %s
WHERE id = %s AND phase = 'commit' AND (hold = 'open' OR (hold = 'held' AND lease_until < %s))"""


def fresh(assignment: Assignment) -> bool:
    """Whether the lease was renewed just now, so that there is nothing to be gained by renewing it."""
    return assignment.lease_until is not None and assignment.lease_until > timezone.now() + lease() - JUST_NOW


def renew(assignment: Assignment) -> Assignment:
    """A lease as good as new for an assignment whose row is locked."""
    if not fresh(assignment):
        assignment.lease_until = timezone.now() + lease()
        sql.update(assignment, "lease_until")
    return assignment


def renew_unlocked(assignment: Assignment) -> None:
    """The same for one whose row may be another's by now. Raises LeaseLost where it is."""
    if fresh(assignment):
        return
    until = timezone.now() + lease()
    stored = sql.prepared(Assignment, "lease_until", until), sql.prepared(Assignment, "token", assignment.token)
    if not sql.execute(_RENEW, stored[0], assignment.pk, stored[1]):
        raise errors.LeaseLost
    assignment.lease_until = until


_RENEW = "UPDATE review_assignment SET lease_until = %s WHERE id = %s AND token = %s"


@transaction.atomic
def heartbeat(physician: User, assignment_id: int, token: uuid.UUID) -> Assignment:
    """Renew the lease. Raises LeaseLost when somebody else holds the assignment now."""
    return renew(fenced_assignment(physician, assignment_id, token))


def fenced_assignment(physician: User, assignment_id: int, token: uuid.UUID) -> Assignment:
    """The assignment, its row locked, if `token` still fences it; wants a transaction.

    Raises:
        NotYours, LeaseLost, AlreadySubmitted, CaseClosed.
    """
    require(physician, Can.REVIEW)
    for assignment, case in sql.instances(_FENCED + sql.locks("a"), (assignment_id,), a=Assignment, c=_CASE):
        assignment.case = case
        return fence(assignment, physician, token)
    raise errors.NotYours


_CASE = sql.Without(Case, "spec")
_FENCED = "SELECT {a}, {c} FROM review_assignment a JOIN review_case c ON c.id = a.case_id WHERE a.id = %s"


def fence(assignment: Assignment, physician: User, token: uuid.UUID) -> Assignment:
    """The same assignment, if `token` still fences it; for good only where its row is locked. Raises as
    `fenced_assignment` does."""
    if assignment.physician_id == physician.pk and assignment.token == token:
        # Who has answered no longer holds it, until the next phase gives it back under another token.
        if assignment.hold != Hold.HELD and _submitted(
            assignment, physician, phase=assignment.phase, retraction__isnull=True
        ):
            raise errors.AlreadySubmitted
        if State(assignment.case.state).final:
            raise errors.CaseClosed
        return assignment
    # Lost after a review was taken back: what is typed since is a draft.
    counted = {"retraction__isnull": True} if assignment.physician_id != physician.pk else {}
    if _submitted(
        assignment, physician, **counted
    ):  # every phase has its own token: this one is from a phase that is over
        raise errors.AlreadySubmitted
    if Draft.objects.filter(assignment=assignment, physician=physician).exists() or visibility.has_held(
        physician, assignment
    ):
        raise errors.LeaseLost
    raise errors.NotYours


def _submitted(assignment: Assignment, physician: User, **only: object) -> bool:
    return Review.objects.filter(assignment=assignment, physician=physician, **only).exists()


@recording_events()
def release(physician: User, assignment_id: int, token: uuid.UUID) -> None:
    """Give a case back uncommitted; the draft is kept for the person, who is offered other cases before this one.

    Raises:
        TooManyReleases: who gives back and takes the next can leaf through all that waits; only so many an hour.
        NotYours, LeaseLost, AlreadySubmitted, CaseClosed.
    """
    assignment = _uncommitted(physician, assignment_id, token)
    _check_releases(physician)
    _set_free(assignment)
    record(assignment.case, Event.Kind.RELEASED, physician, role=assignment.role)


@recording_events()
def decline(physician: User, assignment_id: int, token: uuid.UUID, reason: Declined.Reason, text: str = "") -> Declined:
    """Give a case back uncommitted, for good: it is never offered to this person again. Raises as `release` does."""
    assignment = _uncommitted(physician, assignment_id, token)
    _check_releases(physician)
    declined = Declined.objects.create(
        case=assignment.case, physician=physician, reason=reason, text=text, at=timezone.now()
    )
    if not assignment.case.is_copy:  # a copy of the person's own stays reserved: it is nobody else's
        assignment.reserved_for = None
    _set_free(assignment)
    record(assignment.case, Event.Kind.DECLINED, physician, role=assignment.role, because=reason, text=text)
    return declined


@recording_events()
def report_problem(physician: User, assignment_id: int, text: str) -> None:
    """Tell all admins that something is wrong with a case. It stays where it is; who holds it goes on or gives it back.

    Raises:
        NotYours: the physician does not hold this assignment, and did not answer in it.
    """
    require(physician, Can.REVIEW)
    assignment = queries.assignment_of(physician, assignment_id)
    now = timezone.now()
    record(assignment.case, Event.Kind.PROBLEM, physician, role=assignment.role, text=text)
    admins = User.objects.filter(role=UserRole.ADMIN, is_active=True)
    Notice.objects.bulk_create(
        Notice(user=admin, kind=Notice.Kind.PROBLEM, case=assignment.case, text=text, at=now) for admin in admins
    )


@recording_events()
def reassign(case_id: int, role: Role, *, to: User | None, actor: User) -> Assignment:
    """Take a role from its holder, and reserve it for `to`; without one, anybody may take it.

    Only before an answer was committed. Afterwards the role is its holder's: the machine replays what was said, and a
    confirmation or a second vote can only come from who gave the first. A case stuck there is for `set_back`.

    Raises:
        NotYours: the case has no such role open. Committed, CaseClosed.
        NotReserved: `to` may not work on it, and why.
    """
    require(actor, Can.OVERSEE)
    case = _open_case(case_id)
    assignment = Assignment.objects.select_for_update(of=("self",)).filter(case=case, role=role).first()
    if assignment is None:
        raise errors.NotYours
    if assignment.phase != Phase.COMMIT or assignment.hold not in (Hold.OPEN, Hold.HELD):
        raise errors.Committed
    if case.is_copy and to is None:
        to = assignment.reserved_for  # a copy of a person's own is nobody else's
    loser = assignment.physician_id
    assignment.reserved_for = to
    _set_free(assignment)
    if to is not None and to.pk != loser:
        _check_reserved(assignment, to)
    record(case, Event.Kind.REASSIGNED, actor, role=role, taken_from=loser, given_to=to.pk if to else None)
    return assignment


def _open_case(case_id: int) -> Case:
    """The case, its row locked. Raises NotYours, CaseClosed."""
    case = Case.objects.select_for_update(no_key=True, of=("self",)).filter(pk=case_id).first()
    if case is None:
        raise errors.NotYours
    if State(case.state).final:
        raise errors.CaseClosed
    return case


@recording_events()
def set_back(case_id: int, role: Role, *, actor: User, reason: str) -> Assignment:
    """Open a role anew whose holder has answered and does not confirm, or does not vote again; `reason` says why.

    The answer counts as taken back, and its author is out of the case for good, having seen what others said. Where two
    adjudicators differ, the other one's first vote stands: it was given blind. A second vote answered one that is gone, so
    it is taken back as well, and the other adjudicator is sealed again until the new one has voted.

    Raises:
        NotYours: the case has no such role. NotStuck: its holder is not the one who is waited for. CaseClosed.
    """
    require(actor, Can.OVERSEE)
    case = _open_case(case_id)
    rows = {
        row.role: row for row in Assignment.objects.select_for_update(of=("self",)).filter(case=case).order_by("pk")
    }
    assignment = rows.get(role)
    if assignment is None:
        raise errors.NotYours
    if assignment.phase == Phase.COMMIT or assignment.hold != Hold.HELD or assignment.physician is None:
        raise errors.NotStuck
    loser = assignment.physician
    for review in visibility.counted_reviews().filter(assignment=assignment):
        _take_back(review, actor)
    Declined.objects.get_or_create(
        case=case, physician=loser, defaults={"reason": Declined.Reason.OTHER, "text": reason, "at": timezone.now()}
    )
    assignment.phase, assignment.reserved_for = Phase.COMMIT, None
    assignment.save(update_fields=["phase"])
    _set_free(assignment)
    for other in rows.values():
        if other.phase == Phase.DISCUSS:
            for review in visibility.counted_reviews().filter(assignment=other, phase=Phase.DISCUSS):
                _take_back(review, actor)
            other.phase, other.hold, other.lease_until = Phase.COMMIT, Hold.WAITING, None
            other.new_token()
            other.save(update_fields=["phase", "hold", "lease_until", "token"])
    record(case, Event.Kind.REASSIGNED, actor, role=role, taken_from=loser.pk, given_to=None, reason=reason)
    return assignment


@recording_events()
def set_specialty(case_id: int, specialty: str, *, actor: User) -> Case:
    """Hand a case only to physicians of this specialty, and to those with none on record; empty: to any. What is in hand
    stays there. Raises NotYours, CaseClosed."""
    require(actor, Can.OVERSEE)
    case = _open_case(case_id)
    case.specialty = specialty.strip()
    case.save(update_fields=["specialty"])
    policy = case.frozen.policy
    for assignment in Assignment.objects.select_for_update(of=("self",)).filter(case=case).order_by("pk"):
        assignment.specialty = eligibility.asked_of(case, Role(assignment.role), policy)["specialty"]
        assignment.save(update_fields=["specialty"])
    record(case, Event.Kind.SPECIALTY, actor, text=case.specialty)
    return case


@recording_events()
def set_language(case_id: int, language: str, *, actor: User) -> Case:
    """Hand a case only to physicians who read this language (ISO 639-1), and to those with none on record; empty: to any,
    UNDETERMINED: to nobody yet. What is in hand stays there. Raises NotYours, CaseClosed."""
    require(actor, Can.OVERSEE)
    case = _open_case(case_id)
    case.language = language.strip().lower()
    case.save(update_fields=["language"])
    policy = case.frozen.policy
    for assignment in Assignment.objects.select_for_update(of=("self",)).filter(case=case).order_by("pk"):
        assignment.language = eligibility.asked_of(case, Role(assignment.role), policy)["language"]
        assignment.save(update_fields=["language"])
    record(case, Event.Kind.LANGUAGE, actor, text=case.language)
    return case


def _take_back(review: Review, actor: User) -> None:
    Retraction.objects.create(review=review, at=timezone.now())
    record(review.case, Event.Kind.RETRACTED, actor, role=review.role, phase=review.phase, review=review.pk)


def _check_reserved(assignment: Assignment, to: User) -> None:
    if not allowed(to, Can.REVIEW):
        raise errors.NotReserved(_("This account cannot review cases."))
    if assignment.case.is_copy:
        raise errors.NotReserved(_("This is another physician's training case."))
    problem = eligibility.ineligibility(to, assignment)
    if problem is not None:
        raise errors.NotReserved(str(problem))


def _check_releases(physician: User) -> None:
    if visibility.count_given_back(physician, visibility.HOUR) >= settings.MHB_RELEASES_PER_HOUR:
        raise errors.TooManyReleases


def _uncommitted(physician: User, assignment_id: int, token: uuid.UUID) -> Assignment:
    assignment = fenced_assignment(physician, assignment_id, token)
    if assignment.phase != Phase.COMMIT:
        raise errors.AlreadySubmitted
    return assignment


def _set_free(assignment: Assignment) -> None:
    """Nobody holds it any more; `reserved_for` is stored as it stands."""
    assignment.hold, assignment.physician, assignment.token, assignment.lease_until = Hold.OPEN, None, None, None
    assignment.why = ""
    assignment.save(update_fields=["hold", "physician", "token", "lease_until", "why", "reserved_for"])


def expire_leases() -> int:
    """Give back what was held and forgotten before anything was committed; returns how many. The sweeper's part."""
    forgotten = Assignment.objects.filter(hold=Hold.HELD, phase=Phase.COMMIT, lease_until__lt=timezone.now())
    count = 0
    for assignment in forgotten.select_related("case", "physician"):
        with recording_events():
            freed = forgotten.filter(pk=assignment.pk, token=assignment.token).update(
                hold=Hold.OPEN, physician=None, token=None, lease_until=None
            )
            if freed:
                record(assignment.case, Event.Kind.EXPIRED, assignment.physician, role=assignment.role)
                count += 1
    return count
