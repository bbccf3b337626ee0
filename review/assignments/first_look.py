"""The first look: what a physician answers before the traps are shown ("A marked trap no longer looks natural")."""

import uuid
from dataclasses import replace

from django.utils import timezone

from review import errors
from review.access import visibility
from review.assignments import queries
from review.assignments.claims import fenced_assignment, renew
from review.audit.trail import record, recording_events
from review.common import sql
from review.models import Assignment, Event, FirstLook, User
from review.rules.blocks import highlight_faults, texts_of
from review.rules.case_spec import CaseSpec, answers_from_json, answers_to_json
from review.rules.citations import located
from review.rules.consolidation import first_look_problems, with_first_look
from review.rules.questions import Answers, Problem
from review.rules.state_machine import Phase


@recording_events()
def reveal(
    physician: User, assignment_id: int, token: uuid.UUID, answers: Answers, *, posted: Assignment | None = None
) -> FirstLook:
    """Keep the answers of the first look for good, show the rest of the case from now on, and renew the lease.

    Of `answers` only those to first-look questions count. Pressed a second time it changes nothing and returns the same.
    `posted`: what `queries.posted_to` says, where it was asked already.

    Raises:
        Incomplete: an answer of the first look is missing. NothingToReveal: the policy asks for no first look.
        NotYours, LeaseLost, AlreadySubmitted, CaseClosed.
    """
    posted = posted or queries.posted_to(physician, assignment_id)
    assignment = renew(fenced_assignment(physician, assignment_id, token))
    assignment.physician = physician
    assignment.case.frozen = posted.case.frozen  # which never changes
    form = visibility.asked_of(assignment).form
    if not visibility.looks_first(assignment.case):
        raise errors.NothingToReveal
    looked = posted.looks_read[physician.pk]
    if looked is not None:
        return _known(looked, assignment)
    answers = own_highlights(answers, revealed=False)
    if missing := first_look_problems(form, answers) + highlight_problems(assignment.case.frozen, answers):
        raise errors.Incomplete(missing)
    looked = FirstLook(
        assignment=assignment,
        physician=physician,
        answers=answers_to_json(with_first_look(form, Answers(), answers)),
        at=timezone.now(),
    )
    if not sql.insert_missing(looked):  # pressed a second time while the first was under way
        return _known(FirstLook.objects.get(assignment=assignment, physician=physician), assignment)
    record(assignment.case, Event.Kind.REVEALED, physician, role=assignment.role, phase=Phase(assignment.phase))
    return _known(looked, assignment)


def _known(looked: FirstLook, assignment: Assignment) -> FirstLook:
    looked.assignment, assignment.looks_read[looked.physician_id] = assignment, looked
    return looked


def with_committed_first_look(spec: CaseSpec, looked: FirstLook | None, answers: Answers) -> Answers:
    """`answers` with those of the first look as they were given then. Raises NotRevealed where it is due and was not taken."""
    if not spec.policy.reveal_first_look:
        return answers
    if looked is None:
        raise errors.NotRevealed
    return with_first_look(spec.form, answers, answers_from_json(looked.answers))


def own_highlights(answers: Answers, *, revealed: bool) -> Answers:
    """`answers` with the highlights that can be made now: before the reveal all are of the first look, afterwards none is."""
    if not answers.highlights:
        return answers
    if revealed:
        return replace(answers, highlights=tuple(each for each in answers.highlights if not each.first_look))
    return replace(answers, highlights=tuple(replace(each, first_look=True) for each in answers.highlights))


def located_citations(spec: CaseSpec, answers: Answers) -> tuple[Answers, list[Problem]]:
    """`answers` with the places of the passages that they cite from the case itself, and what is not in its text."""
    if all(each.kind != "case" for each in answers.citations):
        return answers, []
    texts = texts_of(spec.blocks)
    found = [located(each, texts) for each in answers.citations]
    wrong = [
        Problem(f"citation.{number}.passage", "highlight-misplaced")
        for number, (each, place) in enumerate(zip(answers.citations, found, strict=True), 1)
        if place is None and each.passage.strip()
    ]
    told = zip(answers.citations, found, strict=True)
    return replace(answers, citations=tuple(place or each for each, place in told)), wrong


def highlight_problems(spec: CaseSpec, answers: Answers, *, draft: bool = False) -> list[Problem]:
    """What is wrong with the highlights against the frozen case; in a draft, words without a place or a label may wait."""
    if not answers.highlights:
        return []
    labels = {label.value for label in spec.form.labels}
    early = {label.value for label in spec.form.first_look.labels}
    found = highlight_faults(answers.highlights, labels, texts_of(spec.blocks), texts_of(spec.first_look))
    for number, each in enumerate(answers.highlights, 1):
        if each.first_look and each.label in labels - early:
            found.append((f"highlight.{number}.label", "unknown-value"))
    if draft:
        open_ones = {f"highlight.{n}.quote" for n, each in enumerate(answers.highlights, 1) if not each.passage}
        open_ones |= {f"highlight.{n}.label" for n, each in enumerate(answers.highlights, 1) if not each.label}
        waits = ("highlight-duplicate", "too-many")
        found = [(field, code) for field, code in found if field not in open_ones and code not in waits]
    return [Problem(field, code) for field, code in found]
