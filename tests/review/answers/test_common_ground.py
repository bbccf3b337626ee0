"""Adjudicators are asked where the reviews differ; where they agree, answers are filled in.

What an adjudicator has typed is never replaced.
"""

from dataclasses import replace

import pytest
from django.urls import reverse

from review.models import Review, User
from review.rules.questions import Answer, Answers, RubricAnswer
from review.turns.common_ground import agreed_fields, common_answers, fill_in
from tests.review.factories import (
    FORM,
    FULL_FORM,
    approval,
    case_in_adjudication,
    case_in_secondary,
    claim,
    full_approval,
    rejection,
)
from tests.review.pages import Browse, Elements, checked_value, post, refused_page, text_of

FIRST = full_approval()
SECOND = replace(
    FIRST,
    questions={**FIRST.questions, "natural": Answer("no", "Stiff.")},
    rubrics={**FIRST.rubrics, "R2": RubricAnswer("adequate", severity="death")},
    verdict="reject",
)


@pytest.mark.plain
def test_common_answers_leave_out_the_first_look_and_the_verdict() -> None:
    ground = common_answers(FULL_FORM, [FIRST, SECOND])
    assert set(ground.questions) == {"false"}
    assert ground.rubrics == {"R1": FIRST.rubrics["R1"], "R2": RubricAnswer("adequate")}, (
        "they differ in the harm, so it is asked"
    )
    assert (ground.citations, ground.verdict) == (FIRST.citations, "")


@pytest.mark.plain
def test_typed_answers_are_not_replaced() -> None:
    ground = common_answers(FULL_FORM, [FIRST, SECOND])
    typed = Answers(rubrics={"R1": RubricAnswer("inadequate", note="No.")})
    answers = fill_in(typed, ground)
    assert answers.rubrics["R1"].value == "inadequate"
    assert answers.questions["false"] == Answer("yes")
    assert agreed_fields(FULL_FORM, answers, ground) == {"question.false", "rubric.R2"}


def test_the_adjudicator_answers_what_differs_and_confirms_the_rest(
    browse: Browse, ana: User, bo: User, chen: User
) -> None:
    case_in_adjudication(ana, bo)
    page = browse(chen).get(reverse("review:case", args=[claim(chen).pk]))
    assert [attrs.get("value") for attrs in Elements(page).named("agreed")] == ["1"]
    assert {checked_value(page, f"question.{question.key}") for question in FORM.questions} == {"yes"}
    assert checked_value(page, "verdict") is None


def test_filled_in_answers_must_be_confirmed_once_even_without_a_script(
    browse: Browse, ana: User, bo: User, chen: User
) -> None:
    case_in_adjudication(ana, bo)
    assignment, client = claim(chen), browse(chen)
    refused = refused_page(client, post(client, "submit", assignment, approval()))
    assert 'href="#agreed"' in text_of(refused)
    assert not Review.objects.filter(physician=chen).exists()
    again = refused_page(client, post(client, "submit", assignment, approval(verdict=""), agreed="1", revision="1"))
    assert "checked" in Elements(again).named("agreed")[0], "the confirmation is kept"
    post(client, "submit", assignment, approval(), agreed="1", revision="2")
    assert Review.objects.filter(physician=chen).exists()


def test_the_confirmation_is_kept_where_another_window_has_saved(
    browse: Browse, ana: User, bo: User, chen: User
) -> None:
    case_in_adjudication(ana, bo)
    assignment, client = claim(chen), browse(chen)
    post(client, "draft", assignment, approval())
    stale = post(client, "draft", assignment, approval(), agreed="1")
    assert stale.status_code == 409
    assert "checked" in Elements(stale).named("agreed")[0]


def test_a_blind_reviewer_gets_no_filled_in_answers(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana, rejection())
    page = browse(bo).get(reverse("review:case", args=[claim(bo).pk]))
    assert not Elements(page).named("agreed")
    assert checked_value(page, "question.natural") is None
    assert approval().verdict == "approve"
