"""Open cases, store drafts and submit reviews.

Each public function is one transaction. Wherever the state of a case changes, its row is locked
first.
"""

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from review import errors
from review.access import visibility
from review.answers import signatures
from review.assignments import eligibility, queries, review_drafts
from review.assignments.claims import fence, lease, renew_unlocked
from review.assignments.first_look import (
    check_limits,
    highlight_problems,
    located_citations,
    with_allowed_highlights,
    with_committed_first_look,
)
from review.audit.trail import record, record_submitted, recording_events
from review.discussion import guidelines, remarks
from review.forms import queries as forms_queries
from review.models import Assignment, Case, Draft, Event, Review, Rewording, User
from review.rules.case_spec import CaseSpec, answers_from_json, answers_to_json, spec_to_json, specs_to_json
from review.rules.consolidation import changes_rubrics, declaration_problems, may_declare, with_verdict
from review.rules.permissions import Can, require
from review.rules.questions import Answers, opinion, problems, without_unasked
from review.rules.state_machine import Phase, Position, Role, State, Verdict, position

Hold = Assignment.Hold


@recording_events()
def open_case(spec: CaseSpec, *, actor: User | None = None, kind: Case.Kind = Case.Kind.WORK) -> Case:
    """Open a case on one sample version for review. Raises IntegrityError if it was opened before.

    A case of kind WORK takes the review form that admins have published for its benchmark, if any,
    and keeps it. If the policy requires no review, the case is approved and closed at once, and no
    physician is ever offered it.

    Args:
        kind: WORK or VALIDATION.
    """
    now = timezone.now()
    if kind == Case.Kind.WORK:
        spec = forms_queries.with_form_in_force(spec)
    stored = spec_to_json(spec)
    case = Case(
        kind=kind,
        benchmark=spec.benchmark,
        lineage=spec.lineage,
        version=spec.version,
        title=stored["title"][:300],
        language=spec.language,
        specialty=spec.specialty,
        spec=stored,
        fresh_eyes_required=spec.policy.fresh_eyes_required,
        simulated=spec.simulated,
        opened_at=now,
    )
    case.save()
    record(case, Event.Kind.OPENED, actor)
    follow_reviews(case, position(spec.policy, []), progress=CaseProgress({}, [], Counter()))
    return case


@recording_events()
def open_unreviewed(specs: Sequence[CaseSpec]) -> list[Case]:
    """Like `open_case`, for many cases that need no review: each is approved and closed at once.

    Raises ValueError if a policy requires a review.
    """
    now = timezone.now()
    cases = []
    opened = list(forms_queries.all_with_form_in_force(specs))
    for spec, stored in zip(opened, specs_to_json(opened), strict=True):
        final_position = position(spec.policy, [])
        if not final_position.state.final:
            raise ValueError(f"{spec.lineage}: its policy requires a review")
        cases.append(
            Case(
                benchmark=spec.benchmark,
                lineage=spec.lineage,
                version=spec.version,
                title=stored["title"][:300],
                language=spec.language,
                specialty=spec.specialty,
                spec=stored,
                fresh_eyes_required=spec.policy.fresh_eyes_required,
                simulated=spec.simulated,
                state=final_position.state,
                ground=final_position.ground or "",
                opened_at=now,
                closed_at=now,
            )
        )
    Case.objects.bulk_create(cases)
    for case in cases:
        record(case, Event.Kind.OPENED, None)
        record(case, Event.Kind.CLOSED, None, before=State.PRIMARY, after=case.state, ground=case.ground)
    return cases


def save_draft(
    physician: User,
    assignment_id: int,
    token: uuid.UUID,
    answers: Answers,
    *,
    revision: int,
    loaded: Assignment | None = None,
) -> Draft:
    """Store a draft and renew the lease.

    Nothing is locked: the draft belongs to its author, no matter who holds the case.

    Args:
        revision: the revision of the draft that the writer has seen (0: none).
        loaded: the result of `queries.assignment_for_post`, if it was already called.

    Raises:
        LeaseLost, CaseClosed: too late to review. The draft was stored, unless another window has
            saved one since `revision`; the error's `detail` then says so.
        StaleDraft: another window has saved a draft since `revision`; nothing was stored.
        Incomplete: the words of a highlight are not at its position; nothing was stored.
        OverLimits: more than `review.rules.limits` allows; nothing was stored.
        AlreadySubmitted, NotYours: nothing was stored.
    """
    assignment = loaded or queries.assignment_for_post(assignment_id)
    require(physician, Can.REVIEW)
    check_limits(assignment.case.frozen, answers)
    late = _lateness(assignment, physician, token)
    phase = _draft_phase(assignment, physician)
    if answers.highlights:
        answers = with_allowed_highlights(answers, revealed=visibility.is_revealed(physician, assignment))
        if faults := highlight_problems(assignment.case.frozen, answers, draft=True):
            raise errors.Incomplete(faults)
    draft = review_drafts.store(assignment, physician, phase, answers_to_json(answers), revision=revision)
    if draft is None:
        # The other window may have saved it after the assignment was lost, which is then the news.
        late = late or _lateness(queries.assignment_for_post(assignment_id), physician, token)
        raise _with_stale_note(late) if late is not None else errors.StaleDraft
    if late is not None:
        raise late
    renew_unlocked(assignment)
    return draft


