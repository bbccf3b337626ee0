"""An adjudicator is asked what differs; the rest is filled in from where both agree, and what was typed stands."""

from dataclasses import replace

import pytest
from django.urls import reverse

from review.answers.common_ground import agreed_fields, common_answers, fill_in
from review.models import Review, User
from review.rules.questions import Answer, Answers, RubricAnswer
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
from tests.review.pages import Browse, Elements, checked_value, post, text_of

ONE = full_approval()
OTHER = replace(
    ONE,
    questions={**ONE.questions, "natural": Answer("no", "Stiff.")},
    rubrics={**ONE.rubrics, "R2": RubricAnswer("adequate", severity="death")},
    verdict="reject",
)


@pytest.mark.plain
def test_what_both_say_is_common_and_the_first_look_and_the_verdict_are_not() -> None:
    ground = common_answers(FULL_FORM, [ONE, OTHER])
    assert set(ground.questions) == {"false"}
    assert ground.rubrics == {"R1": ONE.rubrics["R1"], "R2": RubricAnswer("adequate")}, (
        "the harm they differ in is asked"
    )
    assert (ground.citations, ground.verdict) == (ONE.citations, "")


@pytest.mark.plain
def test_what_was_typed_stands() -> None:
    ground = common_answers(FULL_FORM, [ONE, OTHER])
    typed = Answers(rubrics={"R1": RubricAnswer("inadequate", note="No.")})
    answers = fill_in(typed, ground)
    assert answers.rubrics["R1"].value == "inadequate"
    assert answers.questions["false"] == Answer("yes")
    assert agreed_fields(FULL_FORM, answers, ground) == {"question.false", "rubric.R2"}


def test_the_adjudicator_is_asked_what_differs_and_confirms_the_rest(
    browse: Browse, ana: User, bo: User, chen: User
) -> None:
    case_in_adjudication(ana, bo)
    page = browse(chen).get(reverse("review:case", args=[claim(chen).pk]))
    assert [attrs.get("value") for attrs in Elements(page).named("agreed")] == ["1"]
    assert {checked_value(page, f"question.{question.key}") for question in FORM.questions} == {"yes"}
    assert checked_value(page, "verdict") is None


def test_without_a_script_too_what_was_filled_in_is_confirmed_once(
    browse: Browse, ana: User, bo: User, chen: User
) -> None:
    case_in_adjudication(ana, bo)
    mine, client = claim(chen), browse(chen)
    refused = post(client, "submit", mine, approval())
    assert refused.status_code == 422
    assert 'href="#agreed"' in text_of(refused)
    assert not Review.objects.filter(physician=chen).exists()
    again = post(client, "submit", mine, approval(verdict=""), agreed="1")
    assert again.status_code == 422
    assert "checked" in Elements(again).named("agreed")[0], "what was confirmed stays so"
    assert post(client, "submit", mine, approval(), agreed="1").status_code == 302
    assert Review.objects.filter(physician=chen).exists()


def test_who_answers_blind_is_shown_nothing_of_it(browse: Browse, ana: User, bo: User) -> None:
    case_in_secondary(ana, rejection())
    page = browse(bo).get(reverse("review:case", args=[claim(bo).pk]))
    assert not Elements(page).named("agreed")
    assert checked_value(page, "question.natural") is None
    assert approval().verdict == "approve"
