"""The page of one case: what its reader may see, and the answer form with the answers so far."""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from review import errors
from review.access import visibility
from review.answers import common_ground, signatures
from review.answers.answer_form import fill_form
from review.answers.marked_text import marks
from review.answers.side_by_side import (
    AnswerChange,
    ReviewColumn,
    anonymous_columns,
    compare,
    proposals,
    version_changes,
    wording_offers,
)
from review.assignments import case_queue, queries
from review.assignments.first_look import with_committed_first_look
from review.common.decorators import signed_in_account
from review.discussion import guidelines
from review.labels import translate
from review.models import Assignment, Case, User
from review.rules import consolidation
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.consolidation import may_declare, with_first_look
from review.rules.questions import Answers, Problem, problems
from review.rules.state_machine import ADJUDICATORS, Phase, Role, Verdict


def lease_context(assignment: Assignment) -> dict[str, object]:
    """Template context of `_lease.html`."""
    left = (assignment.lease_until - timezone.now()).total_seconds() if assignment.lease_until else 0
    return {"assignment": assignment, "seconds_left": max(int(left), 0)}


def local_draft_key(me: User, assignment: Assignment, first_look_due: bool) -> str:
    """The key under which a browser stores its copy of the draft of this phase."""
    return f"mhb-draft:{me.pk}:{assignment.public_id}:{assignment.phase}{':first' if first_look_due else ''}"


def submitted_answers(me: User, assignment: Assignment) -> Answers | None:
    """The holder's last submitted answers, where the confirmation and the second vote start."""
    last = visibility.counted_reviews().filter(physician=me, assignment=assignment).order_by("-id").first()
    return answers_from_json(last.answers) if last else None


def confirm_unchanged(committed: Answers | None, posted: Answers) -> Answers:
    """The blind answers, plus the posted answers to questions that arise only now.

    These are whether differing rubrics change wording or meaning, and why the case is approved
    although the first reviewer rejected it.
    """
    if committed is None:
        return posted
    committed = replace(committed, declaration=posted.declaration)
    if committed.verdict != Verdict.APPROVE or not posted.dissent_code:
        return committed
    return replace(committed, dissent_code=posted.dissent_code, reason=posted.reason)


def needs_declaration(me: User, assignment: Assignment, answers: Answers) -> bool | None:
    """Whether the secondary must declare if the rubrics differ in wording or in meaning.

    None if this phase asks for no declaration.
    """
    case = assignment.case
    if not may_declare(case.frozen.policy, Role(assignment.role), Phase(assignment.phase)):
        return None
    return _changes_rubrics(
        assignment, answers, anonymous_columns(me, visibility.reviews_shown_to(me, case, assignment))
    )


def _changes_rubrics(assignment: Assignment, answers: Answers, columns: Sequence[ReviewColumn]) -> bool:
    # If the secondary never sees the primary's answers (no confirmation), no column holds them.
    primary = next((column.answers for column in columns if column.role == Role.PRIMARY), None)
    return consolidation.changes_rubrics(assignment.case.frozen.form, answers, primary)


def keeping_needs_declaration(assignment: Assignment, columns: Sequence[ReviewColumn]) -> bool:
    """Whether confirming the blind answer unchanged needs a declaration.

    If so, the page asks for it next to the button that keeps the answer.
    """
    own = next((column.answers for column in columns if column.role == assignment.role), None)
    return assignment.phase == Phase.CONFIRM and own is not None and _changes_rubrics(assignment, own, columns)


