"""What counts as a difference between answers to one case: known answers."""

from dataclasses import replace

import pytest

from review.answers.side_by_side import ComparedLine, ReviewColumn, compare
from review.rules.questions import AddedRubric, Answer, Answers, Form, Level, RubricAnswer
from tests.review.factories import CITATION, WHOLE_FORM, wholly_approving, wholly_rejecting

SCALE = tuple(Level(value, value) for value in ("none", "mild", "moderate", "severe", "death"))
FORM = replace(WHOLE_FORM, severities=SCALE)
OWN = AddedRubric("Asks for the source.", ("A1",), "mild")
DOI = replace(CITATION, kind="doi", reference="10.1000/182", section="")


def lines(one: Answers, other: Answers, form: Form = FORM) -> tuple[list[ComparedLine], list[str]]:
    """The lines that differ, and the titles of those that agree."""
    found = compare(form, [ReviewColumn("primary", "One", one), ReviewColumn("secondary", "Other", other)])
    return list(found.differing), [line.title for line in found.agreeing]


def found_on(value: str = "adequate", severity: str = "mild", **more: str) -> Answers:
    """Approving, with this finding on the first rubric."""
    answers = wholly_approving()
    return replace(answers, rubrics={**answers.rubrics, "R1": RubricAnswer(value, severity=severity, **more)})


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [("moderate", "severe", 1), ("severe", "moderate", 1), ("none", "death", 4), ("mild", "severe", 2)],
)
def test_harm_differs_by_level(one: str, other: str, apart: int) -> None:
    [line], _ = lines(found_on(severity=one), found_on(severity=other))
    assert (line.title, line.apart) == (FORM.rubrics[0].criterion, apart)
    assert [cell.value for cell in line.cells] == [f"Adequate · harm: {one}", f"Adequate · harm: {other}"]


@pytest.mark.parametrize(
    ("one", "other", "title"),
    [
        (wholly_approving(), wholly_rejecting(), "Verdict"),
        (wholly_rejecting("unclear"), wholly_rejecting("disputed"), "Verdict"),
        (
            wholly_approving(),
            wholly_approving(questions={"natural": Answer("no"), "false": Answer("yes")}),
            "Natural",
        ),
        (found_on(), found_on("removed"), FORM.rubrics[0].criterion),
        (
            found_on("corrected", wording="Says so."),
            found_on("corrected", wording="Says it."),
            FORM.rubrics[0].criterion,
        ),
        (wholly_approving(), wholly_approving(citations=(DOI,)), "Evidence"),
        (wholly_approving(), wholly_approving(citations=()), "Evidence"),
        (wholly_approving(), wholly_approving(citations=(CITATION, DOI)), "Evidence"),
        (wholly_approving(), wholly_approving(added=(OWN,)), "Rubrics added"),
        (
            wholly_approving(added=(OWN,)),
            wholly_approving(added=(replace(OWN, severity="death"),)),
            "Rubrics added",
        ),
        (wholly_approving(added=(OWN,)), wholly_approving(added=(replace(OWN, tags=("C2",)),)), "Rubrics added"),
    ],
)
def test_every_answer_counts_as_a_difference(one: Answers, other: Answers, title: str) -> None:
    for first, second in ((one, other), (other, one)):
        differing, agreeing = lines(first, second)
        assert [line.title for line in differing] == [title]
        assert title not in agreeing


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (wholly_approving(), wholly_approving()),
        (wholly_approving(reason="Well made."), wholly_approving(reason="Nothing to add.")),
        (found_on(note="Clear."), found_on(note="Plain.")),
        # Harm that was chosen before the rubric was taken away counts no longer.
        (found_on("removed", severity="mild"), found_on("removed", severity="death")),
        (
            wholly_approving(citations=(DOI,)),
            wholly_approving(citations=(replace(DOI, kind="url", reference="https://doi.org/10.1000/182"),)),
        ),
        (wholly_approving(citations=(CITATION, DOI)), wholly_approving(citations=(DOI, CITATION))),
        (wholly_approving(added=(OWN,)), wholly_approving(added=(replace(OWN, criterion="asks for  the source."),))),
    ],
)
def test_words_of_explanation_and_ways_of_writing_do_not(one: Answers, other: Answers) -> None:
    assert lines(one, other)[0] == []
