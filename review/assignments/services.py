"""Opens cases and takes reviews in. Each function is one transaction; the case row is locked first wherever its
state moves.
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
    highlight_problems,
    located_citations,
    own_highlights,
    with_committed_first_look,
)
from review.audit.trail import record, record_submitted, recording_events
from review.common import bulk_rows, sql
from review.discussion import remarks
from review.forms import queries as forms_queries
from review.models import Assignment, Case, Draft, Event, FirstLook, Guideline, Review, Rewording, User
from review.rules.case_spec import CaseSpec, answers_from_json, answers_to_json, spec_to_json, specs_to_json
from review.rules.consolidation import may_declare, rewords, undeclared, with_verdict
from review.rules.permissions import Can, require
from review.rules.questions import Answers, opinion, problems, without_unasked
from review.rules.state_machine import Phase, Position, Role, State, Verdict, position

Hold = Assignment.Hold


@recording_events()
def open_case(spec: CaseSpec, *, actor: User | None = None, kind: Case.Kind = Case.Kind.WORK) -> Case:
    """Put one sample version before physicians. Opening the same version of a lineage twice is an IntegrityError.

    `kind`: WORK, or VALIDATION. Work takes the review form that admins have published for its benchmark, if any, and keeps
    it from then on.
    Where the policy asks nobody, the case is approved and closed as it opens, and no physician is ever offered it.
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
    sql.insert(case)
    record(case, Event.Kind.OPENED, actor)
    follow_reviews(case, position(spec.policy, []), turns=Turns({}, [], Counter()))
    return case


@recording_events()
def open_unreviewed(specs: Sequence[CaseSpec]) -> list[Case]:
    """`open_case` for many cases that their policy puts before nobody: each is approved and closed as it opens.

    Raises ValueError where a policy asks somebody.
    """
    now = timezone.now()
    cases = []
    opened = list(forms_queries.all_with_form_in_force(specs))
    for spec, stored in zip(opened, specs_to_json(opened), strict=True):
        ends = position(spec.policy, [])
        if not ends.state.final:
            raise ValueError(f"{spec.lineage}: its policy asks somebody")
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
                state=ends.state,
                ground=ends.ground or "",
                opened_at=now,
                closed_at=now,
            )
        )
    bulk_rows.store(cases)
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
    posted: Assignment | None = None,
) -> Draft:
    """Keep what was typed and renew the lease. Nothing is locked: the draft is its author's, no matter who holds the case.

    `revision` is the draft's revision the writer has seen (0: none). The draft is kept even when the lease is lost or the
    case was closed meanwhile; then LeaseLost or CaseClosed is raised after it was stored. A draft saved from another window
    meanwhile is not overwritten: StaleDraft. A highlight whose words are not where it says: Incomplete, and nothing is kept.
    `posted`: what `queries.posted_to` says, where it was asked already.
    """
    late: errors.LeaseLost | errors.CaseClosed | None = None
    assignment = posted or queries.posted_to(physician, assignment_id)
    require(physician, Can.REVIEW)
    try:
        fence(assignment, physician, token)
    except (errors.LeaseLost, errors.CaseClosed) as error:
        late = error
    phase = _due(assignment, physician)
    if answers.highlights:
        answers = own_highlights(answers, revealed=visibility.is_revealed(physician, assignment))
        if wrong := highlight_problems(assignment.case.frozen, answers, draft=True):
            raise errors.Incomplete(wrong)
    draft = review_drafts.keep(assignment, physician, phase, answers_to_json(answers), revision=revision)
    if draft is None:
        raise _outdated(late) if late is not None else errors.StaleDraft
    if late is not None:
        raise late
    renew_unlocked(assignment)
    return draft


def _due(assignment: Assignment, physician: User) -> Phase:
    """The phase a physician writes for; who has lost the assignment can only have lost the first one."""
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
    posted: Assignment | None = None,
) -> Review:
    """Submit the review that is due and move the case on. What was said at the first look stands, whatever `answers` say.

    `revision` is the draft's revision the writer has seen; None: the writer knows of no other window. `posted`: what
    `queries.posted_to` says, where it was asked already.

    Raises:
        Incomplete: with every problem by field; AlreadySubmitted; NotRevealed: the first look is due. Nothing was written.
        SignatureRefused: the policy asks for the password, and `password` is not it; CodeRefused, NoSecondFactor: the same of
            a second factor's `code`. Nothing was written.
        LeaseLost, CaseClosed: too late; the answers were kept as the physician's draft, unless another window has saved one
            since `revision`, and nothing else was written.
    """
    posted = posted or queries.posted_to(physician, assignment_id)
    signatures.check(physician, posted, token, password)
    try:
        return _submit(physician, posted, token, answers, code)
    except (errors.LeaseLost, errors.CaseClosed) as late:
        if not _keep_late(physician, assignment_id, answers, revision):
            _outdated(late)
        raise


