"""Which answers are complete, and which opinion they give to the state machine."""

from dataclasses import replace
from datetime import date
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from review.rules.case_spec import answers_from_json, answers_to_json, spec_from_json, spec_to_json
from review.rules.consolidation import with_first_look
from review.rules.questions import (
    RUBRIC_VALUES,
    AddedRubric,
    Answer,
    Answers,
    Citation,
    Form,
    Problem,
    RubricAnswer,
    TrapTerm,
    differs,
    opinion,
    problems,
    question_problems,
)
from review.rules.state_machine import Opinion, Phase, Role, Verdict
from tests.profile import by_profile
from tests.review.factories import (
    CITATION,
    FORM,
    FULL_FORM,
    approval,
    case_spec,
    correction,
    full_approval,
    full_rejection,
    inadequate_rubric,
    rejection,
)

TODAY = date(2026, 3, 1)

GOOD = dict(approval().questions)
FINE = dict(approval().rubrics)
ONE_PROBLEM = [
    (approval(questions={"natural": Answer("yes")}), Problem("question.aligned", "unanswered")),
    (approval(questions=GOOD | {"natural": Answer("perhaps")}), Problem("question.natural", "unknown-value")),
    (approval(rubrics={"R1": RubricAnswer("adequate")}), Problem("rubric.R2", "unanswered")),
    (approval(rubrics=FINE | {"R2": RubricAnswer("fine")}), Problem("rubric.R2", "unknown-value")),
    (rejection(questions=GOOD | {"natural": Answer("no", " ")}), Problem("question.natural.note", "note-missing")),
    (inadequate_rubric(note="\t"), Problem("rubric.R1.note", "note-missing")),
    (correction(" "), Problem("rubric.R1.wording", "wording-missing")),
    (correction(" Says that the drug does not exist.\n"), Problem("rubric.R1.wording", "wording-unchanged")),
    (approval(verdict=""), Problem("verdict", "verdict-missing")),
    (approval(verdict="maybe"), Problem("verdict", "verdict-missing")),
    (approval(questions=GOOD | {"natural": Answer("no", "Stiff.")}), Problem("verdict", "verdict-contradicts")),
    (inadequate_rubric(verdict="approve"), Problem("verdict", "verdict-contradicts")),
    (rejection(reason="  "), Problem("reason", "reason-missing")),
    (approval(questions=GOOD | {"mood": Answer("yes")}), Problem("question.mood", "unknown-field")),
    (approval(rubrics=FINE | {"R9": RubricAnswer("adequate")}), Problem("rubric.R9", "unknown-field")),
    # what this form does not offer
    (
        approval(rubrics=FINE | {"R1": RubricAnswer("removed", note="R2 says it.")}),
        Problem("rubric.R1", "unknown-value"),
    ),
    (approval(added=(AddedRubric("Names the class.", ("A1",)),)), Problem("added", "unknown-field")),
    (
        approval(rubrics=FINE | {"R1": RubricAnswer("adequate", severity="mild")}),
        Problem("rubric.R1.severity", "unknown-value"),
    ),
]


@pytest.mark.parametrize(("answers", "problem"), ONE_PROBLEM)
def test_each_problem_is_reported_alone(answers: Answers, problem: Problem) -> None:
    assert problems(FORM, answers) == [problem]


def test_a_changed_answer_needs_a_reason() -> None:
    missing = [Problem("change_reason", "change-reason-missing")]
    assert problems(FORM, rejection(), committed=approval()) == missing
    assert problems(FORM, rejection(change_reason=" "), committed=approval()) == missing
    assert problems(FORM, rejection(change_reason="The primary is right."), committed=approval()) == []
    assert problems(FORM, approval(), committed=approval()) == []


