"""Checks of answers that need the texts of the case: limits, highlights, cited passages."""

from dataclasses import replace

from review import errors
from review.rules.blocks import highlight_faults, passage_texts
from review.rules.case_spec import CaseSpec
from review.rules.citations import locate_passage
from review.rules.questions import Answers, Citation, Problem, limit_problems


def check_limits(spec: CaseSpec, answers: Answers) -> None:
    """Raise OverLimits if the answers hold more than a case can be asked, or than people write."""
    if faults := limit_problems(spec.form, answers):
        raise errors.OverLimits(faults)


def with_allowed_highlights(answers: Answers, *, revealed: bool) -> Answers:
    """`answers`, limited to highlights that can be made now.

    Before the reveal all highlights belong to the first look; afterwards none does.
    """
    if not answers.highlights:
        return answers
    if revealed:
        highlights = tuple(highlight for highlight in answers.highlights if not highlight.first_look)
    else:
        highlights = tuple(replace(highlight, first_look=True) for highlight in answers.highlights)
    return replace(answers, highlights=highlights)


def located_citations(spec: CaseSpec, answers: Answers) -> tuple[Answers, list[Problem]]:
    """`answers` with the positions of passages cited from the case, and a problem for each miss."""
    if all(citation.kind != "case" for citation in answers.citations):
        return answers, []
    texts = passage_texts(spec.blocks)
    located: list[Citation] = []
    missing: list[Problem] = []
    for number, citation in enumerate(answers.citations, 1):
        match = locate_passage(citation, texts)
        if match is None and citation.passage.strip():
            missing.append(Problem(f"citation.{number}.passage", "highlight-misplaced"))
        located.append(match or citation)
    return replace(answers, citations=tuple(located)), missing


def highlight_problems(spec: CaseSpec, answers: Answers, *, draft: bool = False) -> list[Problem]:
    """The problems of the highlights, checked against the frozen case.

    A draft may hold highlights that have no position or label yet.
    """
    if not answers.highlights:
        return []
    labels = {label.value for label in spec.form.labels}
    first_look_labels = {label.value for label in spec.form.first_look.labels}
    faults = highlight_faults(answers.highlights, labels, passage_texts(spec.blocks), passage_texts(spec.first_look))
    for number, highlight in enumerate(answers.highlights, 1):
        if highlight.first_look and highlight.label in labels - first_look_labels:
            faults.append((f"highlight.{number}.label", "unknown-value"))
    tolerated: set[str] = set()
    unfinished: set[str] = set()
    if draft:
        tolerated = {"highlight-duplicate", "too-many"}
        for number, highlight in enumerate(answers.highlights, 1):
            if not highlight.passage:
                unfinished.add(f"highlight.{number}.quote")
            if not highlight.label:
                unfinished.add(f"highlight.{number}.label")
    problems = []
    for field, code in faults:
        if field not in unfinished and code not in tolerated:
            problems.append(Problem(field, code))
    return problems
