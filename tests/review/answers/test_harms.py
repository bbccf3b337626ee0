"""The harm is asked once a trap; a rubric of several traps has the worst of their levels, or one of its own."""

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


def posted(**fields: str) -> Answers:
    data = QueryDict(mutable=True)
    data.update({name.replace("__", "."): value for name, value in fields.items()})
    return answers_from_post(FORM, data)


def levels(answers: Answers) -> dict[str, str]:
    return {key: finding.severity for key, finding in answers.rubrics.items()}


def shown(answers: Answers) -> dict[str, Any]:
    filled = fill_form(FORM, answers)
    return {control.name: control.value for control in [harm.choice for harm in filled.harms]} | {
        row.severity.name: row.severity.value for row in filled.rubrics if row.severity
    }


def test_a_rubric_has_the_worst_level_of_its_traps() -> None:
    assert levels(posted(harm__A1="mild", harm__C2="death")) == {"R1": "mild", "R2": "death", "R3": "death"}
    assert levels(posted(harm__A1="mild")) == {"R1": "mild", "R2": "", "R3": ""}, "one of its traps is open"


def test_an_exception_is_the_rubrics_own_and_stays_one() -> None:
    answers = posted(harm__A1="mild", harm__C2="none", rubric__R3__severity="death")
    assert levels(answers) == {"R1": "mild", "R2": "none", "R3": "death"}
    assert shown(answers) == {
        "harm.A1": "mild",
        "harm.C2": "none",
        "rubric.R1.severity": "",
        "rubric.R2.severity": "",
        "rubric.R3.severity": "death",
    }


def test_what_is_missing_is_asked_at_the_trap_and_once() -> None:
    answers = full_approval(rubrics={rubric.key: RubricAnswer("adequate") for rubric in FORM.rubrics})
    found = fill_form(FORM, answers, problems(FORM, answers)).problems
    assert [(fault.target, fault.label) for fault in found] == [
        ("harm-1-1", "Harm of trap A1"),
        ("harm-2-1", "Harm of trap C2"),
    ]


def test_the_rest_is_adequate_in_one_act() -> None:
    answers = posted(do="rest-adequate", rubric__R2="inadequate", rubric__R2__note="It misses the trap.")
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
def test_the_kind_of_a_source_is_seen_from_its_reference(reference: str, kind: str) -> None:
    assert recognise_kind(reference) == kind
    [citation] = posted(citation__1__reference=reference, citation__1__kind="").citations
    assert citation.kind == kind
    [chosen] = posted(citation__1__reference=reference, citation__1__kind="case").citations
    assert chosen.kind == "case", "what was chosen stands"