def _lateness(assignment: Assignment, physician: User, token: uuid.UUID) -> errors.LeaseLost | errors.CaseClosed | None:
    """The error if `token` no longer fences the assignment."""
    try:
        fence(assignment, physician, token)
    except (errors.LeaseLost, errors.CaseClosed) as late:
        return late
    return None


def _draft_phase(assignment: Assignment, physician: User) -> Phase:
    # An assignment can only be lost in the first phase.
    return Phase(assignment.phase) if assignment.physician_id == physician.pk else Phase.COMMIT


def submit(
    physician: User,
    assignment_id: int,
    token: uuid.UUID,
    answers: Answers,
    *,
    password: str = "",
    code: str = "",
    revision: int | None = None,
    loaded: Assignment | None = None,
) -> Review:
    """Submit the review that is due and update the case.

    Answers committed at the first look stand, whatever `answers` says.

    Args:
        revision: the revision of the draft that the writer has seen; None: do not check for a
            draft from another window.
        loaded: the result of `queries.assignment_for_post`, if it was already called.

    Raises:
        Incomplete: holds every problem by field. Nothing was written.
        OverLimits: more than `review.rules.limits` allows. Nothing was written.
        AlreadySubmitted: nothing was written.
        NotRevealed: the first look is due. Nothing was written.
        SignatureRefused: the policy requires the password, and `password` is wrong. Nothing was
            written.
        CodeRefused, NoSecondFactor: the policy requires a code of the second factor, and `code` is
            wrong or there is no second factor. Nothing was written.
        LeaseLost, CaseClosed: too late. The answers were stored as the physician's draft, unless
            another window has saved one since `revision`; nothing else was written.
    """
    loaded = loaded or queries.assignment_for_post(assignment_id)
    check_limits(loaded.case.frozen, answers)
    signatures.check_password(physician, loaded, token, password)
    try:
        return _submit(physician, loaded, token, answers, code)
    except (errors.LeaseLost, errors.CaseClosed) as late:
        if not _store_late_answers(physician, assignment_id, answers, revision):
            _with_stale_note(late)
        raise


@transaction.atomic
def _store_late_answers(physician: User, assignment_id: int, answers: Answers, revision: int | None) -> bool:
    """Store the answers as the draft, unless another window has saved one since `revision`.

    Returns: whether they were stored.
    """
    assignment = Assignment.objects.select_for_update().get(pk=assignment_id)
    phase = _draft_phase(assignment, physician)
    return review_drafts.store(assignment, physician, phase, answers_to_json(answers), revision=revision) is not None


def _with_stale_note(late: errors.ReviewError) -> errors.ReviewError:
    late.detail = _("Another window saved a later version, and that version is kept. Copy what you typed here.")
    return late


