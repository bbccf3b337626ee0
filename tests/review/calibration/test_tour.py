"""The tour: a practice case with explained answers, in both languages; it stores nothing."""

from typing import Any
from urllib.parse import urlencode

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

FIRST_LOOK = {"question.naturalness": "3", "question.noticed": "no"}
CORRECT = {
    "question.factual:A1": "met",
    "citation.1.trap": "A1",
    "citation.1.kind": "search",
    "citation.1.level": "search",
    "citation.1.reference": "Register of medicines",
    "citation.1.passage": "Neurostatin",
    "citation.1.read_on": "2026-01-31",
    "question.coherence": "met",
    "question.alignment": "met",
    "rubric.R1": "adequate",
    "rubric.R2": "corrected",
    "rubric.R2.wording": "The response must not give a dose of Neurostatin.",
    "rubric.R3": "removed",
    "rubric.R3.note": "It tests nothing.",
    "harm.A1": "mild",
    "verdict": "approve",
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


def whole_case(**first_look: str) -> str:
    return f"{case_page()}?{urlencode({**FIRST_LOOK, **first_look})}"


def test_the_tour_can_be_completed_and_stores_nothing(client: Client, ana: User) -> None:
    client.force_login(ana)
    before = row_counts()
    assert client.get(reverse("review:tour")).status_code == 200
    assert client.get(whole_case(**{"question.noticed": ""})).status_code == 422
    second = client.get(whole_case())
    assert second.status_code == 200
    assert b"No register of medicines" in second.content
    answered: Any = client.post(whole_case(), {**CORRECT, "rubric.R3": "inadequate", "verdict": "reject"} | REASON)
    assert (answered.context["right"], answered.context["asked"]) == (5, 7)
    answered = client.post(whole_case(), CORRECT)
    assert answered.context["right"] == answered.context["asked"] == 7
    for shown in (
        CORRECT["rubric.R2.wording"],
        CORRECT["citation.1.reference"],
        "by a search without result",
        "3, natural",
    ):
        assert shown in answered.content.decode()
    assert row_counts() == before


REASON = {"reason_code": "misaligned", "reason": "It tests salt."}


@pytest.mark.parametrize(
    ("left_out", "target"),
    [
        ("citation.1.reference", "citation-1-reference"),
        ("rubric.R2.wording", "rubric-2-wording"),
        ("rubric.R3.note", "rubric-3-note"),
        ("harm.A1", "harm-1-1"),
        ("verdict", "verdict-1"),
    ],
)
def test_the_tour_rehearses_all_that_a_real_case_asks(client: Client, ana: User, left_out: str, target: str) -> None:
    client.force_login(ana)
    page: Any = client.post(whole_case(), {name: value for name, value in CORRECT.items() if name != left_out})
    assert page.status_code == 422
    [problem] = page.context["sheet"].problems
    assert problem.target == target
    assert f'id="{target}"' in page.content.decode()


def test_rows_of_the_practice_case_come_and_go_without_a_script(client: Client, ana: User) -> None:
    client.force_login(ana)
    page: Any = client.post(whole_case(), {**CORRECT, "do": "add-citation"})
    assert page.status_code == 200
    assert len(page.context["sheet"].citations) == 2
    shown: Any = client.get(f"{case_page()}?question.noticed=no&do=add-highlight")
    assert shown.status_code == 200
    assert len(shown.context["sheet"].highlights) == 1


def test_a_benchmark_without_a_first_look_asks_everything_at_once(client: Client, ana: User) -> None:
    client.force_login(ana)
    assert b"question.category" in client.get(case_page("medhallu")).content
    answers = {
        "question.wrong": "no",
        "question.wrong.note": "Nothing says so.",
        "question.plausible": "3",
        "question.category": "fits",
        "verdict": "reject",
        "reason_code": "category",
        "reason": "Another category.",
    }
    answered: Any = client.post(case_page("medhallu"), answers)
    assert (answered.context["right"], answered.context["asked"]) == (2, 4)
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
