"""Store drafts and submit reviews. Each public function is one transaction."""

import uuid
from contextlib import suppress
from dataclasses import replace

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from review import errors
from review.access import visibility
from review.answers import signatures
from review.assignments import queries, review_drafts
from review.assignments.claims import fence, heartbeat, recently_renewed
from review.assignments.first_look import (
    check_limits,
    highlight_problems,
    located_citations,
    with_allowed_highlights,
    with_committed_first_look,
)
from review.audit.trail import record_submitted, recording_events
from review.cases.services import follow_reviews, load_progress
from review.discussion import guidelines
from review.models import Assignment, Case, Draft, Review, User
from review.rules.case_spec import answers_from_json, answers_to_json
from review.rules.consolidation import (
    changes_rubrics,
    declaration_problems,
    may_declare,
    signed_answers,
    with_verdict,
)
from review.rules.permissions import Can, require
from review.rules.questions import Answers, opinion, problems, without_unasked
from review.rules.state_machine import Phase, Role, Verdict, position

Hold = Assignment.Hold


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

    It is stored without a lock: the draft belongs to its author, no matter who holds the case.

    Args:
        revision: the revision of the draft that the writer has seen (0: none).
        loaded: the result of `queries.assignment_for_post`, if it was already called.

    Raises:
        LeaseLost, CaseClosed: too late to review. The draft was stored, unless another window has
            saved one since `revision`; the error's `detail` then says so.
        StaleDraft: another window has saved a draft since `revision`; nothing was stored.
        Incomplete: the words of a highlight are not at its position; nothing was stored.
        OverLimits: more than `review.rules.limits` allows; nothing was stored.
        AlreadySubmitted, NotAssigned: nothing was stored.
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
    if not recently_renewed(assignment):
        # Submitted in another window since: as if this draft had been saved before.
        with suppress(errors.AlreadySubmitted):
            assignment.lease_until = heartbeat(physician, assignment_id, token).lease_until
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


def sign_proposal(
    physician: User, assignment_id: int, token: uuid.UUID, review_id: int, *, password: str = "", code: str = ""
) -> Review:
    """Cast an adjudicator's second vote by signing a proposal word for word.

    A proposal is any review that the adjudicator may read; once the other adjudicator has voted a
    second time, that vote is one as well. If both sign the same one, it is the consensus.

    Raises what `submit` raises, NotAProposal (no such review, or this is no second vote).
    """
    assignment = queries.assignment_of(physician, assignment_id)
    shown = {review.pk: review for review in visibility.reviews_shown_to(physician, assignment.case, assignment)}
    own = max((pk for pk, review in shown.items() if review.assignment_id == assignment.pk), default=None)
    if assignment.phase != Phase.DISCUSS or review_id not in shown or own is None:
        raise errors.NotAProposal
    proposal, earlier = (answers_from_json(shown[pk].answers) for pk in (review_id, own))
    answers = signed_answers(assignment.case.frozen.form, proposal, earlier)
    return submit(physician, assignment_id, token, answers, password=password, code=code)


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
    # Lock the case before its assignments, as everywhere. FOR NO KEY UPDATE, because a concurrent
    # claim of another assignment of this case holds that row and inserts an event that references
    # the case: with FOR UPDATE the two would deadlock.
    case = Case.objects.select_for_update(no_key=True).defer("spec").get(pk=loaded.case_id)
    case.frozen = spec
    progress = load_progress(case)
    assignment = progress.assignments.get(role)
    if assignment is None or assignment.pk != loaded.pk:  # a retraction has deleted it
        raise errors.NotAssigned
    assignment.case = case
    require(physician, Can.REVIEW)
    fence(assignment, physician, token)
    phase = Phase(assignment.phase)
    spec = visibility.spec_for_stage(assignment, case)
    answers = with_allowed_highlights(answers, revealed=True)
    answers = with_committed_first_look(spec, visibility.first_look_of(loaded, physician), answers)
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
        meaning=signatures.MEANINGS[role.stage],
        guideline=guidelines.guideline(case.benchmark, role.stage) if guided else None,
        attempt=progress.attempts[role, phase] + 1,
    )
    record_submitted(review)
    progress.reviews.append(review)
    # This may move the assignment to its next phase, with a new token.
    now = position(spec.policy, visibility.opinions(case, progress.reviews))
    follow_reviews(case, now, actor=physician, progress=progress)
    return review
