"""The first look: questions answered before the traps are shown.

A trap that is marked as one no longer looks natural.
"""

import uuid
from dataclasses import replace

from django.db.models import prefetch_related_objects
from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import queries
from review.assignments.claims import fenced_assignment, renew
from review.audit.trail import record, recording_events
from review.models import Assignment, Event, FirstLook, User
from review.rules.blocks import highlight_faults, passage_texts
from review.rules.case_spec import CaseSpec, answers_from_json, answers_to_json
from review.rules.citations import locate_passage
from review.rules.consolidation import with_first_look
from review.rules.questions import Answers, Problem, limit_problems, question_problems
from review.rules.state_machine import Phase


@recording_events()
def reveal(
    physician: User, assignment_id: int, token: uuid.UUID, answers: Answers, *, loaded: Assignment | None = None
) -> FirstLook:
    """Commit the first look for good, reveal the rest of the case, and renew the lease.

    Only answers to first-look questions count. A second call changes nothing and returns the stored
    first look. Its `assignment` is as a page of the case needs it, with the case and first looks.
    Pass `loaded` if `queries.assignment_for_post` was already called.

    Raises:
        Incomplete: an answer of the first look is missing. OverLimits.
        NothingToReveal: the policy requires no first look.
        NotAssigned, LeaseLost, AlreadySubmitted, CaseClosed.
    """
    loaded = loaded or queries.assignment_for_post(assignment_id)
    check_limits(loaded.case.frozen, answers)
    assignment = renew(fenced_assignment(physician, assignment_id, token))
    assignment.physician = physician
    assignment.case.frozen = loaded.case.frozen  # never changes
    form = visibility.spec_for_stage(assignment).form
    if not visibility.requires_first_look(assignment.case):
        raise errors.NothingToReveal
    if (committed := visibility.first_look_of(assignment, physician)) is not None:
        return committed
    answers = with_allowed_highlights(answers, revealed=False)
    if missing := question_problems(form.first_look, answers) + highlight_problems(assignment.case.frozen, answers):
        raise errors.Incomplete(missing)
    first_look = FirstLook.objects.create(
        assignment=assignment,
        physician=physician,
        answers=answers_to_json(with_first_look(form, Answers(), answers)),
        at=timezone.now(),
    )
    record(assignment.case, Event.Kind.REVEALED, physician, role=assignment.role, phase=Phase(assignment.phase))
    prefetch_related_objects([assignment], "first_looks")
    return first_look


def check_limits(spec: CaseSpec, answers: Answers) -> None:
    """Raise OverLimits if the answers hold more than a case can be asked, or than people write."""
    if faults := limit_problems(spec.form, answers):
        raise errors.OverLimits(faults)


def with_committed_first_look(spec: CaseSpec, first_look: FirstLook | None, answers: Answers) -> Answers:
    """`answers`, with first-look answers replaced by the committed ones.

    Raises NotRevealed if the policy requires a first look and none was committed.
    """
    if not spec.policy.reveal_first_look:
        return answers
    if first_look is None:
        raise errors.NotRevealed
    return with_first_look(spec.form, answers, answers_from_json(first_look.answers))


def with_allowed_highlights(answers: Answers, *, revealed: bool) -> Answers:
    """`answers`, limited to highlights that can be made now.

    Before the reveal all highlights belong to the first look; afterwards none does.
    """
    if not answers.highlights:
        return answers
    if revealed:
        highlights = tuple(highlight for highlight in answers.highlights if not highlight.first_look)
    else:
        highlights = tuple(replace(highlight, first_look=True) for highlight in answers.highlights)
    return replace(answers, highlights=highlights)


def located_citations(spec: CaseSpec, answers: Answers) -> tuple[Answers, list[Problem]]:
    """`answers` with the positions of passages cited from the case, and a problem for each miss."""
    if all(citation.kind != "case" for citation in answers.citations):
        return answers, []
    texts = passage_texts(spec.blocks)
    pairs = [(citation, locate_passage(citation, texts)) for citation in answers.citations]
    missing = [
        Problem(f"citation.{number}.passage", "highlight-misplaced")
        for number, (citation, match) in enumerate(pairs, 1)
        if match is None and citation.passage.strip()
    ]
    return replace(answers, citations=tuple(match or citation for citation, match in pairs)), missing


def highlight_problems(spec: CaseSpec, answers: Answers, *, draft: bool = False) -> list[Problem]:
    """The problems of the highlights, checked against the frozen case.

    A draft may hold highlights that have no position or label yet.
    """
    if not answers.highlights:
        return []
    labels = {label.value for label in spec.form.labels}
    first_look_labels = {label.value for label in spec.form.first_look.labels}
    faults = highlight_faults(answers.highlights, labels, passage_texts(spec.blocks), passage_texts(spec.first_look))
    for number, highlight in enumerate(answers.highlights, 1):
        if highlight.first_look and highlight.label in labels - first_look_labels:
            faults.append((f"highlight.{number}.label", "unknown-value"))
    if draft:
        unfinished = {f"highlight.{n}.quote" for n, each in enumerate(answers.highlights, 1) if not each.passage}
        unfinished |= {f"highlight.{n}.label" for n, each in enumerate(answers.highlights, 1) if not each.label}
        tolerated = ("highlight-duplicate", "too-many")
        faults = [(field, code) for field, code in faults if field not in unfinished and code not in tolerated]
    return [Problem(field, code) for field, code in faults]
