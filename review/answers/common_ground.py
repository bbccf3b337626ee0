"""Where two reviewers agree: an adjudicator is asked the rest, and confirms this once."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from review.rules.questions import Answer, Answers, Form, RubricAnswer


def common(form: Form, voices: Sequence[Answers]) -> Answers:
    """What all of them answered alike, with every source that any of them gave. The verdict is never taken over."""
    first, *others = voices
    looked = {question.key for question in form.questions if question.first_look}
    questions = {
        key: answer
        for key, answer in first.questions.items()
        if key not in looked and all(each.questions.get(key, Answer()).value == answer.value for each in others)
    }
    rubrics = {}
    for key, found in first.rubrics.items():
        alike = [each.rubrics.get(key, RubricAnswer()) for each in others]
        if all((each.value, each.wording.strip()) == (found.value, found.wording.strip()) for each in alike):
            same_harm = all(each.severity == found.severity for each in alike)
            rubrics[key] = found if same_harm else replace(found, severity="")
    return Answers(
        questions=questions,
        rubrics=rubrics,
        citations=tuple(dict.fromkeys(citation for each in voices for citation in each.citations)),
        added=first.added if all(each.added == first.added for each in others) else (),
    )


def filled(answers: Answers, ground: Answers) -> Answers:
    """`answers`, and what is open in them as `ground` has it."""
    questions = {**ground.questions, **{key: each for key, each in answers.questions.items() if each.value}}
    rubrics = {**ground.rubrics, **{key: each for key, each in answers.rubrics.items() if each.value}}
    cited = tuple(each for each in answers.citations if each.reference or each.passage)
    return replace(
        answers,
        questions=questions,
        rubrics=rubrics,
        citations=cited or ground.citations,
        added=answers.added or ground.added,
    )


def agreed(form: Form, answers: Answers, ground: Answers) -> Collection[str]:
    """The names of the fields whose answer is still the one that both gave."""
    return {
        f"question.{question.key}"
        for question in form.questions
        if question.key in ground.questions
        and answers.questions.get(question.key, Answer()).value == ground.questions[question.key].value
    } | {
        f"rubric.{rubric.key}"
        for rubric in form.rubrics
        if rubric.key in ground.rubrics
        and answers.rubrics.get(rubric.key, RubricAnswer()).value == ground.rubrics[rubric.key].value
    }
