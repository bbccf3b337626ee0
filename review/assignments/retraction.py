"""Take reviews back: one's own, those of a careless physician, those that leave a case stuck."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import review_drafts
from review.audit.trail import record, record_submitted, recording_events, require_own_act
from review.cases.services import follow_reviews, lease, load_progress, lock_open_case
from review.models import Assignment, Case, Declined, Event, Retraction, Review, Rewording, User
from review.people import accounts
from review.rules import limits
from review.rules.permissions import Can, Operator, require
from review.rules.state_machine import ADJUDICATORS, Phase, Position, Role, State, position

Hold = Assignment.Hold


@recording_events()
def retract(physician: User, review_id: int, reason: str = "") -> Assignment:
    """Retract one of the physician's reviews, for a reason that the audit trail keeps.

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
        TooLong: the reason.
        TooManyOwnActs.
    """
    require(physician, Can.REVIEW)
    require_own_act(physician, Event.Kind.RETRACTED)
    if len(reason) > limits.REMARK:
        raise errors.TooLong
    # Lock the case before its assignments, as everywhere: see services._submit.
    case = Case.objects.select_for_update(no_key=True, of=("self",)).filter(reviews=review_id).first()
    review = visibility.reviews_by(physician).filter(pk=review_id).first()
    if case is None or review is None:
        raise errors.NotAssigned
    # A copy closes with this one answer and nobody builds on it, so it counts as still open.
    too_late = State(case.state).final and not case.is_copy
    # Under this policy the other adjudicator has read it, and may sign it.
    too_late = too_late or (case.frozen.policy.signed_wording and review.phase == Phase.DISCUSS)
    too_late = too_late or Rewording.objects.filter(review=review).exists()  # the primary has been asked
    if too_late or visibility.counted_reviews().filter(case=case).order_by("-id").first() != review:
        raise errors.NotUndoable
    own, now = _retract(case, [review], physician, reason.strip())
    if own.phase != review.phase:  # the author's own next phase is open: the other's answer was shown
        raise errors.NotUndoable
    own.hold, own.lease_until = Hold.HELD, timezone.now() + lease()
    own.new_token()
    own.save(update_fields=["hold", "lease_until", "token"])
    review_drafts.store(own, physician, Phase(review.phase), review.answers)
    _move_back(case, now, physician)
    return own


def _retract(case: Case, reviews: Sequence[Review], actor: User, reason: str = "") -> tuple[Assignment, Position]:
    """Retract the last reviews of a case, all of one assignment; close what they opened.

    Raises NotUndoable if anybody has held it.
    """
    retract_reviews(reviews, actor, reason)
    progress = load_progress(case)
    now = position(case.frozen.policy, visibility.opinions(case, progress.reviews))
    openings = {(opening.role, opening.phase) for opening in now.openings}
    committed = {review.assignment_id for review in progress.reviews}
    for assignment in progress.assignments.values():
        if assignment.pk == reviews[0].assignment_id:
            own = assignment
        elif (assignment.role, assignment.phase) not in openings and assignment.pk not in committed:
            _delete_unheld(assignment)
    return own, now


def _move_back(case: Case, now: Position, actor: User | Operator) -> None:
    if now.state != case.state:
        before, case.state, case.ground, case.closed_at = case.state, now.state, "", None
        case.save(update_fields=["state", "ground", "closed_at"])
        record(case, Event.Kind.MOVED, actor, before=before, after=now.state, ground="")


@dataclass(frozen=True, slots=True)
class SetAside:
    """What became of a physician's reviews.

    Attributes:
        cases: cases whose review was set aside (or restored), so that another physician does it.
        built_on: open cases that others have continued.
        closed: cases that have ended; `reopen` reopens those that nothing was built on.
    """

    cases: int
    built_on: int
    closed: int


SET_ASIDE = "set-aside"  # `because` of the events


def set_aside(person_id: int, *, actor: User, reason: str) -> SetAside:
    """Pause a physician and set the reviews of open cases aside: others do them again.

    They do not count. Each case is a transaction of its own. Drafts and cases in progress stay as
    they are. `restore` undoes it, but for the pause.
    """
    accounts.set_paused(person_id, True, actor=actor)
    reviews = visibility.counted_reviews().filter(physician=person_id, case__kind=Case.Kind.WORK)
    return _case_by_case(reviews, lambda case: _set_aside(case, person_id, actor, reason))


def _case_by_case(rows: QuerySet[Any], change: Callable[[int], bool]) -> SetAside:
    """Change the cases of these rows, each by itself. `change` returns whether it did."""
    done = built_on = closed = 0
    for case_id in rows.order_by("case").values_list("case", flat=True).distinct():
        try:
            done += change(case_id)
        except errors.CaseClosed:
            closed += 1
        except errors.NotUndoable:
            built_on += 1
    return SetAside(done, built_on, closed)


@recording_events()
def _set_aside(case_id: int, person_id: int, actor: User, reason: str) -> bool:
    case = lock_open_case(case_id)
    in_order = list(visibility.counted_reviews().filter(case=case).order_by("id"))
    own_reviews = [review for review in in_order if review.physician_id == person_id]
    if not own_reviews:
        return False  # undone by their author since the cases were listed
    is_built_on = in_order[len(in_order) - len(own_reviews) :] != own_reviews
    if is_built_on or Rewording.objects.filter(case=case).exists():
        raise errors.NotUndoable
    own, now = _retract(case, own_reviews, actor)
    for other in Assignment.objects.filter(case=case, phase=Phase.DISCUSS).exclude(pk=own.pk):
        _await_other_vote(other)
    _vacate(own, Hold.OPEN, actor, reason, [review.pk for review in own_reviews])
    _move_back(case, now, actor)
    return True


@recording_events()
def reopen(case_id: int, person_id: int, *, actor: User | Operator, reason: str) -> None:
    """Reopen an approved case: a physician's reviews, and those built on them, are done again.

    The other adjudicator's first vote was blind and stands. All others whose reviews are gone, or
    who held an adjudication and returned it, have read the case's reviews and can take no role in
    it again. The caller takes back what followed from the approval, in the same transaction.

    Raises NotUndoable: the case is not approved, the physician has no review in it that counts, or
    the primary was asked about a rewording.
    """
    require(actor, Can.OVERSEE)
    case = Case.objects.select_for_update(no_key=True, of=("self",)).get(pk=case_id)
    in_order = list(visibility.counted_reviews().filter(case=case).order_by("id"))
    own = [review for review in in_order if review.physician_id == person_id]
    is_approved = case.kind == Case.Kind.WORK and case.state == State.APPROVED
    if not is_approved or not own or Rewording.objects.filter(case=case).exists():
        raise errors.NotUndoable
    was_vote = own[0].role in ADJUDICATORS
    gone = []
    for review in in_order[in_order.index(own[0]) :]:
        is_first_vote = review.role in ADJUDICATORS and review.phase == Phase.COMMIT
        is_others_first_vote = was_vote and is_first_vote and review not in own
        if not is_others_first_vote:
            gone.append(review)
    retract_reviews(gone, actor)
    progress = load_progress(case)
    now = position(case.frozen.policy, visibility.opinions(case, progress.reviews))
    counted = {review.assignment_id for review in progress.reviews}
    affected = {review.assignment_id for review in gone}
    open_roles = {opening.role for opening in now.openings}
    for row in progress.assignments.values():
        if row.pk not in affected:
            continue
        if row.pk in counted:
            _await_other_vote(row)
            continue
        keys, hold = [], Hold.DONE
        if row.physician_id == person_id:
            keys = [review.pk for review in own]
        if row.role in open_roles:
            hold = Hold.OPEN
        _vacate(row, hold, actor, reason, keys)
    if not was_vote:
        adjudications = Event.objects.filter(case=case, kind__in=visibility.CLAIMS, data__role__in=ADJUDICATORS)
        for reader in set(adjudications.values_list("actor", flat=True)):
            _exclude(case, reader, reason)
    _move_back(case, now, actor)


@recording_events()
def reopen_role(case_id: int, role: Role, *, actor: User, reason: str) -> Assignment:
    """Reopen a role whose holder submitted a first answer but does not confirm it or vote again.

    The answer is retracted, and its author can take no role in the case again, because they have
    seen what others wrote. If two adjudicators differed, the other one's first vote stands, because
    it was given blind. The other's second vote, if any, replied to a vote that is now gone: it is
    retracted as well, and the other adjudicator waits until the new one has voted.

    Raises:
        NotAssigned: the case has no such role.
        NotStuck: the case does not wait for the holder of this role.
        CaseClosed.
    """
    require(actor, Can.OVERSEE)
    case = lock_open_case(case_id)
    rows = load_progress(case).assignments
    assignment = rows.get(role)
    if assignment is None:
        raise errors.NotAssigned
    if assignment.phase == Phase.COMMIT or assignment.hold != Hold.HELD:
        raise errors.NotStuck
    retract_reviews(visibility.counted_reviews().filter(assignment=assignment), actor)
    for other in rows.values():
        if other.phase == Phase.DISCUSS and other != assignment:
            retract_reviews(visibility.counted_reviews().filter(assignment=other, phase=Phase.DISCUSS), actor)
            _await_other_vote(other)
    _vacate(assignment, Hold.OPEN, actor, reason)
    return assignment


def _await_other_vote(adjudicator: Assignment) -> None:
    """Take an adjudicator back to their first vote, which stands: the other one's is gone."""
    adjudicator.phase, adjudicator.hold, adjudicator.lease_until = Phase.COMMIT, Hold.WAITING, None
    adjudicator.new_token()
    adjudicator.save(update_fields=["phase", "hold", "lease_until", "token"])


