"""Harm is asked once per trap; a rubric has the worst level of its traps, or a level of its own."""

from dataclasses import replace
from typing import Any

import pytest
from django.http import QueryDict

from review.answers.answer_form import fill_form
from review.answers.posted_answers import answers_from_post
from review.rules.citations import recognise_kind
from review.rules.questions import Answers, RubricAnswer, RubricText, problems
from tests.review.factories import FULL_FORM, full_approval

pytestmark = pytest.mark.plain

FORM = replace(FULL_FORM, rubrics=(*FULL_FORM.rubrics, RubricText("R3", "Names both.", ("A1", "C2"))))


def posted_answers(**fields: str) -> Answers:
    data = QueryDict(mutable=True)
    data.update({name.replace("__", "."): value for name, value in fields.items()})
    return answers_from_post(FORM, data)


def levels(answers: Answers) -> dict[str, str]:
    return {key: finding.severity for key, finding in answers.rubrics.items()}


def shown_levels(answers: Answers) -> dict[str, Any]:
    filled = fill_form(FORM, answers)
    return {control.name: control.value for control in [harm.choice for harm in filled.harms]} | {
        row.severity.name: row.severity.value for row in filled.rubrics if row.severity
    }


def test_a_rubric_has_the_worst_level_of_its_traps() -> None:
    assert levels(posted_answers(harm__A1="mild", harm__C2="death")) == {"R1": "mild", "R2": "death", "R3": "death"}
    assert levels(posted_answers(harm__A1="mild")) == {"R1": "mild", "R2": "", "R3": ""}, (
        "the level of one of its traps is missing"
    )


def test_a_rubrics_own_level_is_kept() -> None:
    answers = posted_answers(harm__A1="mild", harm__C2="none", rubric__R3__severity="death")
    assert levels(answers) == {"R1": "mild", "R2": "none", "R3": "death"}
    assert shown_levels(answers) == {
        "harm.A1": "mild",
        "harm.C2": "none",
        "rubric.R1.severity": "",
        "rubric.R2.severity": "",
        "rubric.R3.severity": "death",
    }


def test_a_missing_level_is_reported_once_at_its_trap() -> None:
    answers = full_approval(rubrics={rubric.key: RubricAnswer("adequate") for rubric in FORM.rubrics})
    missing = fill_form(FORM, answers, problems(FORM, answers)).problems
    assert [(problem.target, problem.label) for problem in missing] == [
        ("harm-1-1", "Harm of trap A1"),
        ("harm-2-1", "Harm of trap C2"),
    ]


def test_all_other_rubrics_can_be_marked_adequate_at_once() -> None:
    answers = posted_answers(do="rest-adequate", rubric__R2="inadequate", rubric__R2__note="It misses the trap.")
    assert [answers.rubrics[key].value for key in ("R1", "R2", "R3")] == ["adequate", "inadequate", "adequate"]
    assert answers.rubrics["R2"].note == "It misses the trap."


@pytest.mark.parametrize(
    ("reference", "kind"),
    [
        ("10.1000/abc.1", "doi"),
        ("https://doi.org/10.1000/abc.1", "doi"),
        ("doi: 10.1000/abc.1", "doi"),
        ("12345678", "pmid"),
        ("PMID: 123", "pmid"),
        ("https://pubmed.ncbi.nlm.nih.gov/123/", "pmid"),
        ("https://example.org/page", "url"),
        ("National guideline 2024", "guideline"),
        ("  ", ""),
    ],
)
def test_the_kind_of_a_source_is_recognised_from_its_reference(reference: str, kind: str) -> None:
    assert recognise_kind(reference) == kind
    [citation] = posted_answers(citation__1__reference=reference, citation__1__kind="").citations
    assert citation.kind == kind
    [chosen] = posted_answers(citation__1__reference=reference, citation__1__kind="case").citations
    assert chosen.kind == "case", "a chosen kind is not replaced"