WHOLE = dict(full_approval().rubrics)
STANDS = RubricAnswer("adequate", severity="mild")
GONE = RubricAnswer("removed", note="Another rubric says it.")
OWN = AddedRubric("Names the class of drugs.", ("A1",), "death")
ONE_PROBLEM_OF_WHOLE_FORM = [
    (full_approval(citations=()), Problem("citations", "evidence-missing")),
    (
        full_approval(citations=(replace(CITATION, kind="doi"),)),
        Problem("citation.1.reference", "citation-malformed"),
    ),
    (
        full_approval(citations=(replace(CITATION, passage=""),)),
        Problem("citation.1.passage", "citation-incomplete"),
    ),
    (full_approval(citations=(CITATION, CITATION)), Problem("citation.2.reference", "citation-duplicate")),
    (
        full_approval(rubrics=WHOLE | {"R1": RubricAnswer("adequate")}),
        Problem("rubric.R1.severity", "severity-missing"),
    ),
    (
        full_approval(rubrics=WHOLE | {"R1": RubricAnswer("corrected", "Calls it invented.")}),
        Problem("rubric.R1.severity", "severity-missing"),
    ),
    (
        full_approval(rubrics=WHOLE | {"R1": replace(STANDS, severity="bad")}),
        Problem("rubric.R1.severity", "unknown-value"),
    ),
    (full_approval(rubrics=WHOLE | {"R1": RubricAnswer("removed")}), Problem("rubric.R1.note", "note-missing")),
    (full_approval(rubrics={"R1": GONE, "R2": GONE}), Problem("rubrics", "no-rubric-left")),
    (full_rejection(""), Problem("reason_code", "reason-code-missing")),
    (full_rejection("mood"), Problem("reason_code", "unknown-value")),
    (full_rejection(reason=" "), Problem("reason", "reason-missing")),
    (full_approval(added=(replace(OWN, criterion=" "),)), Problem("added.1.criterion", "criterion-missing")),
    (full_approval(added=(OWN, OWN)), Problem("added.2.criterion", "criterion-duplicate")),
    (
        full_approval(added=(replace(OWN, criterion=" gives  NO dose. "),)),
        Problem("added.1.criterion", "criterion-duplicate"),
    ),
    (full_approval(added=(replace(OWN, tags=()),)), Problem("added.1.tags", "unanswered")),
    (full_approval(added=(replace(OWN, tags=("A1", "Z9")),)), Problem("added.1.tags", "unknown-value")),
    (full_approval(added=(replace(OWN, severity=""),)), Problem("added.1.severity", "severity-missing")),
]


@pytest.mark.parametrize(("answers", "problem"), ONE_PROBLEM_OF_WHOLE_FORM)
def test_each_problem_of_the_whole_form_is_reported_alone(answers: Answers, problem: Problem) -> None:
    assert problems(FULL_FORM, answers, today=TODAY) == [problem]


@pytest.mark.parametrize(
    "answers",
    [
        full_approval(),
        full_approval(rubrics=WHOLE | {"R1": GONE}),
        full_approval(rubrics={"R1": GONE, "R2": GONE}, added=(OWN,)),
        full_approval(rubrics=WHOLE | {"R2": GONE}, added=(replace(OWN, criterion="Gives no dose."),)),
        full_rejection(),
        full_rejection("disputed", rubrics={"R1": GONE, "R2": GONE}),
        full_rejection(rubrics=WHOLE | {"R1": RubricAnswer("inadequate", note="Off.")}),
        full_rejection(questions={"natural": Answer("yes"), "false": Answer("no", "It is true.")}, citations=()),
    ],
)
def test_complete_answers_to_the_whole_form_have_no_problem(answers: Answers) -> None:
    assert problems(FULL_FORM, answers, today=TODAY) == []


def test_removing_a_rubric_does_not_make_it_inadequate() -> None:
    removed = full_approval(rubrics=WHOLE | {"R1": GONE})
    assert opinion(FULL_FORM, removed, Role.PRIMARY, Phase.COMMIT) == Opinion(
        Role.PRIMARY, Phase.COMMIT, Verdict.APPROVE, inadequate=False
    )