def retract_reviews(
    reviews: Iterable[Review], actor: User | Operator, reason: str = "", *, corrected: bool = False
) -> None:
    """Let reviews no longer count.

    corrected: their author replaces them in the same transaction.
    """
    facts: dict[str, Any] = {}
    if reason:
        facts["reason"] = reason
    if corrected:
        facts["corrected"] = True
    for review in reviews:
        Retraction.objects.create(review=review, at=timezone.now())
        record(
            review.case, Event.Kind.RETRACTED, actor, role=review.role, phase=review.phase, review=review.pk, **facts
        )


def _vacate(
    row: Assignment, hold: Assignment.Hold, actor: User | Operator, reason: str, reviews: Sequence[int] = ()
) -> None:
    """Take a role from its holder, who can take none in this case again.

    `reviews`: theirs, if they can be restored.
    """
    facts: dict[str, Any] = {}
    if reviews:
        facts = {"because": SET_ASIDE, "reviews": list(reviews)}
    record(
        row.case,
        Event.Kind.REASSIGNED,
        actor,
        role=row.role,
        taken_from=row.physician_id,
        given_to=None,
        reason=reason,
        **facts,
    )
    _exclude(row.case, row.physician_id, reason)
    row.phase, row.hold, row.physician, row.token, row.lease_until = Phase.COMMIT, hold, None, None, None
    row.reason, row.reserved_for = "", None
    row.save(update_fields=["phase", "hold", "physician", "token", "lease_until", "reason", "reserved_for"])


