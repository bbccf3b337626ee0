"""An adjudicator is asked what differs; the rest is filled in from where both agree, and what was typed stands."""

from dataclasses import replace

import pytest
from django.urls import reverse

from review.answers.common_ground import agreed, common, filled
from review.models import Review, User
from review.rules.questions import Answer, Answers, RubricAnswer
from tests.review.factories import (
    FORM,
    WHOLE_FORM,
    approving,
    rejecting,
    take,
    to_adjudication,
    to_secondary,
    wholly_approving,
)
from tests.review.pages import Elements, Open, checked, post, text_of

ONE = wholly_approving()
OTHER = replace(
    ONE,
    questions={**ONE.questions, "natural": Answer("no", "Stiff.")},
    rubrics={**ONE.rubrics, "R2": RubricAnswer("adequate", severity="death")},
    verdict="reject",
)


@pytest.mark.plain
def test_what_both_say_is_common_and_the_first_look_and_the_verdict_are_not() -> None:
    ground = common(WHOLE_FORM, [ONE, OTHER])
    assert set(ground.questions) == {"false"}
    assert ground.rubrics == {"R1": ONE.rubrics["R1"], "R2": RubricAnswer("adequate")}, (
        "the harm they differ in is asked"
    )
    assert (ground.citations, ground.verdict) == (ONE.citations, "")


@pytest.mark.plain
def test_what_was_typed_stands() -> None:
    ground = common(WHOLE_FORM, [ONE, OTHER])
    typed = Answers(rubrics={"R1": RubricAnswer("inadequate", note="No.")})
    answers = filled(typed, ground)
    assert answers.rubrics["R1"].value == "inadequate"
    assert answers.questions["false"] == Answer("yes")
    assert agreed(WHOLE_FORM, answers, ground) == {"question.false", "rubric.R2"}


def test_the_adjudicator_is_asked_what_differs_and_confirms_the_rest(
    browse: Open, ana: User, bo: User, chen: User
) -> None:
    to_adjudication(ana, bo)
    page = browse(chen).get(reverse("review:case", args=[take(chen).pk]))
    assert [attrs.get("value") for attrs in Elements(page).named("agreed")] == ["1"]
    assert {checked(page, f"question.{question.key}") for question in FORM.questions} == {"yes"}
    assert checked(page, "verdict") is None


def test_without_a_script_too_what_was_filled_in_is_confirmed_once(
    browse: Open, ana: User, bo: User, chen: User
) -> None:
    to_adjudication(ana, bo)
    mine, client = take(chen), browse(chen)
    refused = post(client, "submit", mine, approving())
    assert refused.status_code == 422
    assert 'href="#agreed"' in text_of(refused)
    assert not Review.objects.filter(physician=chen).exists()
    again = post(client, "submit", mine, approving(verdict=""), agreed="1")
    assert again.status_code == 422
    assert "checked" in Elements(again).named("agreed")[0], "what was confirmed stays so"
    assert post(client, "submit", mine, approving(), agreed="1").status_code == 302
    assert Review.objects.filter(physician=chen).exists()


def test_who_answers_blind_is_shown_nothing_of_it(browse: Open, ana: User, bo: User) -> None:
    to_secondary(ana, rejecting())
    page = browse(bo).get(reverse("review:case", args=[take(bo).pk]))
    assert not Elements(page).named("agreed")
    assert checked(page, "question.natural") is None
    assert approving().verdict == "approve"
