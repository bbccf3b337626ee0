"""The answers on which both reviewers agree, which an adjudicator only has to confirm."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from review.rules.questions import Answers, Citation, Form


def common_answers(form: Form, reviews: Sequence[Answers]) -> Answers:
    """The answers that are the same in all reviews, with every source that any of them cites.

    The verdict and first-look answers are never taken over.
    """
    first, *others = reviews
    questions = {}
    for question in form.questions:
        answer = first.questions.get(question.key)
        if answer is None or question.first_look:
            continue
        if all(other.answer(question.key).value == answer.value for other in others):
            questions[question.key] = answer
    rubrics = {}
    for key, finding in first.rubrics.items():
        findings = [finding, *(other.finding(key) for other in others)]
        if len({(each.value, each.wording.strip()) for each in findings}) > 1:
            continue
        if any(each.severity != finding.severity for each in findings):
            finding = replace(finding, severity="")
        rubrics[key] = finding
    citations: dict[Citation, None] = {}  # each once, in order
    for review in reviews:
        citations |= dict.fromkeys(review.citations)
    added = first.added
    if any(other.added != added for other in others):
        added = ()
    return Answers(questions=questions, rubrics=rubrics, citations=tuple(citations), added=added)


def fill_in(answers: Answers, common: Answers) -> Answers:
    """`answers`, with whatever they leave open taken from `common`."""
    questions, rubrics = dict(common.questions), dict(common.rubrics)
    for key, answer in answers.questions.items():
        if answer.value:
            questions[key] = answer
    for key, finding in answers.rubrics.items():
        if finding.value:
            rubrics[key] = finding
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
    fields = set()
    for question in form.questions:
        if (
            question.key in common.questions
            and answers.answer(question.key).value == common.questions[question.key].value
        ):
            fields.add(f"question.{question.key}")
    for rubric in form.rubrics:
        finding = answers.finding(rubric.key)
        if rubric.key in common.rubrics and finding.value == common.rubrics[rubric.key].value:
            fields.add(f"rubric.{rubric.key}")
    return fields