def _exclude(case: Case, person_id: int | None, reason: str) -> None:
    """Offer the case to a person never again."""
    Declined.objects.get_or_create(
        case=case,
        physician_id=person_id,
        defaults={"reason": Declined.Reason.OTHER, "text": reason, "at": timezone.now()},
    )


def is_set_aside(person_id: int) -> bool:
    """Whether any review of a physician was set aside."""
    return _set_aside_events(person_id).exists()


def _set_aside_events(person_id: int) -> QuerySet[Event]:
    facts = {"data__because": SET_ASIDE, "data__taken_from": person_id}
    return Event.objects.filter(kind=Event.Kind.REASSIGNED, **facts)


def restore(person_id: int, *, actor: User) -> SetAside:
    """Undo `set_aside` for the cases that nobody has taken since: the same reviews count again."""
    require(actor, Can.OVERSEE)
    return _case_by_case(_set_aside_events(person_id), lambda case: _restore(case, person_id, actor))


@recording_events()
def _restore(case_id: int, person_id: int, actor: User) -> bool:
    case = lock_open_case(case_id)
    # Roles of others may have been freed since: only what happened to reviews set aside tells.
    events = Event.objects.filter(case=case, kind=Event.Kind.REASSIGNED, data__because=SET_ASIDE)
    last = events.order_by("-id").first()
    if last is None or last.data["taken_from"] != person_id:
        return False  # restored already, or somebody else's were set aside since
    own = Assignment.objects.select_for_update(of=("self",)).get(case=case, role=last.data["role"])
    if own.reserved_for_id is not None:
        return False  # given to somebody else since
    progress = load_progress(case)
    if own.hold != Hold.OPEN or own.phase != Phase.COMMIT or any(r.role == own.role for r in progress.reviews):
        raise errors.NotUndoable
    Declined.objects.filter(case=case, physician=person_id, text=last.data["reason"]).delete()
    own.physician_id, own.hold, own.lease_until = person_id, Hold.HELD, timezone.now()
    own.new_token()
    own.save(update_fields=["physician", "hold", "lease_until", "token"])
    record(case, Event.Kind.REASSIGNED, actor, role=own.role, taken_from=None, given_to=person_id, because=SET_ASIDE)
    for review in Review.objects.filter(pk__in=last.data["reviews"]).order_by("id"):
        progress = load_progress(case)
        # Reviews are never changed: the same one is written again, as the next attempt.
        review.pk, review.attempt = None, progress.attempts[review.role, review.phase] + 1
        review._state.adding = True
        review.save()
        record_submitted(review)
        progress.reviews.append(review)
        follow_reviews(case, actor=actor, progress=progress)
    return True


def _delete_unheld(assignment: Assignment) -> None:
    """Delete an assignment that a review opened. Raises NotUndoable if anybody has ever held it."""
    worked_on = assignment.drafts.exists() or assignment.first_looks.exists() or assignment.intervals.exists()
    held = assignment.reserved_for_id or visibility.claims_of(assignment).exists()
    if assignment.hold != Hold.OPEN or worked_on or held:
        raise errors.NotUndoable
    assignment.delete()
