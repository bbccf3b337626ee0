"""The page of one case: what its reader may see of it, and the form with what was typed so far."""

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
from review.answers.side_by_side import Change, ReviewColumn, anonymous_columns, changes, compare, offers
from review.assignments import queries
from review.assignments.first_look import with_committed_first_look
from review.common import sql
from review.common.decorators import signed_in_account
from review.labels import translate
from review.models import Assignment, Case, User
from review.rules import consolidation
from review.rules.case_spec import CaseSpec, answers_from_json
from review.rules.consolidation import may_declare, with_first_look
from review.rules.questions import Answers, Problem, problems
from review.rules.state_machine import ADJUDICATORS, Phase, Role, Verdict


def lease_of(assignment: Assignment) -> dict[str, object]:
    left = (assignment.lease_until - timezone.now()).total_seconds() if assignment.lease_until else 0
    return {"assignment": assignment, "seconds_left": max(int(left), 0)}


def local_name(me: User, assignment: Assignment, looking: bool) -> str:
    """The name under which a browser keeps what this person types at this point of this case."""
    return f"mhb-draft:{me.pk}:{assignment.public_id}:{assignment.phase}{':first' if looking else ''}"


def own_answers(me: User, assignment: Assignment) -> Answers | None:
    """What the holder submitted in this case before: the start of the confirmation, of the second vote."""
    found = sql.first_row(_OWN, me.pk, assignment.pk)
    return answers_from_json(sql.json_of(found[0])) if found else None


_OWN = """SELECT r.answers FROM review_review r WHERE r.physician_id = %s AND r.assignment_id = %s
AND NOT EXISTS (SELECT 1 FROM review_retraction t WHERE t.review_id = r.id) ORDER BY r.id DESC LIMIT 1"""


def kept_as_committed(own: Answers | None, typed: Answers) -> Answers:
    """The blind answer; why it approves what the first reviewer rejected, or words differently, can only be said now."""
    if own is None:
        return typed
    own = replace(own, declaration=typed.declaration)
    if own.verdict != Verdict.APPROVE or not typed.dissent_code:
        return own
    return replace(own, dissent_code=typed.dissent_code, reason=typed.reason)


def rewords(me: User, assignment: Assignment, answers: Answers) -> bool | None:
    """Whether the secondary must declare what a difference of the rubrics is; None: this is not where it is declared."""
    case = assignment.case
    if not may_declare(case.frozen.policy, Role(assignment.role), Phase(assignment.phase)):
        return None
    return _rewords(assignment, answers, anonymous_columns(me, visibility.reviews_shown_to(me, case, assignment)))


def _rewords(assignment: Assignment, answers: Answers, voices: Sequence[ReviewColumn]) -> bool:
    # Where the secondary answers blind to the end, the primary's answers are not among what is shown.
    primary = next((voice.answers for voice in voices if voice.role == Role.PRIMARY), None)
    return consolidation.rewords(assignment.case.frozen.form, answers, primary)


def blind_rewords(assignment: Assignment, voices: Sequence[ReviewColumn]) -> bool:
    """Whether the blind answer, confirmed as it is, has to be declared: asked beside the button that keeps it."""
    own = next((voice.answers for voice in voices if voice.role == assignment.role), None)
    return assignment.phase == Phase.CONFIRM and own is not None and _rewords(assignment, own, voices)


