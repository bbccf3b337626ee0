"""Combines several physicians' answers: the rubrics kept, the evidence, the reasons of a rejection.

Plain values. `review.cases.queries.settled_case` decides whose answers count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

from review.rules.citations import Citation, identity, normalise
from review.rules.questions import (
    RETAINED_VALUES,
    AddedRubric,
    Answer,
    Answers,
    Form,
    Problem,
    Reason,
    RubricAnswer,
    RubricText,
    chosen_choices,
    folded,
    retained_wordings,
    without_unasked,
    wrong_choice,
)
from review.rules.state_machine import Declaration, Verdict


@dataclass(frozen=True, slots=True)
class SettledRubric:
    """A rubric as settled by the physicians.

    criterion: the final wording.
    severity: the median of `severities`, or empty.
    removed: the physicians dropped this rubric; it is listed to document that.
    added_by_physician: its key is `P<n>`.
    severities: the level that each rater chose, in the order of the workflow.
    """

    key: str
    criterion: str
    tags: tuple[str, ...]
    severity: str = ""
    removed: bool = False
    added_by_physician: bool = False
    severities: tuple[str, ...] = ()


def settled_rubrics(
    form: Form, deciding: Sequence[Answers], raters: Sequence[Answers] = ()
) -> tuple[SettledRubric, ...]:
    """The form's rubrics in their order, followed by the added ones.

    deciding: the answers, in the order of the workflow, of those who had seen all earlier answers:
        the adjudicators, else the secondary who has confirmed. Corrections, removals and additions
        by others count only if a deciding physician adopted them. Adjudicators did not see each
        other's answers, so each may have left unchanged what the other changed: corrections and
        additions of either count (of two corrections the later), but a rubric is removed only if
        all removed it.
    raters: those whose severities are combined by their median; by default the deciding ones.
    """
    raters = raters or deciding
    settled = []
    for rubric in form.rubrics:
        decided = [answers.finding(rubric.key) for answers in deciding]
        rated = [answers.finding(rubric.key) for answers in raters]
        settled.append(_settle_rubric(form, rubric, decided, rated))
    used_keys = {rubric.key for rubric in form.rubrics}
    free_keys = (key for key in map("P{}".format, count(1)) if key not in used_keys)
    additions: dict[str, AddedRubric] = {}
    severities: dict[str, list[str]] = {}
    for addition in chain.from_iterable(answers.added for answers in deciding):
        additions.setdefault(folded(addition.criterion), addition)
        severities.setdefault(folded(addition.criterion), []).append(addition.severity)
    retained = {folded(rubric.criterion) for rubric in settled if not rubric.removed}
    for words, addition in additions.items():
        if words in retained:
            continue
        settled.append(
            SettledRubric(
                next(free_keys),
                addition.criterion.strip(),
                addition.tags,
                median_level(form, severities[words]),
                added_by_physician=True,
                severities=tuple(filter(None, severities[words])),
            )
        )
    return tuple(settled)


def comparable_rubrics(form: Form, answers: Answers) -> str:
    """The rubrics that these answers keep or add, as text; equal for equal sets.

    Whitespace and the order of added rubrics make no difference.
    """
    retained = [(key, " ".join(wording.split())) for key, wording in retained_wordings(form, answers).items()]
    added = sorted((" ".join(addition.criterion.split()), sorted(addition.tags)) for addition in answers.added)
    return repr((retained, added))


def same_wordings(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """How each rater words one rubric, from their stored answers: equal for equal words.

    'generated' as it was given, 'corrected' with the first other wording, 'corrected-2' with the
    second; empty for raters who do not keep the rubric.
    """
    wordings: dict[str, str] = {"": "generated"}
    labels = []
    for finding in findings:
        words = ""
        if finding.get("value") == "corrected":
            words = " ".join(str(finding.get("wording", "")).split())
        number = len(wordings)
        new_label = "corrected"
        if number > 1:
            new_label = f"corrected-{number}"
        label = wordings.setdefault(words, new_label)
        if finding.get("value") not in RETAINED_VALUES:
            label = ""
        labels.append(label)
    return labels


def signed_answers(form: Form, proposal: Answers, own: Answers) -> Answers:
    """The answers of a physician who signs a proposal: its verdict and rubrics, word for word.

    own: the signer's earlier answers, whose levels of harm and highlights stand.
    """
    rubrics = dict(proposal.rubrics)
    for key, finding in proposal.rubrics.items():
        earlier = own.finding(key)
        if finding.value in RETAINED_VALUES and earlier.severity:
            rubrics[key] = replace(finding, severity=earlier.severity)
    if proposal.verdict == Verdict.APPROVE:
        sources = merged_citations([proposal, own])
    else:
        sources = proposal.citations
    if form.labels:
        highlights = own.highlights
    else:
        highlights = ()
    return replace(
        proposal, rubrics=rubrics, citations=sources, highlights=highlights, change_reason="", declaration=""
    )


def added_wordings(raters: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Who added which rubrics, from stored answers: for each rater key -> 'added' or 'absent'.

    A rubric that only one rater adds is a wording on which they differ. Keys are `P<n>`, in the
    order of the raters, without those of rated rubrics; whitespace makes no difference.
    """
    texts_by_rater, used_keys = [], set[str]()
    for rater in raters:
        used_keys.update(rater.get("rubrics", ()))
        texts_by_rater.append([" ".join(str(each["criterion"]).split()) for each in rater.get("added", ())])
    free_keys = (key for key in map("P{}".format, count(1)) if key not in used_keys)
    texts = dict(zip(dict.fromkeys(chain.from_iterable(texts_by_rater)), free_keys, strict=False))
    labels_by_rater = []
    for own in texts_by_rater:
        labels = {}
        for text, key in texts.items():
            labels[key] = "absent"
            if text in own:
                labels[key] = "added"
        labels_by_rater.append(labels)
    return labels_by_rater


