"""Parse the answers of a posted form."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from review.answers import harms
from review.rules.blocks import Highlight, locate_highlight
from review.rules.citations import is_by_trap, recognise_kind
from review.rules.questions import AddedRubric, Answer, Answers, Citation, Form, Question, RubricAnswer


@dataclass(frozen=True, slots=True)
class Offer:
    """Another reviewer's wording of a rubric. Choosing the option with this `value` adopts it."""

    value: str
    label: str
    wording: str


Offers = Mapping[str, Sequence[Offer]]  # by rubric key
NO_OFFERS: Offers = {}
LAST_FIELDS = {  # those below the questions and rubrics, in the order of the page, and their labels
    "verdict": _("Verdict"),
    "reason_code": _("Reason"),
    "dissent_code": _("Reason"),
    "reason": _("Reason"),
    "change_reason": _("Reason for change"),
    "declaration": _("Change of wording or of meaning"),
}
ADOPT_PREFIX = "adopt."  # of the values of all offers


def posts_highlights(data: QueryDict) -> bool:
    """Whether the form holds any highlights."""
    return bool(_row_numbers(data, "highlight"))


def posts_adopted_wording(data: QueryDict) -> bool:
    """Whether an offered wording was chosen."""
    return any(str(value).startswith(ADOPT_PREFIX) for value in data.values())


def answers_from_post(
    form: Form, data: QueryDict, offers: Offers = NO_OFFERS, texts: Mapping[str, str] | None = None
) -> Answers:
    """The posted answers, complete or not.

    Applies the command in the field `do`: add or remove a row, or mark the open rubrics adequate.
    Harm is asked once per trap; a rubric without a level of its own gets the worst level of its
    traps. Fields that the form does not ask for are left out.

    Args:
        texts: the texts that the physician sees, in which highlighted words are located.
    """

    def text(name: str) -> str:
        # Browsers send CRLF, which alone would make a wording differ from its original. PostgreSQL
        # refuses NUL.
        return data.get(name, "").replace("\r\n", "\n").replace("\0", "")

    do = text("do")
    rubrics = {}
    for rubric in form.rubrics:
        name = f"rubric.{rubric.key}"
        value, wording = text(name), text(f"{name}.wording")
        adopted = next((offer for offer in offers.get(rubric.key, ()) if offer.value == value), None)
        if adopted is not None:
            value, wording = "corrected", adopted.wording
        rubrics[rubric.key] = RubricAnswer(
            value=value or ("adequate" if do == "rest-adequate" else ""),
            wording=wording if value == "corrected" else "",
            note=text(f"{name}.note"),
            severity=text(f"{name}.severity") or harms.worst_level(form, [text(f"harm.{tag}") for tag in rubric.tags]),
        )
    citations = [
        _with_kind(Citation(**{part.name: text(f"citation.{n}.{part.name}") for part in fields(Citation)}), form)
        for n in _row_numbers(data, "citation")
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
        for n in _row_numbers(data, "added")
        if do != f"remove-rubric.{n}"
    ]
    if do == "add-rubric":
        added.append(AddedRubric("", form.tags if len(form.tags) == 1 else ()))
    highlights = [
        locate_highlight(
            Highlight(
                text(f"highlight.{n}.quote"),
                text(f"highlight.{n}.label"),
                text(f"highlight.{n}.passage"),
                _number(text(f"highlight.{n}.start")),
                _number(text(f"highlight.{n}.end")),
            ),
            texts or {},
        )
        for n in _row_numbers(data, "highlight")
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
        **{name: text(name) for name in LAST_FIELDS},
        citations=tuple(citations) if asks_for_evidence(form) else (),
        added=tuple(added) if form.rubrics_editable else (),
        highlights=tuple(highlights) if form.labels else (),
    )


def _number(text: str) -> int:
    if re.fullmatch("[0-9]{1,8}", text):
        return int(text)
    return 0


def _with_kind(citation: Citation, form: Form) -> Citation:
    """The citation, with kind and trap where they follow from its reference and the case."""
    if not citation.trap:
        citation = replace(citation, trap=only_trap(form))
    if citation.kind:
        return citation
    return replace(citation, kind=recognise_kind(citation.reference))


def only_trap(form: Form) -> str:
    """The trap of every source, where evidence is given by trap and the case has one trap."""
    if is_by_trap(form.terms) and len(form.terms) == 1:
        return form.terms[0].code
    return ""


def _row_numbers(data: QueryDict, kind: str) -> list[int]:
    """The numbers of the posted rows, in order. A removed row leaves a gap."""
    matches = (re.fullmatch(rf"{kind}\.([1-9][0-9]{{0,3}})\.\w+", name) for name in data)
    return sorted({int(match[1]) for match in matches if match})


def without_blank_rows(answers: Answers) -> Answers:
    """`answers` without the rows into which nothing was typed."""
    return replace(
        answers,
        citations=tuple(each for each in answers.citations if each.reference or each.section or each.passage),
        added=tuple(rubric for rubric in answers.added if rubric.criterion.strip()),
        highlights=tuple(highlight for highlight in answers.highlights if highlight.quote.strip()),
    )


def blank_citation(kind: str = "") -> Citation:
    """A new row, read today by default. Without a kind, it is recognised from the reference."""
    return Citation(kind, read_on=timezone.localdate().isoformat())


def asks_for_evidence(form: Form) -> bool:
    """Whether any answer of the form requires a source."""
    return any(requires_evidence(question) for question in form.questions)


def _value(question: Question, data: QueryDict) -> str:
    name = f"question.{question.key}"
    if question.kind == "choices":
        return question.value_of(data.getlist(name))
    return data.get(name, "").replace("\0", "")


def requires_evidence(question: Question) -> bool:
    """Whether any answer to the question requires a source."""
    return any(choice.evidence for choice in question.choices)
