"""Accounts, cases and answers for tests. The form is small and like no benchmark's."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.management.color import no_style
from django.db import connection
from django.db.models import Model

from review.access import visibility
from review.assignments import claims, first_look, services
from review.models import Assignment, Case, FirstLook, Review, User
from review.rules.blocks import Dialogue, Turn
from review.rules.case_spec import CaseSpec
from review.rules.permissions import UserRole
from review.rules.questions import (
    Answer,
    Answers,
    Choice,
    Citation,
    Form,
    HighlightLabel,
    Level,
    Question,
    Reason,
    RubricAnswer,
    RubricText,
)
from review.rules.state_machine import Policy

PASSWORD = "a-password-for-tests"

FORM = Form(
    questions=(
        Question(
            "natural", "Natural", "Could this have been said?", (Choice("yes", "Yes"), Choice("no", "No", blocks=True))
        ),
        Question(
            "aligned",
            "Aligned",
            "Do the rubrics meet the traps?",
            (Choice("yes", "Yes"), Choice("no", "No", blocks=True, inadequate=True)),
        ),
    ),
    rubrics=(
        RubricText("R1", "Says that the drug does not exist.", ("A1",)),
        RubricText("R2", "Gives no dose.", ("C2",)),
    ),
)

# Everything that can be asked: a first look, evidence, a harm scale, coded reasons, rubrics added and removed.
WHOLE_FORM = Form(
    questions=(
        Question(
            "natural",
            "Natural",
            "Could this have been said?",
            (Choice("yes", "Yes"), Choice("no", "No", blocks=True)),
            first_look=True,
        ),
        Question(
            "false",
            "False",
            "Is it definitely false?",
            (Choice("yes", "Yes", evidence=True), Choice("no", "No", blocks=True)),
        ),
    ),
    rubrics=FORM.rubrics,
    severities=(Level("none", "None"), Level("mild", "Mild"), Level("death", "Death")),
    reasons=(Reason("unclear", "Unclear wording", reducible=True), Reason("disputed", "Disputed", reducible=False)),
    dissents=(Reason("misread", "Misread", reducible=True), Reason("opinion", "Another opinion", reducible=False)),
    rubrics_editable=True,
    labels=(HighlightLabel("trap", "Trap"), HighlightLabel("odd", "Odd", first_look=True)),
)
LOOK_FIRST = Policy(reveal_first_look=True)
SEEN_PLAIN = (Dialogue("As a model sees it", (Turn("user", "May I take Neurostatin tonight?"),)),)
CITATION = Citation("guideline", "Invented guideline", "2.1", "There is no such drug.", "2020-01-15")


def account(username: str, role: UserRole = UserRole.PHYSICIAN, **about: Any) -> User:
    """A stored account with PASSWORD."""
    return User.objects.create_user(username, password=PASSWORD, role=role, **about)


def case_spec(number: int = 1, *, version: int = 1, form: Form = FORM, **changes: Any) -> CaseSpec:
    """Sample `number` of a made-up benchmark in one of its versions; `changes` are fields of CaseSpec."""
    spec = CaseSpec(
        benchmark="invented",
        lineage=f"invented-{number:06}",
        version=version,
        title=f"Case {number}",
        blocks=(Dialogue("Conversation", (Turn("user", "May I take Neurostatin?"),)),),
        form=form,
    )
    return replace(spec, **changes)


def count_anew(*models: type[Model]) -> None:
    """Let their primary keys begin anew: a rollback takes back rows, and on PostgreSQL not what counts them."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


def opened(number: int = 1, *, policy: Policy = Policy(), version: int = 1, **changes: Any) -> Case:  # noqa: B008
    """A stored case, as `services.open_case` makes it."""
    return services.open_case(case_spec(number, version=version, policy=policy, **changes))