def with_first_look(form: Form, answers: Answers, first_look: Answers) -> Answers:
    """`answers` with the answers and highlights of the first look as they were given then."""
    first_keys = {question.key for question in form.questions if question.first_look}
    first = {key: answer for key, answer in first_look.questions.items() if key in first_keys}
    later = {key: answer for key, answer in answers.questions.items() if key not in first_keys}
    highlights = list(first_look.highlights)
    highlights += [highlight for highlight in answers.highlights if not highlight.first_look]
    return replace(answers, questions={**first, **later}, highlights=tuple(highlights))


def changes_rubrics(form: Form, answers: Answers, primary: Answers | None) -> bool:
    """Whether an approval keeps other rubrics than the primary approved.

    If the secondary must not know the primary's answers (None), compares with the generated
    rubrics.
    """
    if answers.verdict != Verdict.APPROVE or (primary is not None and primary.verdict != Verdict.APPROVE):
        return False
    untouched = Answers(rubrics={rubric.key: RubricAnswer("adequate") for rubric in form.rubrics})
    return comparable_rubrics(form, answers) != comparable_rubrics(form, primary or untouched)


def declaration_problems(answers: Answers) -> list[Problem]:
    """The problems with the declaration of a secondary who must make one."""
    if answers.declaration in set(Declaration):
        return []
    return [wrong_choice("declaration", answers.declaration, "undeclared")]


def median_level(form: Form, levels: Sequence[str]) -> str:
    """The median level on the form's scale; of the middle two the more severe."""
    scale = [level.value for level in form.severities]
    ranks = sorted(scale.index(level) for level in levels if level in scale)
    if ranks:
        return scale[ranks[len(ranks) // 2]]
    return ""


def _settle_rubric(
    form: Form, rubric: RubricText, findings: Sequence[RubricAnswer], ratings: Sequence[RubricAnswer]
) -> SettledRubric:
    if findings and all(finding.value == "removed" for finding in findings):
        return SettledRubric(rubric.key, rubric.criterion, rubric.tags, removed=True)
    retained = [finding for finding in findings if finding.value in RETAINED_VALUES]
    wordings = [rubric.criterion]
    wordings += [finding.wording.strip() for finding in retained if finding.value == "corrected"]
    severities = tuple(rating.severity for rating in ratings if rating.value in RETAINED_VALUES and rating.severity)
    return SettledRubric(
        rubric.key,
        wordings[-1],
        rubric.tags,
        median_level(form, severities),
        severities=severities,
    )


def merged_citations(answers: Sequence[Answers]) -> tuple[Citation, ...]:
    """The evidence in all `answers`, each source once for each trap: the first citation of it."""
    by_identity: dict[tuple[str, ...], Citation] = {}
    for citation in chain.from_iterable(one.citations for one in answers):
        by_identity.setdefault((*identity(citation), citation.trap), normalise(citation))
    return tuple(by_identity.values())


def rejection_reasons(form: Form, answers: Answers) -> list[str]:
    """One physician's objections to a sample, as sentences for the author of the next version."""
    reasons = []
    if answers.verdict == Verdict.REJECT and answers.reason.strip():
        said = answers.reason.strip()
        if coded := _coded_reason(form, answers):
            said = f"{coded.label}: {said}"
        reasons.append(said)
    for question in form.questions:
        answer = answers.questions.get(question.key)
        if answer and answer.note.strip() and any(choice.blocks for choice in question.chosen(answer.value)):
            reasons.append(f"{question.label}: {answer.note.strip()}")
    asked = without_unasked(form, answers).questions
    for question in form.questions:
        # A text that is asked only with a certain answer belongs to it, such as the right one.
        text = ""
        if question.key in asked:
            text = asked[question.key].note.strip()
        if question.kind == "text" and question.when and text:
            reasons.append(f"{question.label}: {text}")
    for key, finding in answers.rubrics.items():
        if finding.value == "inadequate":
            reasons.append(f"{key}: {finding.note.strip()}")
    return reasons


def is_reducible(form: Form, rejections: Sequence[Answers]) -> bool:
    """Whether another version can fix what the `rejections` object to.

    It cannot if all rejections that take a position, by an ending answer or by a reason code, say
    no. An ending answer outweighs the reason given with it.
    """
    takes_position = False
    for answers in rejections:
        is_ended = any(choice.ends for choice in chosen_choices(form, answers))
        reason = _coded_reason(form, answers)
        if not is_ended and reason is None and form.reasons:
            continue
        takes_position = True
        if not is_ended and (reason is None or reason.reducible):
            return True
    return not takes_position


def _coded_reason(form: Form, answers: Answers) -> Reason | None:
    return next((reason for reason in form.reasons if reason.code == answers.reason_code), None)


def answers_decision(form: Form, answers: Answers) -> str:
    """The values of the questions that are compared, as a text that is equal for equal answers."""
    asked = without_unasked(form, answers).questions
    return "\n".join(f"{q.key}={asked.get(q.key, Answer()).value}" for q in form.questions if q.compared)