@transaction.atomic
def _keep_late(physician: User, assignment_id: int, answers: Answers, revision: int | None) -> bool:
    """Whether the answers are the draft now; not if another window has saved one since `revision`."""
    assignment = Assignment.objects.select_for_update().get(pk=assignment_id)
    phase = _due(assignment, physician)
    return review_drafts.keep(assignment, physician, phase, answers_to_json(answers), revision=revision) is not None


def _outdated(late: errors.ReviewError) -> errors.ReviewError:
    late.detail = _("Another window saved a later version, and that version is kept. Copy what you typed here.")
    return late


# Always the case before the assignment. FOR NO KEY UPDATE, because a claim of another assignment of this case
# meanwhile holds that row and refers to the case from an event: against FOR UPDATE that would be a deadlock.
_SUBMITTED = """SELECT {c}, {a}, {f}, {g}, h.key FROM review_assignment a JOIN review_case c ON c.id = a.case_id
LEFT JOIN review_chainhead h ON h.name = 'event'
LEFT JOIN review_firstlook f ON f.assignment_id = a.id AND f.physician_id = %s
LEFT JOIN review_guideline g ON g.id = (
    SELECT v.id FROM review_guideline v WHERE v.benchmark = c.benchmark AND v.stage = %s ORDER BY v.version DESC LIMIT 1
)
WHERE a.id = %s"""
_LOCKS = "no key c", "a"


@recording_events()
def _submit(physician: User, posted: Assignment, token: uuid.UUID, answers: Answers, code: str) -> Review:
    role, spec = Role(posted.role), posted.case.frozen  # neither ever changes
    found = sql.instances(
        _SUBMITTED + sql.locks(*_LOCKS),
        (physician.pk, role.stage, posted.pk),
        c=sql.Without(Case, "spec"),
        a=Assignment,
        f=FirstLook,
        g=sql.Without(Guideline, "text"),
    )
    if not found:
        raise errors.NotYours
    case, assignment, looked, guideline, key = found[0]
    case.frozen = spec
    assignment.case = case
    require(physician, Can.REVIEW)
    fence(assignment, physician, token)
    phase = Phase(assignment.phase)
    turns = turns_of(case, assignment)
    spec = visibility.asked_of(assignment, case)
    answers = own_highlights(answers, revealed=True)
    answers = with_committed_first_look(spec, looked, answers)
    committed, primary, rejected_before = None, None, False
    if phase is Phase.CONFIRM:
        blind = {review.role: review for review in turns.reviews if review.phase == Phase.COMMIT}
        committed = answers_from_json(blind[role].answers)
        primary = answers_from_json(blind[Role.PRIMARY].answers)
        rejected_before = primary.verdict == Verdict.REJECT
    answers, nowhere = located_citations(spec, answers)
    answers = with_verdict(spec.form, answers)
    missing = problems(spec.form, answers, committed=committed, rejected_before=rejected_before)
    declares = may_declare(spec.policy, role, phase)
    if declares:
        missing += undeclared(spec.form, answers, primary)
    if missing := missing + nowhere + highlight_problems(spec, answers):
        raise errors.Incomplete(missing)
    answers = without_unasked(spec.form, answers)
    if not (declares and rewords(spec.form, answers, primary)):
        answers = replace(answers, declaration="")
    signatures.check_code(physician, spec.policy, code)
    said = opinion(spec.form, answers, role, phase)
    review = Review(
        case=case,
        assignment=assignment,
        physician=physician,
        role=role,
        phase=phase,
        answers=answers_to_json(answers),
        verdict=said.verdict,
        inadequate=said.inadequate,
        submitted_at=timezone.now(),
        signed_as=signatures.name(physician),
        meaning=signatures.meaning(role),
        guideline=guideline if case.kind != Case.Kind.VALIDATION else None,  # it is about reviewing samples
        attempt=turns.attempts[role, phase] + 1,
    )
    sql.insert(review)
    record_submitted(review, key or "")
    turns.reviews.append(review)
    # The phase may be the next one after this, with its own token.
    follow_reviews(case, position(spec.policy, visibility.opinions(case, turns.reviews)), actor=physician, turns=turns)
    return review


