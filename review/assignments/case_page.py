"""The page of one case: what its reader may see, and the answer form with the answers so far."""

from collections.abc import Collection, Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone

from review import errors
from review.answers import signatures
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
from review.assignments.refused_forms import NOT_REFUSED, RefusedForm
from review.discussion.remarks import discussion
from review.labels import translate
from review.models import Assignment, Case, Review
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.questions import Answers, Problem
from review.rules.state_machine import Phase
from review.turns import common_ground
from review.turns.turn import Moment, ReviewTurn, requires_first_look


def lease_context(assignment: Assignment) -> dict[str, object]:
    """Template context of `_lease.html`."""
    left = (assignment.lease_until - timezone.now()).total_seconds() if assignment.lease_until else 0
    return {"assignment": assignment, "seconds_left": max(int(left), 0)}


def local_draft_key(turn: ReviewTurn) -> str:
    """The key under which a browser stores its copy of the draft of this phase."""
    suffix = ":first"
    if turn.is_revealed:
        suffix = ""
    return f"mhb-draft:{turn.physician.pk}:{turn.assignment.public_id}:{turn.phase}{suffix}"


def render_case(
    request: HttpRequest,
    turn: ReviewTurn,
    *,
    answers: Answers | None = None,
    refusal: RefusedForm = NOT_REFUSED,
    status: int = 200,
    stale: errors.StaleDraft | None = None,
    seen_revision: int = 0,
    received_local: str = "",
    retractable: Review | None = None,
) -> HttpResponse:
    """Render the page of a case for its holder.

    Args:
        answers: what was just posted; None: the draft, or the answers submitted earlier.
        refusal: why the form that was posted last was refused.
        stale: another window has saved a later draft than `seen_revision`.
        received_local: key of the browser's own copy of a draft that the server has received.
        retractable: the review that was submitted before this case, if it can be undone.
    """
    me, assignment, case, spec = turn.physician, turn.assignment, turn.case, turn.shows
    first_look_due = turn.moment is Moment.FIRST_LOOK
    if answers is None:
        answers = turn.answers
    answers, committed = _with_committed(turn, answers)
    agreed_fields: Collection[str] = ()
    if (common := turn.common_answers) is not None:
        # A refused form is shown as it was posted, without filling in anything.
        if not refusal.problems:
            answers = common_ground.fill_in(answers, common)
        agreed_fields = common_ground.agreed_fields(spec.form, answers, common)
    columns = anonymous_columns(me, turn.reviews)
    full_form = case.localized_spec.form  # with the questions of the other stages
    blind = turn.phase is Phase.COMMIT
    shown_proposals, comparison, changes, view = [], None, None, "shown"
    if turn.phase is Phase.DISCUSS:
        shown_proposals = proposals(full_form, columns)
    if len(columns) > 1:
        comparison = compare(full_form, columns)
    if not first_look_due:
        changes = _changes(case, spec)
    if turn.first_look is not None:
        view = "changes"
    context = {
        "case": case,
        "spec": spec,
        "draft_url": reverse("review:draft", args=[assignment.pk]),
        "draft": turn.draft,
        "sheet": fill_form(
            spec.form,
            answers,
            refusal.problems,
            wording_offers(columns),
            committed,
            blocks=spec.blocks,
            rejected_before=turn.rejected_before,
            declares=turn.declares,
        ),
        "asks_why": turn.needs_reason(answers),
        "needs_declaration": turn.needs_declaration(answers),
        "rubrics_disputed": turn.is_dispute_about_rubrics,
        "objection": turn.objection,
        "remarks": discussion(me, case, turn),
        "marks": marks(spec, answers.highlights, columns),
        "proposals": shown_proposals,
        "agreed_fields": agreed_fields,
        "agreement_confirmed": refusal.agreed,
        "comparison": comparison,
        "changes": changes,
        "why": translate(assignment.reason) % {"version": case.version},
        "blind": blind,
        "first_look_due": first_look_due,
        "first_page": blind and turn.draft is None and (first_look_due or not requires_first_look(case)),
        "folded": blind and spec.form.asks_verdict and not spec.policy.reveal_first_look,
        "view": view,
        "local": local_draft_key(turn),
        "stale": stale,
        "seen_revision": seen_revision,
        "received_local": received_local,
        "retractable": retractable,
        "guided": case.kind != Case.Kind.VALIDATION and spec.policy.guided,
        "simulated": case.simulated,
        **_signature_context(turn, refusal.signature),
        **lease_context(assignment),
    }
    return render(request, "review/assignments/case.html", context, status=status)


def _with_committed(turn: ReviewTurn, answers: Answers) -> tuple[Answers, list[str]]:
    """`answers` with those committed at the first look, and the keys of the questions of these."""
    if not requires_first_look(turn.case) or turn.first_look is None:
        return answers, []
    return turn.with_first_look(answers), [question.key for question in turn.asks.questions if question.first_look]


def _signature_context(turn: ReviewTurn, refused: errors.SignatureRefused | None) -> dict[str, object]:
    """Template context of `_signature.html`."""
    policy = turn.case.frozen.policy
    return {
        "stage": turn.role.stage,
        "signature_error": refused,
        "signs_as": signatures.signing_name(turn.physician),
        "has_second_factor": policy.sign_with_second_factor and signatures.has_second_factor(turn.physician),
    }


def _changes(case: Case, spec: CaseSpec) -> list[AnswerChange] | None:
    """The changes of this version; None if there is no previous version or it is not stored."""
    if case.version == 1:
        return None
    # Use the lineage of the spec, so that a copy shows the changes of its sample, like real work.
    previous = Case.objects.filter(lineage=spec.lineage, version=case.version - 1).first()
    if previous:
        return version_changes(previous.frozen, spec)
    return None


def render_correction(
    request: HttpRequest,
    turn: ReviewTurn,
    review: Review,
    *,
    answers: Answers | None = None,
    reason: str = "",
    reason_error: str = "",
    refused_for: Sequence[Problem] = (),
    signature_error: errors.SignatureRefused | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page on which a physician corrects `review`, submitted at `turn`.

    Args:
        answers: what was just posted; None: those of the review.
        reason_error: what is wrong with `reason`.
        refused_for: why a posted form was refused.
    """
    case, spec = turn.case, turn.shows
    if answers is None:
        answers = answers_from_json(review.answers)
    answers, committed = _with_committed(turn, answers)
    columns = others_columns(turn, review)
    context = {
        "case": case,
        "spec": spec,
        "review": review,
        "reason": reason,
        "reason_error": reason_error,
        "sheet": fill_form(spec.form, answers, refused_for, wording_offers(columns), committed, blocks=spec.blocks),
        "agreed_fields": (),
        "marks": marks(spec, answers.highlights, columns),
        "view": "changes",
        "simulated": case.simulated,
        **_signature_context(turn, signature_error),
    }
    return render(request, "review/assignments/correct.html", context, status=status)


def others_columns(turn: ReviewTurn, review: Review) -> list[ReviewColumn]:
    """What the author of `review` may read of others, whose wordings can be adopted."""
    return anonymous_columns(turn.physician, [one for one in turn.reviews if one != review])