def show(
    request: HttpRequest,
    assignment: Assignment,
    *,
    answers: Answers | None = None,
    wrong: Sequence[Problem] = (),
    status: int = 200,
    stale: errors.StaleDraft | None = None,
    seen: int = 0,
    unsigned: errors.SignatureRefused | None = None,
    arrived: str = "",
) -> HttpResponse:
    me = signed_in_account(request)
    spec = visibility.case_shown_to(me, assignment)
    beside = queries.beside(assignment, me)
    kept = beside.draft
    assignment.case.undiscussed = not beside.discussed
    if answers is None:
        # In the first phase nothing of this assignment's that counts was submitted yet.
        before = own_answers(me, assignment) if kept is None and assignment.phase != Phase.COMMIT else None
        answers = answers_from_json(kept.answers) if kept else before or Answers()
    first, looking = None, False
    if spec.policy.reveal_first_look:
        first = visibility.first_look_of(assignment, me)
        looking = first is None
    if first is not None:
        answers = with_first_look(spec.form, answers, answers_from_json(first.answers))
    given = [question.key for question in spec.form.questions if first is not None and question.first_look]
    reviews = [] if looking else sql.if_any(visibility.reviews_shown_to(me, assignment.case, assignment))
    voices = anonymous_columns(me, reviews)
    whole = assignment.case.shown.form  # what the others were asked, at their stages
    blind = assignment.phase == Phase.COMMIT
    shared: Collection[str] = ()
    if (ground := _ground(assignment, spec, voices)) is not None:
        # Before anything was sent: what was sent back is shown as it was typed.
        answers = answers if wrong else common_ground.filled(answers, ground)
        shared = common_ground.agreed(spec.form, answers, ground)
    rejected_before = assignment.phase == Phase.CONFIRM and any(
        voice.role == Role.PRIMARY and voice.answers.verdict == Verdict.REJECT for voice in voices
    )
    declares = not looking and may_declare(spec.policy, Role(assignment.role), Phase(assignment.phase))
    context = {
        "case": assignment.case,
        "spec": spec,
        "draft_url": reverse("review:draft", args=[assignment.pk]),
        "draft": kept,
        "sheet": fill_form(
            spec.form, answers, wrong, offers(voices), given, rejected_before=rejected_before, declares=declares
        ),
        "rewords": _rewords(assignment, answers, voices) or any(each.field == "declaration" for each in wrong)
        if declares
        else None,
        "kept_rewords": declares and blind_rewords(assignment, voices),
        "reworded": is_about_rubrics(assignment, voices),
        "objection": visibility.objection_shown_to(reviews) if assignment.role in ADJUDICATORS else None,
        "voices": voices,
        "marks": marks(spec, spec.form, answers.highlights, voices),
        "shared": shared,
        "confirmed": "agreed" in request.POST,
        "comparison": compare(whole, voices) if len(voices) > 1 else None,
        "changes": None if looking else _changes(assignment.case, spec),
        "why": translate(assignment.why) % {"version": assignment.case.version},
        "blind": blind,
        "looking": looking,
        "takes_next": not looking
        and not (assignment.role == Role.SECONDARY and blind and spec.policy.secondary_confirms),
        "folded": blind and not spec.policy.reveal_first_look,
        "view": "changes" if first is not None else "shown",
        "local": local_name(me, assignment, looking),
        "stage": Role(assignment.role).stage,
        "stale": stale,
        "seen": seen,
        "unsigned": unsigned,
        "arrived": arrived,
        "signs_as": signatures.name(me),
        "has_second_factor": spec.policy.sign_with_second_factor and signatures.has_second_factor(me),
        "last": beside.last,
        "waiting": beside.waiting,
        "guideline": beside.guideline,
        "simulated": assignment.case.simulated,
        **lease_of(assignment),
    }
    return render(request, "review/assignments/case.html", context, status=status)


def _ground(assignment: Assignment, spec: CaseSpec, voices: Sequence[ReviewColumn]) -> Answers | None:
    """What an adjudicator, who votes for the first time, finds filled in: where both reviewers agree."""
    if assignment.phase != Phase.COMMIT or assignment.role not in ADJUDICATORS or len(voices) < 2:
        return None
    return common_ground.common(spec.form, [voice.answers for voice in voices])


def unconfirmed(me: User, assignment: Assignment, answers: Answers) -> list[Problem]:
    """What is wrong with answers that were filled in for an adjudicator and not confirmed; nothing where there were none."""
    if assignment.role not in ADJUDICATORS or assignment.phase != Phase.COMMIT:
        return []
    spec = visibility.case_shown_to(me, assignment)
    voices = anonymous_columns(me, visibility.reviews_shown_to(me, assignment.case, assignment))
    ground = _ground(assignment, spec, voices)
    if ground is None or not common_ground.agreed(spec.form, answers, ground):
        return []
    answers = with_committed_first_look(spec, visibility.first_look_of(assignment, me), answers)
    return [Problem("agreed", "unconfirmed"), *problems(spec.form, answers)]


def is_about_rubrics(assignment: Assignment, voices: Sequence[ReviewColumn]) -> bool:
    """Whether adjudicators settle a dispute of two reviewers who both approve."""
    first_two = [voice for voice in voices if voice.role not in ADJUDICATORS]
    approve = all(voice.answers.verdict == Verdict.APPROVE for voice in first_two)
    return assignment.role in ADJUDICATORS and len(first_two) == 2 and approve


def _changes(case: Case, spec: CaseSpec) -> list[Change] | None:
    """What this version changed; None for a first version, and where the one before is not kept."""
    if case.version == 1:
        return None
    # The lineage of the spec: a copy for training shows what its sample's version changed, like any other case.
    before = Case.objects.filter(lineage=spec.lineage, version=case.version - 1).first()
    return changes(before.frozen, spec) if before else None
