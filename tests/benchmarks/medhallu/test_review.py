"""The case that physicians see for a MedHallu sample, and its review policy."""

from dataclasses import replace

import pytest

from mhb_site.benchmarks.medhallu import review
from review.rules.blocks import Diff, Table, Text
from review.rules.case_spec import spec_from_json, spec_to_json
from review.rules.questions import Answer, Answers, Citation, problems
from review.rules.state_machine import Policy
from tests.benchmarks.medhallu.helpers import (
    CONTEXTS,
    QUESTION,
    TRUTH,
    WRONG,
    FakeModels,
    make_sample,
    pair_draft,
    qa_draft,
    settings,
)

pytestmark = pytest.mark.plain


def sample(draft=None, **changes):
    return make_sample(draft or qa_draft(settings=settings(review_share=1.0, **changes)), FakeModels(fooled={WRONG: 2}))


def case(**changes):
    return review.case(sample(**changes), "medhallu-detection-000001", 1)


def answers(**changes):
    values = {"wrong": "yes", "plausible": "3", "category": "fits", **changes}
    return Answers(
        questions={key: Answer(value, note="because") for key, value in values.items()},
        verdict="approve",
        citations=(Citation("doi", "10.1000/x", "", "Glucose before breakfast did not change.", "2020-01-15"),),
    )


def test_the_case_shows_question_both_answers_passages_and_the_justification():
    question, truth, *passages, diff, wrong = case().blocks
    assert isinstance(question, Text)
    assert (question.text, question.tone) == (QUESTION, "question")
    assert isinstance(truth, Text)
    assert truth.text == TRUTH
    assert [passage.text for passage in passages] == CONTEXTS
    assert isinstance(diff, Diff)
    assert [turn.text for turn in (*diff.before, *diff.after)] == [TRUTH, WRONG]
    assert isinstance(wrong, Table)
    assert wrong.rows == (("MQ", "Misinterpretation of the question", "The findings are swapped."),)
    assert wrong.tone == "trap"


def test_three_questions_are_asked_and_calling_the_answer_wrong_needs_evidence():
    form = case().form
    assert [question.key for question in form.questions] == ["wrong", "plausible", "category"]
    assert problems(form, answers()) == []
    assert [problem.code for problem in problems(form, replace(answers(), citations=()))] == ["evidence-missing"]


def test_the_question_about_plausibility_fits_a_case_that_shows_both_answers():
    """Both answers are shown at once, so nobody can be asked to read one without seeing the
    other."""
    (plausible,) = (question for question in case().form.questions if question.key == "plausible")
    shown = [block.text for block in case().blocks if isinstance(block, Text)]
    assert TRUTH in shown
    assert "without the true answer" not in str(plausible)
    assert "as someone who has not seen the true answer" in str(plausible)


@pytest.mark.parametrize("bad", [{"wrong": "no"}, {"plausible": "1"}, {"category": "does-not-fit"}])
def test_each_of_the_three_answers_can_prevent_approval(bad):
    assert "verdict-contradicts" in [problem.code for problem in problems(case().form, answers(**bad))]


def test_the_policy_asks_for_one_physician_or_two_or_none():
    assert review.case(sample(), "x", 1).policy == Policy(secondary=False)
    assert review.case(sample(reviewers="two"), "x", 1).policy == Policy(secondary=True)
    undrawn = make_sample(qa_draft("paper"), FakeModels(fooled={WRONG: 2}))
    unreviewed = review.case(undrawn, "x", 1).policy
    assert (unreviewed.primary, unreviewed.secondary) == (False, False)


def test_a_generated_sample_can_be_regenerated_and_a_published_one_cannot():
    assert {reason.code for reason in case().form.reasons if reason.reducible} == {
        "not-wrong",
        "implausible",
        "category",
        "wording",
    }
    published = review.case(sample(pair_draft()), "medhallu-detection-000001", 1)
    assert not any(reason.reducible for reason in published.form.reasons)


def test_the_case_survives_storage():
    assert spec_from_json(spec_to_json(case())) == case()