def test_the_first_look_asks_only_its_own_questions_and_reveals_nothing_else() -> None:
    first = FULL_FORM.first_look
    assert [question.key for question in first.questions] == ["natural"]
    assert first == Form(first.questions, labels=first.labels)
    assert [label.value for label in first.labels] == ["odd"], "labels for revealed traps are not shown"
    assert question_problems(first, Answers()) == [Problem("question.natural", "unanswered")]
    assert question_problems(first, Answers({"natural": Answer("no")})) == [
        Problem("question.natural.note", "note-missing")
    ]
    assert question_problems(first, Answers({"natural": Answer("yes")})) == []


def test_later_answers_do_not_change_those_of_the_first_look() -> None:
    first_look = Answers({"natural": Answer("no", "Stiff."), "false": Answer("no", "Never asked.")})
    merged = with_first_look(FULL_FORM, full_approval(), first_look)
    assert merged.questions == {"natural": Answer("no", "Stiff."), "false": Answer("yes")}
    without = with_first_look(FULL_FORM, full_approval(), Answers())
    assert problems(FULL_FORM, without, today=TODAY) == [Problem("question.natural", "unanswered")]


FINDINGS = st.builds(
    RubricAnswer,
    st.sampled_from([*RUBRIC_VALUES, "", "fine"]),
    st.sampled_from(["", "Says that the drug does not exist.", "Calls it invented."]),
    st.sampled_from(["", "Off."]),
    st.sampled_from(["", "mild", "death", "bad"]),
)
ANYTHING = st.builds(
    Answers,
    questions=st.dictionaries(
        st.sampled_from(["natural", "false", "mood"]),
        st.builds(Answer, st.sampled_from(["yes", "no", ""]), st.sampled_from(["", "Off."])),
    ),
    rubrics=st.dictionaries(st.sampled_from(["R1", "R2", "R9"]), FINDINGS),
    verdict=st.sampled_from(["approve", "reject", ""]),
    reason=st.sampled_from(["", "Nobody would ask."]),
    reason_code=st.sampled_from(["", "unclear", "disputed", "mood"]),
    citations=st.lists(st.sampled_from([CITATION, replace(CITATION, section="3"), Citation()]), max_size=2).map(tuple),
    added=st.lists(
        st.builds(
            AddedRubric,
            st.sampled_from(["", "Names the class.", "Gives no dose."]),
            st.sampled_from([(), ("A1",), ("A1", "Z9")]),
            st.sampled_from(["", "mild"]),
        ),
        max_size=2,
    ).map(tuple),
)

PARTS = ("questions", "rubrics", "verdict", "reason", "reason_code", "citations", "added")
NEARLY_COMPLETE = st.builds(  # complete answers with up to three arbitrary parts
    lambda whole, other, parts: replace(whole, **{part: getattr(other, part) for part in parts}),
    st.sampled_from([full_approval(), full_rejection()]),
    ANYTHING,
    st.sets(st.sampled_from(PARTS), max_size=3),
)


DISSENT = full_approval(dissent_code="misread", reason="It is there.")

DISSENTS: list[tuple[Answers, Problem | None]] = [
    (DISSENT, None),
    (full_rejection(), None),
    (replace(DISSENT, reason="", change_reason="It is there."), None),
    (replace(DISSENT, dissent_code=""), Problem("dissent_code", "dissent-code-missing")),
    (replace(DISSENT, dissent_code="unclear"), Problem("dissent_code", "unknown-value")),
    (replace(DISSENT, reason=" "), Problem("reason", "dissent-reason-missing")),
]


@pytest.mark.parametrize(("answers", "problem"), DISSENTS)
def test_an_approval_after_a_rejection_needs_a_reason(answers: Answers, problem: Problem | None) -> None:
    assert problems(FULL_FORM, answers, rejected_before=True, today=TODAY) == ([problem] if problem else [])
    assert problems(FULL_FORM, full_approval(), today=TODAY) == [], "no reason is needed without a rejection"
    assert problems(replace(FULL_FORM, dissents=()), full_approval(), rejected_before=True, today=TODAY) == []