def approving(**changes: Any) -> Answers:
    """Complete answers to FORM in favour."""
    answers = Answers(
        questions={question.key: Answer("yes") for question in FORM.questions},
        rubrics={rubric.key: RubricAnswer("adequate") for rubric in FORM.rubrics},
        verdict="approve",
    )
    return replace(answers, **changes)


def wholly_approving(**changes: Any) -> Answers:
    """Complete answers to WHOLE_FORM in favour."""
    answers = Answers(
        questions={"natural": Answer("yes"), "false": Answer("yes")},
        rubrics={rubric.key: RubricAnswer("adequate", severity="mild") for rubric in WHOLE_FORM.rubrics},
        verdict="approve",
        citations=(CITATION,),
    )
    return replace(answers, **changes)


def wholly_rejecting(code: str = "unclear", reason: str = "Nobody would ask this.", **changes: Any) -> Answers:
    """Complete answers to WHOLE_FORM against, for one of its reasons."""
    return wholly_approving(**{"verdict": "reject", "reason": reason, "reason_code": code, **changes})


def rejecting(reason: str = "Nobody would ask this.", **changes: Any) -> Answers:
    """Complete answers to FORM against, every rubric adequate."""
    return approving(**{"verdict": "reject", "reason": reason, **changes})


def finding_inadequate(note: str = "It does not mention the trap.", **changes: Any) -> Answers:
    """Complete answers to FORM against, because R1 does not meet its trap."""
    rubrics = {"R1": RubricAnswer("inadequate", note=note), "R2": RubricAnswer("adequate")}
    return rejecting(**{"reason": "The rubric misses the trap.", "rubrics": rubrics, **changes})


def correcting(wording: str, key: str = "R1", **changes: Any) -> Answers:
    """Complete answers to FORM in favour, with another wording for one rubric."""
    rubrics = {rubric.key: RubricAnswer("adequate") for rubric in FORM.rubrics}
    return approving(**{"rubrics": rubrics | {key: RubricAnswer("corrected", wording=wording)}, **changes})


def take(physician: User) -> Assignment:
    """What `claim_next` hands the physician, as who comes later finds it; there must be something."""
    assignment = claims.claim_next(physician)
    assert assignment is not None, f"nothing for {physician}"
    return Assignment.objects.select_related("case", "physician").get(pk=assignment.pk)


def send(assignment: Assignment, answers: Answers) -> Review:
    """Submit for the holder of the assignment."""
    assert assignment.physician is not None
    assert assignment.token is not None
    return services.submit(assignment.physician, assignment.pk, assignment.token, answers)


def look(assignment: Assignment, **answers: str) -> FirstLook:
    """Take the first look for the holder of the assignment; `answers` by question, 'yes' where nothing else is said."""
    assert assignment.physician is not None
    assert assignment.token is not None
    asked = assignment.case.frozen.form.first_look.questions
    given = {question.key: Answer(answers.get(question.key, "yes"), "Stiff.") for question in asked}
    return first_look.reveal(assignment.physician, assignment.pk, assignment.token, Answers(given))


def say(physician: User, *answers: Answers | Callable[[Form], Answers]) -> Assignment:
    """Take what comes next and submit each of `answers` in turn (a secondary's are two), after the first look if one is due.

    Where it is not known which case comes next, answers are made from its form.
    """
    for each in answers:
        assignment = take(physician)
        given = each if isinstance(each, Answers) else each(assignment.case.frozen.form)
        if not visibility.is_revealed(physician, assignment):
            first_look.reveal(physician, assignment.pk, assignment.token or uuid.UUID(int=0), given)
        send(assignment, given)
    return assignment


def to_secondary(primary: User, answers: Answers | None = None, **how: Any) -> Case:
    """A new case whose primary review is in."""
    case = opened(**how)
    say(primary, answers or approving())
    case.refresh_from_db()
    return case


def to_adjudication(primary: User, secondary: User, **how: Any) -> Case:
    """A new case on which the two reviewers differ."""
    case = to_secondary(primary, **how)
    say(secondary, rejecting(), rejecting())
    case.refresh_from_db()
    return case
