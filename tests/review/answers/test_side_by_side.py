"""What counts as a difference between two answers to one case."""

from dataclasses import replace

import pytest

from review.answers.side_by_side import ComparedLine, ReviewColumn, compare
from review.rules.questions import AddedRubric, Answer, Answers, Citation, Form, Level, Question, RubricAnswer
from tests.review.factories import CITATION, FULL_FORM, full_approval, full_rejection

SCALE = tuple(Level(value, value) for value in ("none", "mild", "moderate", "severe", "death"))
FORM = replace(FULL_FORM, severities=SCALE)
ADDED = AddedRubric("Asks for the source.", ("A1",), "mild")
DOI = replace(CITATION, kind="doi", reference="10.1000/182", section="")


def lines(one: Answers, other: Answers, form: Form = FORM) -> tuple[list[ComparedLine], list[str]]:
    """The lines that differ, and the titles of the lines that agree."""
    comparison = compare(form, [ReviewColumn("primary", "One", one), ReviewColumn("secondary", "Other", other)])
    return list(comparison.differing), [line.title for line in comparison.agreeing]


def approval_finding(value: str = "adequate", severity: str = "mild", **more: str) -> Answers:
    """An approval with this finding on the first rubric."""
    answers = full_approval()
    return replace(answers, rubrics={**answers.rubrics, "R1": RubricAnswer(value, severity=severity, **more)})


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [("moderate", "severe", 1), ("severe", "moderate", 1), ("none", "death", 4), ("mild", "severe", 2)],
)
def test_harm_gap_is_the_number_of_levels(one: str, other: str, apart: int) -> None:
    [line], _ = lines(approval_finding(severity=one), approval_finding(severity=other))
    assert (line.title, line.harm_gap) == (FORM.rubrics[0].criterion, apart)
    assert [cell.value for cell in line.cells] == [f"Adequate · harm: {one}", f"Adequate · harm: {other}"]


@pytest.mark.parametrize(
    ("one", "other", "title"),
    [
        (full_approval(), full_rejection(), "Verdict"),
        (full_rejection("unclear"), full_rejection("disputed"), "Verdict"),
        (
            full_approval(),
            full_approval(questions={"natural": Answer("no"), "false": Answer("yes")}),
            "Natural",
        ),
        (approval_finding(), approval_finding("removed"), FORM.rubrics[0].criterion),
        (
            approval_finding("corrected", wording="Says so."),
            approval_finding("corrected", wording="Says it."),
            FORM.rubrics[0].criterion,
        ),
        (full_approval(), full_approval(added=(ADDED,)), "Rubrics added"),
        (
            full_approval(added=(ADDED,)),
            full_approval(added=(replace(ADDED, severity="death"),)),
            "Rubrics added",
        ),
        (full_approval(added=(ADDED,)), full_approval(added=(replace(ADDED, tags=("C2",)),)), "Rubrics added"),
    ],
)
def test_every_answer_counts_as_a_difference(one: Answers, other: Answers, title: str) -> None:
    for first, second in ((one, other), (other, one)):
        differing, agreeing = lines(first, second)
        assert [line.title for line in differing] == [title]
        assert title not in agreeing


@pytest.mark.parametrize("citations", [(DOI,), (), (CITATION, DOI)])
def test_sources_need_not_be_the_same(citations: tuple[Citation, ...]) -> None:
    answers = (full_approval(), full_approval(citations=citations))
    comparison = compare(FORM, [ReviewColumn("primary", str(number), one) for number, one in enumerate(answers)])
    assert [line.title for line in comparison.free] == ["Evidence"]
    assert comparison.differing == ()
    assert comparison.unlike == comparison.free


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (full_approval(), full_approval()),
        (full_approval(reason="Well made."), full_approval(reason="Nothing to add.")),
        (approval_finding(note="Clear."), approval_finding(note="Plain.")),
        # The harm that was chosen before a rubric was removed no longer counts.
        (approval_finding("removed", severity="mild"), approval_finding("removed", severity="death")),
        (
            full_approval(citations=(DOI,)),
            full_approval(citations=(replace(DOI, kind="url", reference="https://doi.org/10.1000/182"),)),
        ),
        (full_approval(citations=(CITATION, DOI)), full_approval(citations=(DOI, CITATION))),
        (full_approval(added=(ADDED,)), full_approval(added=(replace(ADDED, criterion="asks for  the source."),))),
    ],
)
def test_explanations_and_spelling_do_not_count_as_differences(one: Answers, other: Answers) -> None:
    assert lines(one, other)[0] == []


def test_a_question_that_nobody_was_asked_or_answered_is_left_out() -> None:
    optional = Question(
        "corrected", "Corrected", "", (), kind="text", compared=False, required=False, when="natural=no"
    )
    form = replace(FORM, questions=(*FORM.questions, optional))
    written = full_approval()
    written = replace(written, questions={**written.questions, "corrected": Answer(note="It shows a spot.")})
    for second, shown in ((full_approval(), []), (written, ["Corrected"])):
        columns = [ReviewColumn("primary", "One", full_approval()), ReviewColumn("secondary", "Other", second)]
        titles = [line.title for line in compare(form, columns).free]
        assert [title for title in titles if title == "Corrected"] == shown
