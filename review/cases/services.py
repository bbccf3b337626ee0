"""Open cases, keep them in step with their reviews, and change them on behalf of admins.

Wherever the state of a case changes, its row is locked first.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from review import errors
from review.access import visibility
from review.audit.trail import record, recording_events
from review.common import notifications
from review.discussion import remarks
from review.forms import queries as forms_queries
from review.models import Assignment, Case, Event, Occasion, Review, Rewording, User
from review.rules import limits
from review.rules.case_spec import CaseSpec, spec_to_json
from review.rules.permissions import Can, Operator, require
from review.rules.state_machine import ADJUDICATORS, Phase, Role, State, position
from review.rules.text import one_line

Hold = Assignment.Hold
STAGE_RANK = {State.ADJUDICATION: 0, State.SECONDARY: 1, State.PRIMARY: 2}


def lease() -> timedelta:
    """How long an assignment stays reserved without a heartbeat."""
    return timedelta(minutes=settings.MHB_REVIEW_LEASE_MINUTES)


def open_case(spec: CaseSpec, *, actor: User | None = None, kind: Case.Kind = Case.Kind.WORK) -> Case:
    """`open_cases` for one."""
    [case] = open_cases([spec], actor=actor, kind=kind)
    return case


@recording_events()
def open_cases(specs: Sequence[CaseSpec], *, actor: User | None = None, kind: Case.Kind = Case.Kind.WORK) -> list[Case]:
    """Open a case for each sample version. Raises IntegrityError if one was opened before.

    Cases of kind WORK take the review form that admins have published for their benchmark, if any,
    and keep it. If the policy requires no review, a case is approved and closed at once, and no
    physician is ever offered it.

    Args:
        kind: WORK or VALIDATION.
    """
    now = timezone.now()
    if kind == Case.Kind.WORK:
        specs = forms_queries.with_forms_in_force(specs)
    cases, positions = [], [position(spec.policy, []) for spec in specs]
    for spec, at in zip(specs, positions, strict=True):
        stored = spec_to_json(spec)
        case = Case(
            kind=kind,
            benchmark=spec.benchmark,
            lineage=spec.lineage,
            version=spec.version,
            title=one_line(stored["title"], limits.TITLE),
            language=spec.language,
            specialty=spec.specialty,
            spec=stored,
            fresh_eyes_required=spec.policy.fresh_eyes_required,
            simulated=spec.simulated,
            state=at.state,
            ground=at.ground or "",
            opened_at=now,
            closed_at=now if at.state.final else None,
        )
        case.frozen = spec
        cases.append(case)
    Case.objects.bulk_create(cases)
    assignments = []
    for case, at in zip(cases, positions, strict=True):
        record(case, Event.Kind.OPENED, actor)
        if at.state.final:
            record(case, Event.Kind.CLOSED, actor, before=State.PRIMARY, after=case.state, ground=case.ground)
        assignments += [_new_assignment(case, turn.role, turn.phase) for turn in at.openings]
    Assignment.objects.bulk_create(assignments)
    return cases


def _new_assignment(case: Case, role: Role, phase: Phase) -> Assignment:
    requirements = reviewer_requirements(case, role)
    return Assignment(case=case, role=role, phase=phase, opened_at=timezone.now(), **requirements)


def reviewer_requirements(case: Case, role: Role) -> dict[str, Any]:
    """The fields of an assignment with its queue position and the requirements for its reviewer."""
    policy = case.frozen.policy
    return {
        "priority": case.priority,
        "turn": STAGE_RANK[role.stage],
        "language": case.language.partition("-")[0].lower(),
        "specialty": case.specialty.strip().casefold(),
        "calibration": case.benchmark if policy.calibrated_only else "",
        "other_hospital": policy.other_hospital,
        "senior": policy.senior_decides and role in ADJUDICATORS,
    }


def lock_open_case(case_id: int) -> Case:
    """Lock and return an open case. Raises NotAssigned, CaseClosed."""
    case = Case.objects.select_for_update(no_key=True, of=("self",)).filter(pk=case_id).first()
    if case is None:
        raise errors.NotAssigned
    if State(case.state).final:
        raise errors.CaseClosed
    return case


@dataclass(frozen=True, slots=True)
class CaseProgress:
    """The assignments of a case by role, and its reviews that count, in order.

    Attributes:
        attempts: number of reviews by role and phase, retracted ones included.
    """

    assignments: dict[str, Assignment]
    reviews: list[Review]
    attempts: Counter[tuple[str, str]]


def load_progress(case: Case, *, locked: bool = True) -> CaseProgress:
    """The progress of a case, whose row must be locked; locks its assignments.

    `locked`: False to read only, without any lock.
    """
    assignments = Assignment.objects.filter(case=case).order_by("pk")
    if locked:
        assignments = assignments.select_for_update(of=("self",))
    reviews = list(Review.objects.filter(case=case).select_related("retraction").order_by("pk"))
    return CaseProgress(
        {assignment.role: assignment for assignment in assignments},
        [review for review in reviews if not hasattr(review, "retraction")],
        Counter((review.role, review.phase) for review in reviews),
    )


def follow_reviews(
    case: Case, *, actor: User | None, progress: CaseProgress | None = None, withdrawn: bool = False
) -> None:
    """Update a case to what its reviews say: its state, an event, and one assignment per open turn.

    Pass `progress` if the result of `load_progress` is at hand, with the reviews that count now.
    """
    at = timezone.now()
    progress = progress or load_progress(case)
    now = position(case.frozen.policy, visibility.opinions(case, progress.reviews), withdrawn=withdrawn)
    if now.state != case.state or now.state.final:
        before, case.state, case.ground = case.state, now.state, now.ground or ""
        if now.state.final:
            case.closed_at = at
        else:
            case.closed_at = None
        case.save(update_fields=["state", "ground", "closed_at"])
        if now.state.final:
            kind = Event.Kind.CLOSED
        else:
            kind = Event.Kind.MOVED
        record(case, kind, actor, before=before, after=now.state, ground=case.ground)
        if now.state == State.ADJUDICATION and not case.is_copy:
            path = reverse("review:history", args=[case.pk])
            notifications.tell(Occasion.DISSENT, notifications.overseers(), case=case.pk, path=path)
    if now.awaits_consent:
        _ask_primary(case, progress, actor)
    open_turns = {turn.role: turn.phase for turn in now.openings}
    committed = {review.assignment_id for review in progress.reviews}
    for role, assignment in progress.assignments.items():
        phase = open_turns.get(Role(role))
        if phase is None:
            if assignment.hold != Hold.DONE and (now.state.final or assignment.pk in committed):
                waits = bool(now.openings) and assignment.role.startswith("adjudicator")
                if waits:
                    assignment.hold = Hold.WAITING
                else:
                    assignment.hold = Hold.DONE
                assignment.lease_until = None
                assignment.save(update_fields=["hold", "lease_until"])
        elif phase != assignment.phase:
            # The next phase belongs to the physician who committed the first, even after the lease.
            # It gets a new token, so that a double click on submit cannot answer the second phase.
            assignment.phase, assignment.hold, assignment.lease_until = phase, Hold.HELD, at + lease()
            assignment.new_token()
            assignment.save(update_fields=["phase", "hold", "lease_until", "token"])
            if phase is Phase.DISCUSS:
                remarks.notify_of_discussion(assignment)
        elif assignment.hold == Hold.DONE:  # vacated when the case was reopened
            assignment.hold, assignment.opened_at = Hold.OPEN, at
            assignment.save(update_fields=["hold", "opened_at"])
    for role in Role:  # in this order, so that the first adjudicator's row is offered first
        if role in open_turns and role not in progress.assignments:
            _new_assignment(case, role, open_turns[role]).save()


def _ask_primary(case: Case, progress: CaseProgress, actor: User | None) -> None:
    """Ask the primary to accept the secondary's wording. Raises IntegrityError if asked before."""
    at, hours = timezone.now(), case.frozen.policy.objection_hours
    last = {review.role: review for review in progress.reviews}
    Rewording.objects.create(
        case=case,
        review=last[Role.SECONDARY],
        physician_id=last[Role.PRIMARY].physician_id,
        asked_at=at,
        due_at=at + timedelta(hours=hours),
    )
    record(case, Event.Kind.REWORDED, actor, hours=hours)


