"""Physicians who approve whatever they are given."""

from collections.abc import Sequence
from dataclasses import replace

from review.access import visibility
from review.assignments import claims, first_look, services
from review.models import User
from review.rules.questions import Answer, Answers, Citation, Form, RubricAnswer

EVIDENCE = Citation("guideline", "Guideline of the tests", "1", "It is not so.", "2020-01-15")


def approval(form: Form) -> Answers:
    """A complete answer that finds nothing wrong. Of the harm scale it takes the middle."""
    good = {question.key: next(c for c in question.choices if not c.blocks) for question in form.questions}
    severity = form.severities[len(form.severities) // 2].value if form.severities else ""
    return Answers(
        questions={key: Answer(choice.value) for key, choice in good.items()},
        rubrics={rubric.key: RubricAnswer("adequate", severity=severity) for rubric in form.rubrics},
        verdict="approve",
        citations=(EVIDENCE,) if any(choice.evidence for choice in good.values()) else (),
    )


def rejection(form: Form, reason: str, *, code: str = "") -> Answers:
    """A complete answer against, every rubric adequate; for the first reason of the form unless another is named."""
    coded = code or (form.reasons[0].code if form.reasons else "")
    return replace(approval(form), verdict="reject", reason=reason, reason_code=coded)


def approve_everything(physicians: Sequence[User]) -> int:
    """Let them work until nothing waits; returns the number of reviews."""
    count = 0
    while taken := [found for found in map(claims.claim_next, physicians) if found is not None]:
        for assignment in taken:
            assert assignment.physician is not None
            assert assignment.token is not None
            answers = approval(assignment.case.frozen.form)
            if not visibility.is_revealed(assignment.physician, assignment):
                first_look.reveal(assignment.physician, assignment.pk, assignment.token, answers)
            services.submit(assignment.physician, assignment.pk, assignment.token, answers)
            count += 1
    return count
