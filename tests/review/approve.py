"""Complete answers to any form, and physicians who approve every case."""

from collections.abc import Sequence
from dataclasses import replace

from review.assignments import claims, first_look, services
from review.models import User
from review.rules.citations import is_by_trap
from review.rules.questions import Answer, Answers, Citation, Form, RubricAnswer
from review.turns.turn import ReviewTurn
from tests.review.factories import turn_at

EVIDENCE = Citation("guideline", "Guideline of the tests", "1", "It is not so.", "2020-01-15")


def evidence_of(form: Form) -> tuple[Citation, ...]:
    """The source of the tests: once, or for each trap where evidence is given by trap."""
    if not is_by_trap(form.terms):
        return (EVIDENCE,)
    return tuple(replace(EVIDENCE, trap=term.code, level="guideline") for term in form.terms)


def approval_of(form: Form) -> Answers:
    """Complete answers to `form` without any fault, with the middle level of its harm scale."""
    asked = [question for question in form.questions if question.kind != "text"]
    choices = {question.key: next(c for c in question.choices if not c.blocks) for question in asked}
    severity = form.severities[len(form.severities) // 2].value if form.severities else ""
    return Answers(
        questions={key: Answer(choice.value) for key, choice in choices.items()},
        rubrics={rubric.key: RubricAnswer("adequate", severity=severity) for rubric in form.rubrics},
        verdict="approve",
        citations=evidence_of(form) if any(choice.evidence for choice in choices.values()) else (),
    )


def rejection_of(form: Form, reason: str, *, code: str = "") -> Answers:
    """Complete answers to `form` that reject, with every rubric adequate.

    `code`: the coded reason; the form's first one unless given.
    """
    reason_code = code or (form.reasons[0].code if form.reasons else "")
    return replace(approval_of(form), verdict="reject", reason=reason, reason_code=reason_code)


def approve_everything(physicians: Sequence[User]) -> int:
    """Let `physicians` approve until no case is left for them; returns the number of reviews."""
    count = 0
    while assignments := [held for held in map(claims.claim_next, physicians) if held is not None]:
        for assignment in assignments:
            assert assignment.physician is not None
            assert assignment.token is not None
            answers = approval_of(assignment.case.frozen.form)
            if not ReviewTurn(assignment.physician, assignment).is_revealed:
                first_look.reveal(turn_at(assignment.physician, assignment), assignment.token, answers)
            services.submit(turn_at(assignment.physician, assignment), assignment.token, answers)
            count += 1
    return count