@dataclass(frozen=True, slots=True)
class Turns:
    """Who has a part in a case, and what was submitted: the reviews that count, in order.

    attempts: how many there were by role and phase, those that were taken back included.
    """

    assignments: dict[str, Assignment]
    reviews: list[Review]
    attempts: Counter[tuple[str, str]]


_TURNS = """SELECT {a}, {r}, t.id FROM review_assignment a LEFT JOIN review_review r ON r.assignment_id = a.id
LEFT JOIN review_retraction t ON t.review_id = r.id WHERE a.case_id = %s ORDER BY r.id"""


def turns_of(case: Case, own: Assignment | None = None) -> Turns:
    """What has happened in a case, whose row is locked. `own`: one of its assignments that was read already."""
    turns = Turns({own.role: own} if own else {}, [], Counter())
    for assignment, review, retraction in sql.instances(_TURNS, (case.pk,), a=Assignment, r=Review):
        turns.assignments.setdefault(assignment.role, assignment)
        if review is not None:
            turns.attempts[review.role, review.phase] += 1
            if retraction is None:
                turns.reviews.append(review)
    return turns


def follow_reviews(case: Case, now: Position, *, actor: User | None = None, turns: Turns | None = None) -> None:
    """Bring the rows in line with the machine: state, event, and one assignment for each turn that is open.

    `turns`: what `turns_of` says, where it was asked already.
    """
    at = timezone.now()
    turns = turns or turns_of(case)
    if now.state != case.state or now.state.final:
        before, case.state, case.ground = case.state, now.state, now.ground or ""
        case.closed_at = at if now.state.final else None
        sql.update(case, "state", "ground", "closed_at")
        kind = Event.Kind.CLOSED if now.state.final else Event.Kind.MOVED
        record(case, kind, actor, before=before, after=now.state, ground=case.ground)
    if now.awaits_consent:
        _ask_primary(case, turns, actor)
    open_turns = {turn.role: turn.phase for turn in now.openings}
    committed = {review.assignment_id for review in turns.reviews}
    for role, assignment in turns.assignments.items():
        phase = open_turns.get(Role(role))
        if phase is None:
            if assignment.hold != Hold.DONE and (now.state.final or assignment.pk in committed):
                still = bool(now.openings) and assignment.role.startswith("adjudicator")
                assignment.hold = Hold.WAITING if still else Hold.DONE
                assignment.lease_until = None
                sql.update(assignment, "hold", "lease_until")
        elif phase != assignment.phase:
            # The next phase belongs to the physician who committed the first; the lease does not hand it to anybody else.
            # Its own token: the first phase sent twice (a double click) must not answer the second.
            assignment.phase, assignment.hold, assignment.lease_until = phase, Hold.HELD, at + lease()
            assignment.new_token()
            sql.update(assignment, "phase", "hold", "lease_until", "token")
            if phase is Phase.DISCUSS:
                remarks.discussion_opened(assignment)
    new = [role for role in Role if role in open_turns and role not in turns.assignments]
    if new:
        policy = case.frozen.policy
        # In the order of Role, so that the first adjudicator's row is the first to be handed out.
        sql.insert(
            *(
                Assignment(
                    case=case,
                    role=role,
                    phase=open_turns[role],
                    opened_at=at,
                    **eligibility.asked_of(case, role, policy),
                )
                for role in new
            )
        )


def _ask_primary(case: Case, turns: Turns, actor: User | None) -> None:
    """Put the secondary's wording to the primary. Asked once: a second time is an IntegrityError."""
    at, hours = timezone.now(), case.frozen.policy.objection_hours
    last = {review.role: review for review in turns.reviews}
    Rewording.objects.create(
        case=case,
        review=last[Role.SECONDARY],
        physician_id=last[Role.PRIMARY].physician_id,
        asked_at=at,
        due_at=at + timedelta(hours=hours),
    )
    record(case, Event.Kind.REWORDED, actor, hours=hours)
