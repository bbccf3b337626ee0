"""Reads answers out of a posted form."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.http import QueryDict
from django.utils import timezone

from review.answers import harms
from review.rules.blocks import Highlight, placed
from review.rules.citations import recognised
from review.rules.questions import AddedRubric, Answer, Answers, Citation, Form, Question, RubricAnswer


@dataclass(frozen=True, slots=True)
class Offer:
    """Another reviewer's wording of a rubric, to be adopted by one choice. `value` is that choice's."""

    value: str
    label: str
    wording: str


Offers = Mapping[str, Sequence[Offer]]  # by rubric key
NO_OFFERS: Offers = {}
ADOPTING = "adopt."  # with it begin the values of all offers


def posts_highlights(data: QueryDict) -> bool:
    """Whether any words of the text were highlighted."""
    return bool(_rows(data, "highlight"))


def posts_adopted(data: QueryDict) -> bool:
    """Whether any wording on offer was chosen."""
    return any(str(value).startswith(ADOPTING) for value in data.values())


def answers_from_post(
    form: Form, data: QueryDict, offers: Offers = NO_OFFERS, texts: Mapping[str, str] | None = None
) -> Answers:
    """What was typed, complete or not, with the row added or removed that `do` asks for, or the open rubrics found adequate.

    The harm is asked once a trap: a rubric without a level of its own has the worst of its traps'. Fields that the case does
    not ask for are left out. texts: what the physician sees of the case, in which highlighted words are found.
    """

    def text(name: str) -> str:
        # Browsers send CRLF; a wording would differ from its original by that alone. PostgreSQL refuses NUL.
        return data.get(name, "").replace("\r\n", "\n").replace("\0", "")

    do = text("do")
    rubrics = {}
    for rubric in form.rubrics:
        where = f"rubric.{rubric.key}"
        value, wording = text(where), text(f"{where}.wording")
        adopted = next((offer for offer in offers.get(rubric.key, ()) if offer.value == value), None)
        if adopted is not None:
            value, wording = "corrected", adopted.wording
        rubrics[rubric.key] = RubricAnswer(
            value=value or ("adequate" if do == "rest-adequate" else ""),
            wording=wording if value == "corrected" else "",
            note=text(f"{where}.note"),
            severity=text(f"{where}.severity") or harms.worst(form, [text(f"harm.{tag}") for tag in rubric.tags]),
        )
    citations = [
        _recognised(
            Citation(*(text(f"citation.{n}.{part}") for part in ("kind", "reference", "section", "passage", "read_on")))
        )
        for n in _rows(data, "citation")
        if do != f"remove-citation.{n}"
    ]
    if do in ("add-citation", "add-search"):
        citations.append(blank_citation(kind="search" if do == "add-search" else ""))
    added = [
        AddedRubric(
            text(f"added.{n}.criterion"),
            tuple(tag for tag in form.tags if tag in data.getlist(f"added.{n}.tags")),
            text(f"added.{n}.severity"),
        )
        for n in _rows(data, "added")
        if do != f"remove-rubric.{n}"
    ]
    if do == "add-rubric":
        added.append(AddedRubric("", form.tags if len(form.tags) == 1 else ()))
    highlights = [
        placed(
            Highlight(
                text(f"highlight.{n}.quote"),
                text(f"highlight.{n}.label"),
                text(f"highlight.{n}.passage"),
                _number(text(f"highlight.{n}.start")),
                _number(text(f"highlight.{n}.end")),
            ),
            texts or {},
        )
        for n in _rows(data, "highlight")
        if do != f"remove-highlight.{n}"
    ]
    if do == "add-highlight":
        highlights.append(Highlight())
    return Answers(
        questions={
            question.key: Answer(_value(question, data), text(f"question.{question.key}.note"))
            for question in form.questions
        },
        rubrics=rubrics,
        verdict=text("verdict"),
        reason=text("reason"),
        reason_code=text("reason_code"),
        dissent_code=text("dissent_code"),
        change_reason=text("change_reason"),
        declaration=text("declaration"),
        citations=tuple(citations) if asks_evidence(form) else (),
        added=tuple(added) if form.rubrics_editable else (),
        highlights=tuple(highlights) if form.labels else (),
    )


def _number(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,8}", text) else 0


def _recognised(citation: Citation) -> Citation:
    """With the kind that its reference shows, where none was chosen."""
    return citation if citation.kind else replace(citation, kind=recognised(citation.reference))


def _rows(data: QueryDict, kind: str) -> list[int]:
    """The numbers of the rows posted, in order; a row taken away leaves a gap."""
    found = (re.fullmatch(rf"{kind}\.([1-9][0-9]{{0,3}})\.\w+", name) for name in data)
    return sorted({int(match[1]) for match in found if match})


def tidy(answers: Answers) -> Answers:
    """Without the rows into which nothing was typed."""
    return replace(
        answers,
        citations=tuple(each for each in answers.citations if each.reference or each.section or each.passage),
        added=tuple(each for each in answers.added if each.criterion.strip()),
        highlights=tuple(each for each in answers.highlights if each.quote.strip()),
    )


def blank_citation(kind: str = "") -> Citation:
    """A new row: read today, most likely. Its kind is seen from the reference."""
    return Citation(kind, read_on=timezone.localdate().isoformat())


def asks_evidence(form: Form) -> bool:
    """Whether any answer of the form wants a source."""
    return any(wants_evidence(question) for question in form.questions)


def _value(question: Question, data: QueryDict) -> str:
    name = f"question.{question.key}"
    return question.value_of(data.getlist(name)) if question.kind == "choices" else data.get(name, "").replace("\0", "")


def wants_evidence(question: Question) -> bool:
    return any(choice.evidence for choice in question.choices)
