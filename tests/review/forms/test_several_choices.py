"""Questions with several possible choices: parsed, checked, compared and shown as one set."""

from dataclasses import replace

import pytest
from django.http import QueryDict
from django.urls import reverse

from review.answers.answer_form import fill_form
from review.answers.posted_answers import answers_from_post
from review.answers.side_by_side import compare, named_columns, plain_text
from review.calibration.forms import ExpectedForm
from review.calibration.practice import Practice, explain_answers
from review.calibration.queries import match_answers
from review.forms import queries
from review.forms import services as forms_services
from review.forms.design import Design
from review.models import Review, User
from review.quality.reliability import agreement_table
from review.rules.case_spec import CaseSpec
from review.rules.consolidation import is_reducible, rejection_reasons
from review.rules.questions import Answer, Answers, Choice, Form, Question, is_asked, question_problems
from tests.review.forms.test_forms import answer, default, extend, open_sample, sample
from tests.review.pages import Browse, Elements, Page, text_of

__all__ = ["default", "sample"]  # fixtures
pytestmark = pytest.mark.django_db

WRONG = Question(
    "wrong",
    "What is wrong?",
    "",
    (Choice("dose", "Dose"), Choice("drug", "Drug"), Choice("all", "Everything", blocks=True, ends=True)),
    kind="choices",
    required=False,
)
DETAILS = Question("how", "How?", "", (), kind="text", when="wrong=drug")
FORM = Form((WRONG, DETAILS))


def answers_with(value: str, note: str = "") -> Answers:
    return Answers({"wrong": Answer(value, note), "how": Answer(note="So.")})


def parse(fields: str) -> Answers:
    return answers_from_post(FORM, QueryDict(fields))


def test_choices_are_parsed_in_the_order_of_the_form() -> None:
    assert parse("question.wrong=drug&question.wrong=dose&question.wrong=x").questions["wrong"].value == "dose,drug"
    assert parse("").questions["wrong"].value == ""


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("dose,drug", ""),
        ("", ""),
        ("drug,dose", "unknown-value"),
        ("dose,x", "unknown-value"),
        ("dose,all", "note-missing"),
    ],
)
def test_a_set_of_choices_is_checked(value: str, code: str) -> None:
    assert [problem.code for problem in question_problems(FORM, answers_with(value))] == ([code] if code else [])


def test_every_choice_in_the_set_has_its_effect() -> None:
    assert is_asked(DETAILS.when, answers_with("dose,drug"))
    assert not is_asked(DETAILS.when, answers_with("dose"))
    against = replace(answers_with("dose,all", "No."), verdict="reject", reason="No.")
    assert "What is wrong?: No." in rejection_reasons(FORM, against)
    assert not is_reducible(FORM, [against])


def test_a_required_question_needs_at_least_one_choice() -> None:
    form = Form((replace(WRONG, required=True),))
    assert [problem.code for problem in question_problems(form, Answers())] == ["unanswered"]


def test_the_set_is_shown_as_checked_options_and_as_text() -> None:
    row = fill_form(FORM, answers_with("dose,drug")).questions[0]
    assert [option.chosen for option in row.choice.options] == [True, True, False]
    assert "What is wrong?: Dose; Drug" in plain_text(FORM, answers_with("dose,drug"))


def publish(default: Design, adela: User, *questions: Question) -> None:
    design = extend(default, *questions, policy={"secondary_confirms": False})
    forms_services.publish(adela, benchmark="mhb", design=design)


def test_two_reviewers_agree_only_on_the_same_set(
    default: Design, sample: CaseSpec, adela: User, ana: User, bo: User
) -> None:
    publish(default, adela, WRONG)
    case = open_sample(sample)
    answer(ana, wrong=Answer("dose,drug"))
    answer(bo, wrong=Answer("dose"))
    compared = compare(case.frozen.form, named_columns(Review.objects.order_by("pk")))
    line = next(line for line in compared.differing if line.title == "What is wrong?")
    assert [cell.value for cell in line.cells] == ["Dose; Drug", "Dose"]
    lines = {line.key: line.agreement for line in agreement_table(benchmark="mhb").lines}
    assert lines["question.wrong"].raw.value == 0


def test_the_page_offers_checkboxes(default: Design, sample: CaseSpec, adela: User, ana: User, browse: Browse) -> None:
    publish(default, adela, replace(WRONG, first_look=True))
    open_sample(sample)
    page: Page = browse(ana).post(reverse("review:next"), follow=True)
    boxes = Elements(page).named("question.wrong")
    assert [box["type"] for box in boxes] == ["checkbox"] * 3
    assert "Choose all that apply." in text_of(page)


def test_the_editor_keeps_the_type_of_the_question(default: Design, adela: User, browse: Browse) -> None:
    publish(default, adela, WRONG)
    page: Page = browse(adela).get(reverse("review:form-edit", args=["mhb"]))
    assert text_of(page).count('<option value="choices" selected>') == 1
    design = queries.default_design("mhb")
    assert forms_services.faults("mhb", extend(design, WRONG)) == []
    faults = forms_services.faults("mhb", extend(design, replace(WRONG, choices=WRONG.choices[:1])))
    assert "from 2" in faults[0].sentence


def test_calibration_scores_the_set_as_a_whole() -> None:
    expected = ExpectedForm(
        QueryDict("verdict=approve&question.wrong=drug&question.wrong=dose"), form=FORM, expected=Answers()
    )
    assert expected.is_valid()
    expected_answers = expected.answers()
    assert expected_answers.questions == {"wrong": Answer("dose,drug")}
    assert match_answers(expected_answers, replace(answers_with("dose,drug"), verdict="approve")) == (2, 2, ())
    assert match_answers(expected_answers, replace(answers_with("dose"), verdict="approve")) == (
        1,
        2,
        ("question.wrong",),
    )
    again = str(ExpectedForm(form=FORM, expected=expected_answers))
    assert again.count("checked") == 2
    blank = ExpectedForm(QueryDict("verdict=approve"), form=FORM, expected=expected_answers)
    assert blank.is_valid()
    assert match_answers(blank.answers(), answers_with("dose"))[1] == 1, (
        "a question without an expected choice is not scored"
    )


def test_the_practice_case_shows_the_set_as_text() -> None:
    practice_case = Practice((), (), _spec(FORM), Answers({"wrong": Answer("dose,drug")}, verdict="approve"), {})
    given = answers_from_post(FORM, QueryDict("verdict=approve&question.wrong=dose&question.wrong=drug"))
    line = explain_answers(practice_case, given)[0]
    assert (line.given, line.expected, line.right) == ("Dose; Drug", "Dose; Drug", True)


def _spec(form: Form) -> CaseSpec:
    return CaseSpec("mhb", "mhb-000001", 1, "A case", (), form)
