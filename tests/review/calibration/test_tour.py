"""The tour: a practice case with explained answers, in both languages; it stores nothing."""

from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation

from generation.recipes import registry
from review.calibration import practice
from review.models import Assignment, Case, Draft, Event, FirstLook, PersonEvent, Review, User
from review.rules.questions import Answer, Answers, RubricAnswer, opinion, problems
from review.rules.state_machine import Phase, Role
from tests.review.approve import evidence_of
from tests.review.factories import FULL_FORM, claim, full_approval, open_case, submit

CORRECT = {
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


def row_counts() -> list[int]:
    """The number of rows of each model that review writes."""
    return [model._default_manager.count() for model in STORED]


def case_page(benchmark: str = "mhb") -> str:
    return reverse("review:tour-case", args=[benchmark])


@pytest.mark.plain
@pytest.mark.parametrize("benchmark", practice.names())
@pytest.mark.parametrize("language", [code for code, _name in settings.LANGUAGES])
def test_every_term_has_an_example_and_every_answer_is_explained(benchmark: str, language: str) -> None:
    with translation.override(language):
        case = practice.practice(benchmark)
        assert case is not None
        terms = registry.built_in_terms(benchmark)
        planted = [term.code for term in terms if term.parent] or [term.code for term in terms]
        assert [kind.code for kind in case.kinds] == planted or not terms, (
            "without a taxonomy any kinds may be explained"
        )
        assert case.kinds
        assert all(kind.example and kind.definition for kind in case.kinds)
        lines = practice.explain_answers(case, case.expected)
        assert all(line.why and line.right in (True, None) for line in lines)
        assert case.spec.language == language


@pytest.mark.plain
def test_the_languages_share_no_text() -> None:
    with translation.override("zh-hans"):
        chinese = practice.practice("mhb")
    with translation.override("en"):
        english = practice.practice("mhb")
    assert chinese is not None
    assert english is not None
    texts = [[*case.about, *case.why.values(), *(kind.example for kind in case.kinds)] for case in (chinese, english)]
    assert not set(texts[0]) & set(texts[1])


@pytest.mark.plain
def test_the_expected_answers_could_be_submitted() -> None:
    """Completed with the fields that the tour leaves out: notes, wordings, harm and sources."""
    case = practice.practice("mhb")
    assert case is not None
    answers = Answers(
        questions={**case.expected.questions, "naturalness": Answer("3"), "noticed": Answer("no")},
        rubrics={
            key: RubricAnswer(finding.value, "Gives no dose.", "Tests nothing.", "mild")
            for key, finding in case.expected.rubrics.items()
        },
        verdict=case.expected.verdict,
        citations=evidence_of(case.spec.form),
    )
    assert problems(case.spec.form, answers) == []
    assert not opinion(case.spec.form, answers, Role.PRIMARY, Phase.COMMIT).inadequate


def test_the_first_step_does_not_reveal_the_trap(client: Client, ana: User) -> None:
    client.force_login(ana)
    page = client.get(case_page()).content.decode()
    assert "Which dose of Neurostatin" in page
    assert "No register of medicines" not in page
    assert "Factual Correctness" not in page
    assert "must say that Neurostatin" not in page


def test_the_tour_can_be_completed_and_stores_nothing(client: Client, ana: User) -> None:
    client.force_login(ana)
    before = row_counts()
    assert client.get(reverse("review:tour")).status_code == 200
    first_answers = {name: CORRECT[name] for name in ("question.naturalness", "question.noticed")}
    second = client.post(case_page(), first_answers)
    assert second.status_code == 200
    assert b"No register of medicines" in second.content
    missing = client.post(case_page(), {**first_answers, "verdict_asked": "1"})
    assert missing.status_code == 422
    answered: Any = client.post(case_page(), {**CORRECT, "rubric.R3": "inadequate"})
    assert (answered.context["right"], answered.context["asked"]) == (6, 7)
    assert "Add at least one source" in answered.content.decode(), "what a real case asks for besides"
    assert client.post(case_page(), CORRECT).context["right"] == 7
    assert row_counts() == before


def test_a_benchmark_without_a_first_look_asks_everything_at_once(client: Client, ana: User) -> None:
    client.force_login(ana)
    assert b"question.category" in client.get(case_page("medhallu")).content
    answers = {"question.wrong": "yes", "question.plausible": "3", "question.category": "fits", "verdict": "approve"}
    answered: Any = client.post(case_page("medhallu"), {**answers, "verdict_asked": "1"})
    assert (answered.context["right"], answered.context["asked"]) == (1, 3)
    assert client.get(case_page("invented")).status_code == 404


def test_the_workbench_offers_the_tour_to_newcomers(client: Client, ana: User) -> None:
    client.force_login(ana)
    tour = reverse("review:tour").encode()
    assert tour in client.get(reverse("review:workbench")).content
    open_case(form=FULL_FORM)
    submit(claim(ana), full_approval())
    assert tour not in client.get(reverse("review:workbench")).content
    assert tour in client.get(reverse("review:guidelines")).content


def test_a_new_reviewers_workbench_leads_to_the_tour_of_the_work_that_waits(client: Client, ana: User) -> None:
    client.force_login(ana)
    workbench = reverse("review:workbench")
    assert f'href="{reverse("review:tour")}"' in client.get(workbench).content.decode()
    open_case(1, benchmark="medhal")
    assert f'href="{reverse("review:tour", args=["medhal"])}"' in client.get(workbench).content.decode()
