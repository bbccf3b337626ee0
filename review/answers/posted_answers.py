"""Parse the answers of a posted form."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from review.answers import harms
from review.rules.blocks import Highlight, locate_highlight
from review.rules.citations import is_by_trap, recognise_kind
from review.rules.questions import (
    AddedRubric,
    Answer,
    Answers,
    Citation,
    Form,
    Question,
    RubricAnswer,
    RubricText,
)
from review.rules.text import whole_number


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
    posted = _PostedForm(form, data)
    questions, rubrics = {}, {}
    for question in form.questions:
        questions[question.key] = posted.answer(question)
    for rubric in form.rubrics:
        rubrics[rubric.key] = posted.rubric(rubric, offers.get(rubric.key, ()))
    citations: Iterable[Citation] = ()
    added: Iterable[AddedRubric] = ()
    highlights: Iterable[Highlight] = ()
    if asks_for_evidence(form):
        citations = posted.citations()
    if form.rubrics_editable:
        added = posted.added()
    if form.labels:
        highlights = posted.highlights(texts or {})
    return Answers(
        questions=questions,
        rubrics=rubrics,
        **{name: posted.text(name) for name in LAST_FIELDS},
        citations=tuple(citations),
        added=tuple(added),
        highlights=tuple(highlights),
    )


class _PostedForm:
    """The fields of a posted form. `do`: the command of the button that was pressed."""

    def __init__(self, form: Form, data: QueryDict) -> None:
        self.form, self.data = form, data
        self.do = self.text("do")

    def text(self, name: str) -> str:
        # Browsers send CRLF, which alone would make a wording differ from its original. PostgreSQL
        # refuses NUL.
        return self.data.get(name, "").replace("\r\n", "\n").replace("\0", "")

    def rows(self, kind: str, remove: str) -> Iterator[str]:
        """The names of the posted rows of a kind, without the one that is to be removed."""
        for number in _row_numbers(self.data, kind):
            if self.do != f"{remove}.{number}":
                yield f"{kind}.{number}"

    def answer(self, question: Question) -> Answer:
        name = f"question.{question.key}"
        if question.kind == "choices":
            value = question.value_of(self.data.getlist(name))
        else:
            value = self.data.get(name, "").replace("\0", "")
        return Answer(value, self.text(f"{name}.note"))

    def rubric(self, rubric: RubricText, offers: Sequence[Offer]) -> RubricAnswer:
        name = f"rubric.{rubric.key}"
        value, wording = self.text(name), self.text(f"{name}.wording")
        for offer in offers:
            if offer.value == value:
                value, wording = "corrected", offer.wording
                break
        if value != "corrected":
            wording = ""
        if not value and self.do == "rest-adequate":
            value = "adequate"
        severity = self.text(f"{name}.severity")
        if not severity:
            severity = harms.worst_level(self.form, [self.text(f"harm.{tag}") for tag in rubric.tags])
        return RubricAnswer(value, wording, self.text(f"{name}.note"), severity)

    def citations(self) -> Iterator[Citation]:
        for row in self.rows("citation", "remove-citation"):
            parts = {part.name: self.text(f"{row}.{part.name}") for part in fields(Citation)}
            yield _with_kind(Citation(**parts), self.form)
        if self.do == "add-citation":
            yield blank_citation()
        elif self.do == "add-search":
            yield blank_citation(kind="search")

    def added(self) -> Iterator[AddedRubric]:
        for row in self.rows("added", "remove-rubric"):
            chosen = self.data.getlist(f"{row}.tags")
            tags = tuple(tag for tag in self.form.tags if tag in chosen)
            yield AddedRubric(self.text(f"{row}.criterion"), tags, self.text(f"{row}.severity"))
        if self.do == "add-rubric" and len(self.form.tags) == 1:
            yield AddedRubric("", self.form.tags)
        elif self.do == "add-rubric":
            yield AddedRubric("")

    def highlights(self, texts: Mapping[str, str]) -> Iterator[Highlight]:
        for row in self.rows("highlight", "remove-highlight"):
            typed = Highlight(
                self.text(f"{row}.quote"),
                self.text(f"{row}.label"),
                self.text(f"{row}.passage"),
                whole_number(self.text(f"{row}.start"), 8) or 0,
                whole_number(self.text(f"{row}.end"), 8) or 0,
            )
            yield locate_highlight(typed, texts)
        if self.do == "add-highlight":
            yield Highlight()


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
    pattern = re.compile(rf"{kind}\.([1-9][0-9]{{0,3}})\.\w+")
    numbers = set()
    for name in data:
        if match := pattern.fullmatch(name):
            numbers.add(int(match[1]))
    return sorted(numbers)


def without_blank_rows(answers: Answers) -> Answers:
    """`answers` without the rows into which nothing was typed."""
    citations = [each for each in answers.citations if each.reference or each.section or each.passage]
    added = [rubric for rubric in answers.added if rubric.criterion.strip()]
    highlights = [highlight for highlight in answers.highlights if highlight.quote.strip()]
    return replace(answers, citations=tuple(citations), added=tuple(added), highlights=tuple(highlights))


def blank_citation(kind: str = "") -> Citation:
    """A new row, read today by default. Without a kind, it is recognised from the reference."""
    return Citation(kind, read_on=timezone.localdate().isoformat())


def asks_for_evidence(form: Form) -> bool:
    """Whether any answer of the form requires a source."""
    return any(requires_evidence(question) for question in form.questions)


def requires_evidence(question: Question) -> bool:
    """Whether any answer to the question requires a source."""
    return any(choice.evidence for choice in question.choices)