@recording_events()
def withdraw(case_id: int, *, actor: User | None, reason: str) -> Case:
    """Withdraw a case from review for good. Raises CaseClosed if it has ended already.

    `actor` is None for the operator of the machine.
    """
    if actor is not None:
        require(actor, Can.OVERSEE)
    case = lock_open_case(case_id)
    record(case, Event.Kind.WITHDRAWN, actor, reason=reason)
    follow_reviews(case, actor=actor, withdrawn=True)
    return case


@recording_events()
def prioritise(case_id: int, *, actor: User, priority: int) -> Case:
    """Set a case's priority; cases with a higher one are assigned first.

    Raises CaseClosed if the case has ended.
    """
    require(actor, Can.OVERSEE)
    case = lock_open_case(case_id)
    record(case, Event.Kind.PRIORITISED, actor, before=case.priority, after=priority)
    case.priority = priority
    case.save(update_fields=["priority"])
    Assignment.objects.filter(case=case).update(priority=priority)
    return case


def set_specialty(case_id: int, specialty: str, *, actor: User | Operator) -> Case:
    """Limit a case to physicians of this specialty and to those with none on record.

    Empty lifts the limit. Assignments that are held stay with their holders. Raises NotAssigned,
    CaseClosed.
    """
    return _limit_reviewers(case_id, "specialty", specialty.strip(), actor)


def set_language(case_id: int, language: str, *, actor: User | Operator) -> Case:
    """Limit a case to physicians who read this language (ISO 639-1) or have none on record.

    Empty lifts the limit; UNDETERMINED offers the case to nobody. Assignments that are held stay
    with their holders. Raises NotAssigned, CaseClosed.
    """
    return _limit_reviewers(case_id, "language", language.strip().lower(), actor)


@recording_events()
def _limit_reviewers(case_id: int, field: str, value: str, actor: User | Operator) -> Case:
    require(actor, Can.OVERSEE)
    case = lock_open_case(case_id)
    setattr(case, field, value)
    case.save(update_fields=[field])
    Assignment.objects.filter(case=case).update(**{field: reviewer_requirements(case, Role.PRIMARY)[field]})
    record(case, Event.Kind(field), actor, text=value)
    return case
