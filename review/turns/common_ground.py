"""The answers on which both reviewers agree, which an adjudicator only has to confirm."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from review.rules.questions import Answer, Answers, Form, RubricAnswer


def common_answers(form: Form, reviews: Sequence[Answers]) -> Answers:
    """The answers that are the same in all reviews, with every source that any of them cites.

    The verdict and first-look answers are never taken over.
    """
    first, *others = reviews
    first_look = {question.key for question in form.questions if question.first_look}
    questions = {
        key: answer
        for key, answer in first.questions.items()
        if key not in first_look and all(other.questions.get(key, Answer()).value == answer.value for other in others)
    }
    rubrics = {}
    for key, finding in first.rubrics.items():
        other_findings = [other.rubrics.get(key, RubricAnswer()) for other in others]
        found = {(each.value, each.wording.strip()) for each in (finding, *other_findings)}
        if len(found) == 1:
            same_harm = all(other.severity == finding.severity for other in other_findings)
            rubrics[key] = finding if same_harm else replace(finding, severity="")
    return Answers(
        questions=questions,
        rubrics=rubrics,
        citations=tuple(dict.fromkeys(citation for review in reviews for citation in review.citations)),
        added=first.added if all(other.added == first.added for other in others) else (),
    )


def fill_in(answers: Answers, common: Answers) -> Answers:
    """`answers`, with whatever they leave open taken from `common`."""
    questions = {**common.questions, **{key: answer for key, answer in answers.questions.items() if answer.value}}
    rubrics = {**common.rubrics, **{key: finding for key, finding in answers.rubrics.items() if finding.value}}
    citations = tuple(citation for citation in answers.citations if citation.reference or citation.passage)
    return replace(
        answers,
        questions=questions,
        rubrics=rubrics,
        citations=citations or common.citations,
        added=answers.added or common.added,
    )


def agreed_fields(form: Form, answers: Answers, common: Answers) -> Collection[str]:
    """The names of the fields whose answer still is the common one."""
    return {
        f"question.{question.key}"
        for question in form.questions
        if question.key in common.questions
        and answers.questions.get(question.key, Answer()).value == common.questions[question.key].value
    } | {
        f"rubric.{rubric.key}"
        for rubric in form.rubrics
        if rubric.key in common.rubrics
        and answers.rubrics.get(rubric.key, RubricAnswer()).value == common.rubrics[rubric.key].value
    }