@settings(max_examples=by_profile(100, 400))
@given(NEARLY_COMPLETE)
def test_answers_without_problems_contain_everything_the_form_asks_for(answers: Answers) -> None:
    """Guarantees of a submitted review, checked without the order and the codes of the problems."""
    if problems(FULL_FORM, answers, today=TODAY):
        return
    assert answers.questions.keys() == {"natural", "false"}
    assert answers.rubrics.keys() == {"R1", "R2"}
    kept = [finding for finding in answers.rubrics.values() if finding.value in ("adequate", "corrected")]
    assert all(finding.severity in ("mild", "death") for finding in kept)
    assert all(rubric.severity in ("mild", "death") for rubric in answers.added)
    assert all(finding.note for finding in answers.rubrics.values() if finding.value in ("removed", "inadequate"))
    assert all(set(rubric.tags) <= {"A1", "C2"} and rubric.tags for rubric in answers.added)
    assert answers.questions["false"].value != "yes" or answers.citations
    view = opinion(FULL_FORM, answers, Role.PRIMARY, Phase.COMMIT)
    if view.verdict is Verdict.APPROVE:
        assert not view.inadequate
        assert {answer.value for answer in answers.questions.values()} == {"yes"}
        assert kept or answers.added
    else:
        assert answers.reason
        assert answers.reason_code in ("unclear", "disputed")


@settings(max_examples=by_profile(100, 200))
@given(ANYTHING, ANYTHING)
def test_a_difference_is_symmetric_and_needs_a_reason(one: Answers, other: Answers) -> None:
    assert not differs(one, one)
    assert differs(one, other) is differs(other, one)
    missing = Problem("change_reason", "change-reason-missing")
    assert (missing in problems(FULL_FORM, other, committed=one, today=TODAY)) is differs(one, other)
    assert missing not in problems(FULL_FORM, replace(other, change_reason="I see."), committed=one, today=TODAY)


def test_an_answer_to_a_question_that_is_not_asked_is_no_difference() -> None:
    natural, aligned = FORM.questions
    form = replace(FORM, questions=(natural, replace(aligned, when="natural=yes")), rubrics_when="natural=yes")
    blind = rejection(questions={"natural": Answer("no", "Stiff.")}, rubrics={})
    again = replace(blind, questions={**blind.questions, "aligned": Answer("yes")}, rubrics=FINE)
    missing = Problem("change_reason", "change-reason-missing")
    assert missing not in problems(form, again, committed=blind, today=TODAY)
    other = replace(again, questions={**again.questions, "natural": Answer("no", "Stilted.")})
    assert missing in problems(form, replace(other, verdict="approve"), committed=blind, today=TODAY)


@given(ANYTHING)
def test_any_answers_are_stored_and_read_back_unchanged(answers: Answers) -> None:
    assert answers_from_json(answers_to_json(answers)) == answers


def test_every_problem_code_is_tested() -> None:
    tested = [*ONE_PROBLEM, *ONE_PROBLEM_OF_WHOLE_FORM]
    tested += [(answers, problem) for answers, problem in DISSENTS if problem]
    codes = {problem.code for _answers, problem in tested} | {"change-reason-missing", "evidence-kind-missing"}
    codes |= {"highlight-misplaced", "highlight-duplicate", "too-many"}  # test_marked_text, test_highlights
    codes |= {"too-long"}  # test_limits
    codes |= {"unconfirmed", "evidence-unfit"}  # test_common_ground, and below
    codes |= {"undeclared"}  # test_rewordings
    assert codes == set(get_args(Problem.__dataclass_fields__["code"].type))


@pytest.mark.parametrize("answers", [approval(), rejection(), inadequate_rubric(), correction("Calls it invented.")])
def test_complete_answers_have_no_problem(answers: Answers) -> None:
    assert problems(FORM, answers) == []


def test_empty_answers_name_every_field_in_the_order_of_the_page() -> None:
    fields = ["question.natural", "question.aligned", "rubric.R1", "rubric.R2", "verdict"]
    assert [problem.field for problem in problems(FORM, Answers())] == fields