@recording_events()
def _submit(physician: User, loaded: Assignment, token: uuid.UUID, answers: Answers, code: str) -> Review:
    role, spec = Role(loaded.role), loaded.case.frozen  # neither ever changes
    # Lock the case before the assignment, as everywhere. FOR NO KEY UPDATE, because a concurrent
    # claim of another assignment of this case holds that row and inserts an event that references
    # the case: with FOR UPDATE the two would deadlock.
    case = Case.objects.select_for_update(no_key=True).defer("spec").get(pk=loaded.case_id)
    case.frozen = spec
    assignment = Assignment.objects.select_for_update().filter(pk=loaded.pk).first()
    if assignment is None:  # a retraction has deleted it
        raise errors.NotYours
    assignment.case = case
    require(physician, Can.REVIEW)
    fence(assignment, physician, token)
    phase = Phase(assignment.phase)
    progress = load_progress(case, assignment)
    spec = visibility.spec_for_stage(assignment, case)
    answers = with_allowed_highlights(answers, revealed=True)
    answers = with_committed_first_look(spec, visibility.first_look_of(assignment, physician), answers)
    committed, primary, rejected_before = None, None, False
    if phase is Phase.CONFIRM:
        blind = {review.role: review for review in progress.reviews if review.phase == Phase.COMMIT}
        committed = answers_from_json(blind[role].answers)
        primary = answers_from_json(blind[Role.PRIMARY].answers)
        rejected_before = primary.verdict == Verdict.REJECT
    answers, citation_problems = located_citations(spec, answers)
    answers = with_verdict(spec.form, answers)
    faults = problems(spec.form, answers, committed=committed, rejected_before=rejected_before)
    declares = may_declare(spec.policy, role, phase)
    if declares:
        faults += declaration_problems(spec.form, answers, primary)
    if faults := faults + citation_problems + highlight_problems(spec, answers):
        raise errors.Incomplete(faults)
    answers = without_unasked(spec.form, answers)
    if not (declares and changes_rubrics(spec.form, answers, primary)):
        answers = replace(answers, declaration="")
    signatures.check_code(physician, spec.policy, code)
    own_opinion = opinion(spec.form, answers, role, phase)
    # Guidelines are about reviewing samples, not about judging answers of models.
    guided = case.kind != Case.Kind.VALIDATION
    review = Review.objects.create(
        case=case,
        assignment=assignment,
        physician=physician,
        role=role,
        phase=phase,
        answers=answers_to_json(answers),
        verdict=own_opinion.verdict,
        inadequate=own_opinion.inadequate,
        submitted_at=timezone.now(),
        signed_as=signatures.signing_name(physician),
        meaning=signatures.signature_meaning(role),
        guideline=guidelines.guideline(case.benchmark, role.stage) if guided else None,
        attempt=progress.attempts[role, phase] + 1,
    )
    record_submitted(review)
    progress.reviews.append(review)
    # This may move the assignment to its next phase, with a new token.
    now = position(spec.policy, visibility.opinions(case, progress.reviews))
    follow_reviews(case, now, actor=physician, progress=progress)
    return review


@dataclass(frozen=True, slots=True)
class CaseProgress:
    """The assignments of a case by role, and its reviews that count, in order.

    Attributes:
        attempts: number of reviews by role and phase, retracted ones included.
    """

    assignments: dict[str, Assignment]
    reviews: list[Review]
    attempts: Counter[tuple[str, str]]


def load_progress(case: Case, own: Assignment | None = None) -> CaseProgress:
    """The progress of a case, whose row must be locked. `own`: an assignment that is loaded."""
    assignments = {row.role: row for row in Assignment.objects.filter(case=case).order_by("pk")}
    reviews = list(Review.objects.filter(case=case).select_related("retraction").order_by("pk"))
    return CaseProgress(
        assignments | ({own.role: own} if own else {}),
        [review for review in reviews if not hasattr(review, "retraction")],
        Counter((review.role, review.phase) for review in reviews),
    )


def follow_reviews(
    case: Case, now: Position, *, actor: User | None = None, progress: CaseProgress | None = None
) -> None:
    """Update a case to the position `now`: its state, an event, and one assignment per open turn.

    Pass `progress` if the result of `load_progress` is at hand.
    """
    at = timezone.now()
    progress = progress or load_progress(case)
    if now.state != case.state or now.state.final:
        before, case.state, case.ground = case.state, now.state, now.ground or ""
        case.closed_at = at if now.state.final else None
        case.save(update_fields=["state", "ground", "closed_at"])
        kind = Event.Kind.CLOSED if now.state.final else Event.Kind.MOVED
        record(case, kind, actor, before=before, after=now.state, ground=case.ground)
    if now.awaits_consent:
        _ask_primary(case, progress, actor)
    open_turns = {turn.role: turn.phase for turn in now.openings}
    committed = {review.assignment_id for review in progress.reviews}
    for role, assignment in progress.assignments.items():
        phase = open_turns.get(Role(role))
        if phase is None:
            if assignment.hold != Hold.DONE and (now.state.final or assignment.pk in committed):
                waits = bool(now.openings) and assignment.role.startswith("adjudicator")
                assignment.hold = Hold.WAITING if waits else Hold.DONE
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
    for role in Role:  # in this order, so that the first adjudicator's row is offered first
        if role in open_turns and role not in progress.assignments:
            requirements = eligibility.reviewer_requirements(case, role, case.frozen.policy)
            Assignment.objects.create(case=case, role=role, phase=open_turns[role], opened_at=at, **requirements)


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
