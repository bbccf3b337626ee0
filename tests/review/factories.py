"""Accounts, cases and answers for the tests of review; their forms belong to no benchmark."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.management.color import no_style
from django.db import connection
from django.db.models import Model

from review.access import visibility
from review.assignments import case_queue, claims, first_look, services
from review.cases import services as cases_services
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
from review.rules.state_machine import Policy, Position, position
from review.turns.turn import ReviewTurn, counted_reviews, turn_of

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

# Uses every feature of a form: a first look, evidence, a harm scale, coded reasons for rejections
# and dissents, rubrics that physicians add and remove, labels for highlights.
FULL_FORM = Form(
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
FIRST_LOOK_POLICY = Policy(reveal_first_look=True)
FIRST_LOOK_BLOCKS = (Dialogue("As a model sees it", (Turn("user", "May I take Neurostatin tonight?"),)),)
CITATION = Citation("guideline", "Invented guideline", "2.1", "There is no such drug.", "2020-01-15")


def account(username: str, role: UserRole = UserRole.PHYSICIAN, **fields: Any) -> User:
    """A stored account whose password is PASSWORD."""
    return User.objects.create_user(username, password=PASSWORD, role=role, **fields)


def case_spec(number: int = 1, *, version: int = 1, form: Form = FORM, **changes: Any) -> CaseSpec:
    """One version of sample `number` of a made-up benchmark; `changes` are fields of CaseSpec."""
    spec = CaseSpec(
        benchmark="invented",
        lineage=f"invented-{number:06}",
        version=version,
        title=f"Case {number}",
        blocks=(Dialogue("Conversation", (Turn("user", "May I take Neurostatin?"),)),),
        form=form,
    )
    return replace(spec, **changes)


def reset_sequences(*models: type[Model]) -> None:
    """Restart the primary keys of `models`, which have no rows.

    PostgreSQL rolls back rows, but not sequences; SQLite keeps those of deleted rows.
    """
    tables = [model._meta.db_table for model in models]
    sequences = [{"table": table, "column": "id"} for table in tables]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_by_name_sql(no_style(), sequences):
            cursor.execute(statement)
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


def open_case(number: int = 1, *, policy: Policy = Policy(), version: int = 1, **changes: Any) -> Case:  # noqa: B008
    """Store a case through `cases_services.open_case`; `changes` are fields of CaseSpec."""
    return cases_services.open_case(case_spec(number, version=version, policy=policy, **changes))


def approval(**changes: Any) -> Answers:
    """Complete answers to FORM that approve."""
    answers = Answers(
        questions={question.key: Answer("yes") for question in FORM.questions},
        rubrics={rubric.key: RubricAnswer("adequate") for rubric in FORM.rubrics},
        verdict="approve",
    )
    return replace(answers, **changes)


def full_approval(**changes: Any) -> Answers:
    """Complete answers to FULL_FORM that approve."""
    answers = Answers(
        questions={"natural": Answer("yes"), "false": Answer("yes")},
        rubrics={rubric.key: RubricAnswer("adequate", severity="mild") for rubric in FULL_FORM.rubrics},
        verdict="approve",
        citations=(CITATION,),
    )
    return replace(answers, **changes)


def full_rejection(code: str = "unclear", reason: str = "Nobody would ask this.", **changes: Any) -> Answers:
    """Complete answers to FULL_FORM that reject, for one of its reasons."""
    return full_approval(**{"verdict": "reject", "reason": reason, "reason_code": code, **changes})


def rejection(reason: str = "Nobody would ask this.", **changes: Any) -> Answers:
    """Complete answers to FORM that reject, with every rubric adequate."""
    return approval(**{"verdict": "reject", "reason": reason, **changes})


def inadequate_rubric(note: str = "It does not mention the trap.", **changes: Any) -> Answers:
    """Complete answers to FORM that reject, because R1 does not meet its trap."""
    rubrics = {"R1": RubricAnswer("inadequate", note=note), "R2": RubricAnswer("adequate")}
    return rejection(**{"reason": "The rubric misses the trap.", "rubrics": rubrics, **changes})


def correction(wording: str, key: str = "R1", **changes: Any) -> Answers:
    """Complete answers to FORM that approve, with another wording for one rubric."""
    rubrics = {rubric.key: RubricAnswer("adequate") for rubric in FORM.rubrics}
    return approval(**{"rubrics": rubrics | {key: RubricAnswer("corrected", wording=wording)}, **changes})


def claim(physician: User) -> Assignment:
    """Claim the next assignment and load it again from the database; fails if there is none."""
    assignment = claims.claim_next(physician)
    assert assignment is not None, f"no case to claim for {physician}"
    return Assignment.objects.select_related("case", "physician").get(pk=assignment.pk)


def count_available(physician: User) -> int:
    """How many cases the physician could take now."""
    return sum(work.cases for work in case_queue.available_work(physician))


def turn_at(physician: User, assignment: Assignment) -> ReviewTurn:
    """The turn that a posted form is about, as it is now: also at an assignment that was lost."""
    return turn_of(physician, assignment.pk, own=False)


def submit(assignment: Assignment, answers: Answers) -> Review:
    """Submit `answers` on behalf of the assignment's holder."""
    assert assignment.physician is not None
    assert assignment.token is not None
    return services.submit(turn_at(assignment.physician, assignment), assignment.token, answers)


def take_first_look(assignment: Assignment, **answers: str) -> FirstLook | None:
    """Take the first look on behalf of the assignment's holder.

    `answers` by the key of the question; every other question is answered 'yes'.
    """
    assert assignment.physician is not None
    assert assignment.token is not None
    questions = assignment.case.frozen.form.first_look.questions
    answered = {question.key: Answer(answers.get(question.key, "yes"), "Stiff.") for question in questions}
    return first_look.reveal(turn_at(assignment.physician, assignment), assignment.token, Answers(answered)).first_look


def claim_and_submit(physician: User, *answers: Answers | Callable[[Form], Answers]) -> Assignment:
    """Claim and submit once for each of `answers` (a secondary submits two), first looks included.

    A function in place of answers makes them from the form of whichever case was claimed.
    Returns the last assignment.
    """
    for answers_or_factory in answers:
        assignment = claim(physician)
        if isinstance(answers_or_factory, Answers):
            completed = answers_or_factory
        else:
            completed = answers_or_factory(assignment.case.frozen.form)
        if not ReviewTurn(physician, assignment).is_revealed:
            first_look.reveal(turn_at(physician, assignment), assignment.token or uuid.UUID(int=0), completed)
        submit(assignment, completed)
    return assignment


def case_in_secondary(primary: User, answers: Answers | None = None, **changes: Any) -> Case:
    """A new case whose primary review has been submitted; `changes` as in `open_case`."""
    case = open_case(**changes)
    claim_and_submit(primary, answers or approval())
    case.refresh_from_db()
    return case


def case_in_adjudication(primary: User, secondary: User, **changes: Any) -> Case:
    """A new case on which primary and secondary disagree; `changes` as in `open_case`."""
    case = case_in_secondary(primary, **changes)
    claim_and_submit(secondary, rejection(), rejection())
    case.refresh_from_db()
    return case


def replayed(case: Case) -> Position:
    """Where a case stands by its reviews, as the state machine says."""
    reviews = list(counted_reviews().filter(case=case).order_by("id"))
    return position(case.frozen.policy, visibility.opinions(case, reviews))