@pytest.mark.parametrize(
    ("answers", "verdict", "inadequate"),
    [
        (approval(), Verdict.APPROVE, False),
        (correction("Calls it invented."), Verdict.APPROVE, False),
        (rejection(), Verdict.REJECT, False),
        (rejection(questions=GOOD | {"natural": Answer("no", "Stiff.")}), Verdict.REJECT, False),
        (rejection(questions=GOOD | {"aligned": Answer("no", "Off.")}), Verdict.REJECT, True),
        (inadequate_rubric(), Verdict.REJECT, True),
    ],
)
def test_answers_give_the_state_machine_an_opinion(answers: Answers, verdict: Verdict, inadequate: bool) -> None:
    view = opinion(FORM, answers, Role.SECONDARY, Phase.CONFIRM)
    assert view == Opinion(Role.SECONDARY, Phase.CONFIRM, verdict, inadequate)


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (approval(), approval(), False),
        (approval(), approval(questions={key: replace(given, note="Good.") for key, given in GOOD.items()}), False),
        (approval(), approval(reason="Nothing against it."), False),
        (approval(), approval(rubrics=FINE | {"R1": RubricAnswer("adequate", wording="in a hidden field")}), False),
        (approval(), rejection(), True),
        (approval(), approval(questions=GOOD | {"natural": Answer("no", "Stiff.")}), True),
        (approval(), correction("Calls it invented."), True),
        (correction("Calls it invented."), correction("Calls it unknown."), True),
        (correction("Calls it invented."), correction(" Calls it invented. "), False),
        (full_approval(), full_approval(rubrics=WHOLE | {"R1": replace(STANDS, severity="death")}), True),
        (full_approval(), full_approval(rubrics=WHOLE | {"R1": GONE}), True),
        (full_approval(), full_approval(added=(OWN,)), True),
        (full_approval(added=(OWN,)), full_approval(added=(replace(OWN, severity="mild"),)), True),
        (full_rejection("unclear"), full_rejection("disputed"), True),
        (full_rejection(), full_rejection(reason="In other words."), False),
        (full_approval(), full_approval(citations=()), False),
        (
            full_approval(rubrics=WHOLE | {"R1": GONE}),
            full_approval(rubrics=WHOLE | {"R1": replace(GONE, severity="mild")}),
            False,
        ),
    ],
)
def test_only_decisions_make_a_difference(one: Answers, other: Answers, differ: bool) -> None:
    assert differs(one, other) is differs(other, one) is differ


def test_specs_are_stored_and_read_back_unchanged() -> None:
    spec = case_spec(asked_for=("Too stiff.",), language="zh")
    assert spec_from_json(spec_to_json(spec)) == spec


def test_characters_that_postgresql_cannot_store_are_removed() -> None:
    stored = answers_to_json(rejection("a\0b \ud800", questions=GOOD | {"natu\0ral": Answer("yes")}))
    assert stored["reason"] == "ab ?"
    assert "natural" in stored["questions"]


TERMS = (TrapTerm("A1", "Invented", evidence=("guideline", "search")), TrapTerm("C2", "Dose", evidence=("guideline",)))
SEARCH = Citation("search", "PubMed", "", "Neurostatin", "2020-01-15")


@pytest.mark.parametrize(
    ("citations", "fit"),
    [((CITATION,), True), ((SEARCH,), False), ((SEARCH, CITATION), True), ((replace(CITATION, kind="url"),), False)],
)
def test_every_trap_needs_a_source_of_a_fitting_kind(citations: tuple[Citation, ...], fit: bool) -> None:
    unfit = Problem("citations", "evidence-unfit")
    answers = full_approval(citations=citations)
    assert (unfit not in problems(replace(FULL_FORM, terms=TERMS), answers, today=TODAY)) is fit
    assert unfit not in problems(FULL_FORM, answers, today=TODAY)