def render_case(
    request: HttpRequest,
    assignment: Assignment,
    *,
    answers: Answers | None = None,
    refused_for: Sequence[Problem] = (),
    status: int = 200,
    stale: errors.StaleDraft | None = None,
    seen_revision: int = 0,
    signature_error: errors.SignatureRefused | None = None,
    received_local: str = "",
) -> HttpResponse:
    """Render the page of a case for its holder.

    Args:
        answers: what was just posted; None: the draft, or the answers submitted earlier.
        refused_for: why a posted form was refused.
        stale: another window has saved a later draft than `seen_revision`.
        received_local: key of the browser's own copy of a draft that the server has received.
    """
    me = signed_in_account(request)
    spec = visibility.case_shown_to(me, assignment)
    draft = queries.draft_of(assignment, me)
    if answers is None:
        # In the first phase no review of this assignment counts yet.
        earlier = submitted_answers(me, assignment) if draft is None and assignment.phase != Phase.COMMIT else None
        answers = answers_from_json(draft.answers) if draft else earlier or Answers()
    first_look, first_look_due = None, False
    if spec.policy.reveal_first_look:
        first_look = visibility.first_look_of(assignment, me)
        first_look_due = first_look is None
    if first_look is not None:
        answers = with_first_look(spec.form, answers, answers_from_json(first_look.answers))
    committed = [question.key for question in spec.form.questions if first_look is not None and question.first_look]
    reviews = []
    if not first_look_due:
        reviews = list(visibility.reviews_shown_to(me, assignment.case, assignment))
    columns = anonymous_columns(me, reviews)
    full_form = assignment.case.localized_spec.form  # with the questions of the other stages
    blind = assignment.phase == Phase.COMMIT
    agreed_fields: Collection[str] = ()
    if (common := _common_answers(assignment, spec, columns)) is not None:
        # A refused form is shown as it was posted, without filling in anything.
        answers = answers if refused_for else common_ground.fill_in(answers, common)
        agreed_fields = common_ground.agreed_fields(spec.form, answers, common)
    rejected_before = assignment.phase == Phase.CONFIRM and any(
        column.role == Role.PRIMARY and column.answers.verdict == Verdict.REJECT for column in columns
    )
    declares = not first_look_due and may_declare(spec.policy, Role(assignment.role), Phase(assignment.phase))
    context = {
        "case": assignment.case,
        "spec": spec,
        "draft_url": reverse("review:draft", args=[assignment.pk]),
        "draft": draft,
        "sheet": fill_form(
            spec.form,
            answers,
            refused_for,
            wording_offers(columns),
            committed,
            blocks=spec.blocks,
            rejected_before=rejected_before,
            declares=declares,
        ),
        "needs_declaration": _changes_rubrics(assignment, answers, columns)
        or any(problem.field == "declaration" for problem in refused_for)
        if declares
        else None,
        "keeping_needs_declaration": declares and keeping_needs_declaration(assignment, columns),
        "rubrics_disputed": is_dispute_about_rubrics(assignment, columns),
        "objection": visibility.objection_shown_to(reviews) if assignment.role in ADJUDICATORS else None,
        "columns": columns,
        "marks": marks(spec, spec.form, answers.highlights, columns),
        "proposals": proposals(full_form, columns) if assignment.phase == Phase.DISCUSS else [],
        "agreed_fields": agreed_fields,
        "agreement_confirmed": "agreed" in request.POST,
        "comparison": compare(full_form, columns) if len(columns) > 1 else None,
        "changes": None if first_look_due else _changes(assignment.case, spec),
        "why": translate(assignment.reason) % {"version": assignment.case.version},
        "blind": blind,
        "first_look_due": first_look_due,
        "takes_next": not first_look_due
        and not (assignment.role == Role.SECONDARY and blind and spec.policy.secondary_confirms),
        "folded": blind and not spec.policy.reveal_first_look,
        "view": "changes" if first_look is not None else "shown",
        "local": local_draft_key(me, assignment, first_look_due),
        "stage": Role(assignment.role).stage,
        "stale": stale,
        "seen_revision": seen_revision,
        "signature_error": signature_error,
        "received_local": received_local,
        "signs_as": signatures.signing_name(me),
        "has_second_factor": spec.policy.sign_with_second_factor and signatures.has_second_factor(me),
        "retractable": queries.retractable_review(me),
        "waiting": case_queue.count_available(me),
        "guideline": guidelines.guideline(assignment.case.benchmark, Role(assignment.role).stage),
        "simulated": assignment.case.simulated,
        **lease_context(assignment),
    }
    return render(request, "review/assignments/case.html", context, status=status)


def _common_answers(assignment: Assignment, spec: CaseSpec, columns: Sequence[ReviewColumn]) -> Answers | None:
    """The answers on which both reviewers agree, filled in for an adjudicator's first vote."""
    if assignment.phase != Phase.COMMIT or assignment.role not in ADJUDICATORS or len(columns) < 2:
        return None
    return common_ground.common_answers(spec.form, [column.answers for column in columns])


def confirmation_problems(me: User, assignment: Assignment, token: uuid.UUID, answers: Answers) -> list[Problem]:
    """The problems of an adjudicator's vote that does not confirm the answers filled in for it.

    Empty if no answers were filled in, and where the service will refuse the vote.
    """
    is_held = assignment.physician_id == me.pk and assignment.token == token
    if not is_held or assignment.role not in ADJUDICATORS or assignment.phase != Phase.COMMIT:
        return []
    spec = visibility.case_shown_to(me, assignment)
    columns = anonymous_columns(me, visibility.reviews_shown_to(me, assignment.case, assignment))
    common = _common_answers(assignment, spec, columns)
    if common is None or not common_ground.agreed_fields(spec.form, answers, common):
        return []
    answers = with_committed_first_look(spec, visibility.first_look_of(assignment, me), answers)
    return [Problem("agreed", "unconfirmed"), *problems(spec.form, answers)]


def is_dispute_about_rubrics(assignment: Assignment, columns: Sequence[ReviewColumn]) -> bool:
    """Whether the adjudicators decide between two reviewers who both approve."""
    first_two = [column for column in columns if column.role not in ADJUDICATORS]
    both_approve = all(column.answers.verdict == Verdict.APPROVE for column in first_two)
    return assignment.role in ADJUDICATORS and len(first_two) == 2 and both_approve


def _changes(case: Case, spec: CaseSpec) -> list[AnswerChange] | None:
    """The changes of this version; None if there is no previous version or it is not stored."""
    if case.version == 1:
        return None
    # Use the lineage of the spec, so that a copy shows the changes of its sample, like real work.
    previous = Case.objects.filter(lineage=spec.lineage, version=case.version - 1).first()
    return version_changes(previous.frozen, spec) if previous else None
