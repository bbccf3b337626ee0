"""The tour: a practice case whose answers are explained, in both languages, of which nothing is stored."""

from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation

from generation.recipes import registry
from review.calibration import practice
from review.models import Assignment, Case, Draft, Event, FirstLook, PersonEvent, Review, User
from review.rules.questions import Answer, Answers, Citation, RubricAnswer, opinion, problems
from review.rules.state_machine import Phase, Role
from tests.review.factories import WHOLE_FORM, opened, send, take, wholly_approving

RIGHT = {
    "question.naturalness": "3",
    "question.noticed": "no",
    "question.factual": "met",
    "question.coherence": "met",
    "question.alignment": "met",
    "rubric.R1": "adequate",
    "rubric.R2": "corrected",
    "rubric.R3": "removed",
    "verdict": "approve",
    "verdict_asked": "1",
}
STORED = (Assignment, Case, Draft, Event, FirstLook, PersonEvent, Review)


def stored() -> list[int]:
    return [model._default_manager.count() for model in STORED]


def case_page(benchmark: str = "mhb") -> str:
    return reverse("review:tour-case", args=[benchmark])


@pytest.mark.plain
@pytest.mark.parametrize("benchmark", practice.names())
@pytest.mark.parametrize("language", [code for code, _name in settings.LANGUAGES])
def test_every_term_has_an_example_and_every_answer_is_explained(benchmark: str, language: str) -> None:
    with translation.override(language):
        found = practice.practice(benchmark)
        assert found is not None
        terms = registry.built_in_terms(benchmark)
        planted = [term.code for term in terms if term.parent] or [term.code for term in terms]
        assert [kind.code for kind in found.kinds] == planted or not terms, (
            "without a taxonomy: whatever tells samples apart"
        )
        assert found.kinds
        assert all(kind.example and kind.definition for kind in found.kinds)
        lines = practice.explained(found, found.expected)
        assert all(line.why and line.right in (True, None) for line in lines)
        assert found.spec.language == language


@pytest.mark.plain
def test_both_languages_have_their_own_words() -> None:
    with translation.override("zh-hans"):
        chinese = practice.practice("mhb")
    with translation.override("en"):
        english = practice.practice("mhb")
    assert chinese is not None
    assert english is not None
    texts = [[*each.about, *each.why.values(), *(kind.example for kind in each.kinds)] for each in (chinese, english)]
    assert not set(texts[0]) & set(texts[1])


@pytest.mark.plain
def test_the_known_answers_could_be_submitted() -> None:
    """With what the tour leaves out: notes, wordings, harm and sources."""
    found = practice.practice("mhb")
    assert found is not None
    answers = Answers(
        questions={**found.expected.questions, "naturalness": Answer("3"), "noticed": Answer("no")},
        rubrics={
            key: RubricAnswer(finding.value, "Gives no dose.", "Tests nothing.", "mild")
            for key, finding in found.expected.rubrics.items()
        },
        verdict=found.expected.verdict,
        citations=(Citation("doi", "10.1000/x", "", "No such drug.", "2020-01-15"),),
    )
    assert problems(found.spec.form, answers) == []
    assert not opinion(found.spec.form, answers, Role.PRIMARY, Phase.COMMIT).inadequate


def test_the_first_step_tells_of_no_trap(client: Client, ana: User) -> None:
    client.force_login(ana)
    page = client.get(case_page()).content.decode()
    assert "Which dose of Neurostatin" in page
    assert "No register of medicines" not in page
    assert "Factual Correctness" not in page
    assert "must say that Neurostatin" not in page


def test_the_tour_is_walked_and_stores_nothing(client: Client, ana: User) -> None:
    client.force_login(ana)
    before = stored()
    assert client.get(reverse("review:tour")).status_code == 200
    first = {name: RIGHT[name] for name in ("question.naturalness", "question.noticed")}
    second = client.post(case_page(), first)
    assert second.status_code == 200
    assert b"No register of medicines" in second.content
    missing = client.post(case_page(), {**first, "verdict_asked": "1"})
    assert missing.status_code == 422
    answered: Any = client.post(case_page(), {**RIGHT, "rubric.R3": "inadequate"})
    assert (answered.context["right"], answered.context["asked"]) == (6, 7)
    assert client.post(case_page(), RIGHT).context["right"] == 7
    assert stored() == before


def test_a_benchmark_without_a_first_look_asks_everything_at_once(client: Client, ana: User) -> None:
    client.force_login(ana)
    assert b"question.category" in client.get(case_page("medhallu")).content
    given = {"question.wrong": "yes", "question.plausible": "3", "question.category": "fits", "verdict": "approve"}
    answered: Any = client.post(case_page("medhallu"), {**given, "verdict_asked": "1"})
    assert (answered.context["right"], answered.context["asked"]) == (1, 3)
    assert client.get(case_page("invented")).status_code == 404


def test_the_workbench_offers_it_to_newcomers(client: Client, ana: User) -> None:
    client.force_login(ana)
    tour = reverse("review:tour").encode()
    assert tour in client.get(reverse("review:workbench")).content
    opened(form=WHOLE_FORM)
    send(take(ana), wholly_approving())
    assert tour not in client.get(reverse("review:workbench")).content
    assert tour in client.get(reverse("review:guidelines")).content
