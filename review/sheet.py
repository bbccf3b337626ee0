"""Answers out of a posted form and back into one: names of the fields, what each control shows, a sentence a problem.

Fields are named as `review.questions.Problem` names them: `question.<key>`, `question.<key>.note`, `rubric.<key>`,
`rubric.<key>.wording`, `.note`, `.severity`, `citation.<n>.<part>`, `added.<n>.<part>` (n from 1), `verdict`, `reason_code`,
`dissent_code`, `reason`, `change_reason`. Rows that one may add or take away come and go by `do`: `add-citation`,
`remove-citation.<n>`, `add-rubric`, `remove-rubric.<n>`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from django.http import QueryDict
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from review.diffing import Span, words
from review.labels import CITATION_KINDS, FINDINGS, HARMS, VERDICTS
from review.questions import (
    AddedRubric,
    Answer,
    Answers,
    Citation,
    Form,
    Level,
    Problem,
    Question,
    Reason,
    RubricAnswer,
    RubricText,
)

SENTENCES: dict[str, Promise] = {
    "unanswered": _("Choose an answer."),
    "unknown-value": _("This is none of the answers. Choose again."),
    "note-missing": _("Say in the note what is wrong: whoever makes the next version works from it."),
    "wording-missing": _("Write the corrected wording."),
    "wording-unchanged": _("The wording is the original. Change it, or mark the rubric adequate."),
    "verdict-missing": _("Approve or reject."),
    "verdict-contradicts": _("An answer above says that the case cannot stay as it is: it cannot be approved."),
    "reason-missing": _("Say why it is rejected."),
    "change-reason-missing": _("Your answer differs from the one you committed. Say why, or keep yours."),
    "unknown-field": _("This case does not ask that."),
    "evidence-missing": _("This answer wants evidence: add at least one source."),
    "citation-malformed": _("This is not written as such a source is. Look at the example."),
    "citation-incomplete": _(
        "Part of the source is missing: the reference, the passage quoted and the day it was read."
    ),
    "citation-duplicate": _("This source is given already."),
    "severity-missing": _("Say how much harm it could do."),
    "reason-code-missing": _("Choose the reason that fits best."),
    "dissent-code-missing": _("The first reviewer rejected it. Choose why you approve it all the same."),
    "dissent-reason-missing": _("Say in your words why you approve what the first reviewer rejected."),
    "criterion-missing": _("Write what a good answer must do."),
    "criterion-duplicate": _("There is a rubric that says the same."),
    "no-rubric-left": _("No rubric is left: keep one, or add your own."),
}


def said(msgid: str) -> str:
    """A string of a benchmark in the reader's language. (gettext answers the empty string with its catalogue's head.)"""
    return gettext(msgid) if msgid else ""


@dataclass(frozen=True, slots=True)
class Offer:
    """Another reviewer's wording of a rubric, to be adopted by one choice. `value` is that choice's."""

    value: str
    label: str
    wording: str


Offers = Mapping[str, Sequence[Offer]]  # by rubric key
NO_OFFERS: Offers = {}


# Out of a posted form -------------------------------------------------------------------------------------------------


def answers_from_post(form: Form, data: QueryDict, offers: Offers = NO_OFFERS) -> Answers:
    """What was typed, complete or not, with the row added or removed that `do` asks for.

    Fields that the case does not ask for are left out.
    """

    def text(name: str) -> str:
        # Browsers send CRLF; a wording would differ from its original by that alone. PostgreSQL refuses NUL.
        return data.get(name, "").replace("\r\n", "\n").replace("\0", "")

    rubrics = {}
    for rubric in form.rubrics:
        where = f"rubric.{rubric.key}"
        value, wording = text(where), text(f"{where}.wording")
        adopted = next((offer for offer in offers.get(rubric.key, ()) if offer.value == value), None)
        if adopted is not None:
            value, wording = "corrected", adopted.wording
        rubrics[rubric.key] = RubricAnswer(
            value=value,
            wording=wording if value == "corrected" else "",
            note=text(f"{where}.note"),
            severity=text(f"{where}.severity"),
        )
    do = text("do")
    citations = [
        Citation(*(text(f"citation.{n}.{part}") for part in ("kind", "reference", "section", "passage", "read_on")))
        for n in _rows(data, "citation")
        if do != f"remove-citation.{n}"
    ]
    if do == "add-citation":
        citations.append(blank_citation())
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
    return Answers(
        questions={
            question.key: Answer(text(f"question.{question.key}"), text(f"question.{question.key}.note"))
            for question in form.questions
        },
        rubrics=rubrics,
        verdict=text("verdict"),
        reason=text("reason"),
        reason_code=text("reason_code"),
        dissent_code=text("dissent_code"),
        change_reason=text("change_reason"),
        citations=tuple(citations) if asks_evidence(form) else (),
        added=tuple(added) if form.rubrics_editable else (),
    )


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
    )


def blank_citation() -> Citation:
    """A new row: read today, most likely."""
    return Citation(kind="guideline", read_on=timezone.localdate().isoformat())


def asks_evidence(form: Form) -> bool:
    """Whether any answer of the form wants a source."""
    return any(_wants_evidence(question) for question in form.questions)


def _wants_evidence(question: Question) -> bool:
    return any(choice.evidence for choice in question.choices)


# Into a form ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """One radio button or box."""

    id: str
    value: str
    label: str
    chosen: bool
    wording: tuple[Span, ...] = ()  # of an offer: what it changes in the original
    reducible: bool | None = None  # of a reason: whether a new version can mend it
    about: str = ""  # what the label means, at length


@dataclass(frozen=True, slots=True)
class Control:
    """One field of the form: a text field, or with `options` a group of them. `focus`: the first that has a problem."""

    name: str
    id: str
    value: str
    options: tuple[Option, ...] = ()
    error: str = ""
    focus: bool = False

    @property
    def target(self) -> str:
        """The id that an error summary leads to."""
        return self.options[0].id if self.options else self.id

    @property
    def answered(self) -> bool:
        """Whether one of the options is chosen."""
        return any(option.chosen for option in self.options)


@dataclass(frozen=True, slots=True)
class Row:
    """A question or a rubric with its controls. `diff`: the corrected wording against the original.

    given: answered before the traps were revealed, to be read and not changed. evidence: its answer wants sources.
    """

    number: int
    title: str
    help: str
    tags: tuple[str, ...]
    choice: Control
    note: Control
    wording: Control | None = None
    severity: Control | None = None
    diff: tuple[Span, ...] = ()
    given: bool = False
    evidence: bool = False

    @property
    def controls(self) -> tuple[Control, ...]:
        """All of the row's fields, in the order of the page."""
        return tuple(each for each in (self.choice, self.wording, self.note, self.severity) if each is not None)

    @property
    def missing(self) -> bool:
        return any(control.error for control in self.controls)


@dataclass(frozen=True, slots=True)
class CitationRow:
    """One source."""

    number: int
    kind: Control
    reference: Control
    section: Control
    passage: Control
    read_on: Control

    @property
    def controls(self) -> tuple[Control, ...]:
        return (self.kind, self.reference, self.section, self.passage, self.read_on)


@dataclass(frozen=True, slots=True)
class Correction:
    """What was changed in the wording of the rubric with this number; nothing: not corrected."""

    number: int
    diff: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class AddedRow:
    """One rubric of the physician's own. `tags` are boxes, `severity` is None where it is not asked."""

    number: int
    criterion: Control
    tags: Control
    severity: Control | None

    @property
    def controls(self) -> tuple[Control, ...]:
        return tuple(each for each in (self.criterion, self.tags, self.severity) if each is not None)


@dataclass(frozen=True, slots=True)
class Fault:
    """A line of the error summary."""

    target: str
    label: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """The whole form as a page shows it. A blank row of each kind lets a script add one without asking.

    `dissent_code` has options only where the primary's rejection is before the physician's eyes.
    """

    questions: tuple[Row, ...]
    rubrics: tuple[Row, ...]
    citations: tuple[CitationRow, ...]
    added: tuple[AddedRow, ...]
    verdict: Control
    reason_code: Control
    dissent_code: Control
    reason: Control
    change_reason: Control
    blank_citation: CitationRow
    blank_added: AddedRow
    evidence_error: str
    faults: tuple[Fault, ...]


BLANK = 0  # the number of the row that a script copies


class _Filling:
    """The controls of one form, with the problem of each beside it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.wrong = {problem.field: _sentence(problem) for problem in reversed(problems)}
        self.first = problems[0].field if problems else ""

    def control(self, name: str, id_: str, value: str, options: Sequence[tuple[str, str]] = ()) -> Control:
        buttons = tuple(Option(f"{id_}-{n}", v, label, v == value) for n, (v, label) in enumerate(options, 1))
        return Control(name, id_, value, buttons, self.wrong.get(name, ""), focus=name == self.first)

    def severity(self, form: Form, name: str, id_: str, value: str) -> Control | None:
        if not form.severities:
            return None
        made = self.control(name, id_, value, [(level.value, said(level.label)) for level in form.severities])
        return replace(made, options=tuple(map(_explained, made.options, form.severities)))

    def code(self, name: str, id_: str, value: str, reasons: Sequence[Reason]) -> Control:
        made = self.control(name, id_, value, [(reason.code, said(reason.label)) for reason in reasons])
        options = zip(made.options, reasons, strict=True)
        return replace(made, options=tuple(replace(each, reducible=reason.reducible) for each, reason in options))

    def citation(self, number: int, citation: Citation) -> CitationRow:
        name, id_ = f"citation.{number}", f"citation-{number}"
        kinds = [(value, str(label)) for value, label in CITATION_KINDS.items()]
        return CitationRow(
            number,
            self.control(f"{name}.kind", f"{id_}-kind", citation.kind, kinds),
            self.control(f"{name}.reference", f"{id_}-reference", citation.reference),
            self.control(f"{name}.section", f"{id_}-section", citation.section),
            self.control(f"{name}.passage", f"{id_}-passage", citation.passage),
            self.control(f"{name}.read_on", f"{id_}-read-on", citation.read_on),
        )

    def added(self, form: Form, number: int, rubric: AddedRubric) -> AddedRow:
        name, id_ = f"added.{number}", f"added-{number}"
        boxes = self.control(f"{name}.tags", f"{id_}-tags", "", [(tag, tag) for tag in form.tags])
        boxes = replace(boxes, options=tuple(replace(box, chosen=box.value in rubric.tags) for box in boxes.options))
        return AddedRow(
            number,
            self.control(f"{name}.criterion", f"{id_}-criterion", rubric.criterion),
            boxes,
            self.severity(form, f"{name}.severity", f"{id_}-severity", rubric.severity),
        )


def _sentence(problem: Problem) -> str:
    if problem.field.endswith(".read_on"):
        return gettext("Give the day on which you read it, today at the latest.")
    return str(SENTENCES[problem.code])


def _explained(option: Option, level: Level) -> Option:
    return replace(option, about=str(HARMS.get(level.value, "")))


def sheet(
    form: Form,
    answers: Answers,
    problems: Sequence[Problem] = (),
    offers: Offers = NO_OFFERS,
    given: Collection[str] = (),
    *,
    rejected_before: bool = False,
) -> Sheet:
    """The form with `answers` filled in and every problem beside its field; the inverse of `answers_from_post`.

    given: keys of the questions that were answered before the traps were revealed. rejected_before: as of `problems`.
    """
    filling = _Filling(problems)
    questions = tuple(
        _question(filling, number, question, answers.questions.get(question.key, Answer()), question.key in given)
        for number, question in enumerate(form.questions, 1)
    )
    rubrics = tuple(
        _rubric(filling, form, number, rubric, answers.rubrics.get(rubric.key, RubricAnswer()), offers)
        for number, rubric in enumerate(form.rubrics, 1)
    )
    made = Sheet(
        questions=questions,
        rubrics=rubrics,
        citations=tuple(filling.citation(number, each) for number, each in enumerate(answers.citations, 1)),
        added=tuple(filling.added(form, number, each) for number, each in enumerate(answers.added, 1)),
        verdict=filling.control(
            "verdict", "verdict", answers.verdict, [(v, str(label)) for v, label in VERDICTS.items()]
        ),
        reason_code=filling.code("reason_code", "reason-code", answers.reason_code, form.reasons),
        dissent_code=filling.code(
            "dissent_code", "dissent-code", answers.dissent_code, form.dissents if rejected_before else ()
        ),
        reason=filling.control("reason", "reason", answers.reason),
        change_reason=filling.control("change_reason", "change-reason", answers.change_reason),
        blank_citation=filling.citation(BLANK, blank_citation()),
        blank_added=filling.added(form, BLANK, AddedRubric("")),
        evidence_error=filling.wrong.get("citations", ""),
        faults=(),
    )
    return replace(made, faults=tuple(_faults(made, filling.wrong)))


def _question(filling: _Filling, number: int, question: Question, answer: Answer, given: bool) -> Row:
    name, id_ = f"question.{question.key}", f"question-{number}"
    return Row(
        number=number,
        title=said(question.label),
        help=said(question.help),
        tags=(),
        choice=filling.control(name, id_, answer.value, [(c.value, said(c.label)) for c in question.choices]),
        note=filling.control(f"{name}.note", f"{id_}-note", answer.note),
        given=given,
        evidence=_wants_evidence(question),
    )


def corrections(form: Form, answers: Answers) -> tuple[Correction, ...]:
    """How each rubric's wording was corrected, in the order of the form; what `sheet` shows beside its field."""
    return tuple(
        Correction(number, _corrected(rubric, answers.rubrics.get(rubric.key, RubricAnswer())))
        for number, rubric in enumerate(form.rubrics, 1)
    )


def _corrected(rubric: RubricText, finding: RubricAnswer) -> tuple[Span, ...]:
    changed = finding.value == "corrected" and finding.wording.strip()
    return words(rubric.criterion, finding.wording) if changed else ()


def _rubric(
    filling: _Filling, form: Form, number: int, rubric: RubricText, finding: RubricAnswer, offers: Offers
) -> Row:
    name, id_ = f"rubric.{rubric.key}", f"rubric-{number}"
    labels = [(v, str(label)) for v, label in FINDINGS.items() if v != "removed" or form.rubrics_editable]
    choice = filling.control(name, id_, finding.value, labels)
    wording = finding.wording if finding.value == "corrected" else ""
    return Row(
        number=number,
        title=rubric.criterion,
        help="",
        tags=rubric.tags,
        choice=_with_offers(choice, rubric.criterion, wording, offers.get(rubric.key, ())),
        note=filling.control(f"{name}.note", f"{id_}-note", finding.note),
        wording=filling.control(f"{name}.wording", f"{id_}-wording", wording or rubric.criterion),
        severity=filling.severity(form, f"{name}.severity", f"{id_}-severity", finding.severity),
        diff=_corrected(rubric, finding),
    )


def _with_offers(choice: Control, original: str, wording: str, offers: Sequence[Offer]) -> Control:
    """The radio group with a button for each wording on offer; adopted already = that button is the chosen one."""
    if not offers:
        return choice
    adopted = next((offer.value for offer in offers if offer.wording.strip() == wording.strip()), choice.value)
    options = [replace(option, chosen=option.value == adopted) for option in choice.options] + [
        Option(f"{choice.id}-{n}", offer.value, offer.label, offer.value == adopted, words(original, offer.wording))
        for n, offer in enumerate(offers, len(choice.options) + 1)
    ]
    return replace(choice, options=tuple(options))


def _faults(made: Sheet, wrong: Mapping[str, str]) -> Iterator[Fault]:
    """Every problem with the field it leads to, in the order of the page; one of no field leads to the form."""
    shown: set[str] = set()
    for label, control in _labelled(made):
        if control.error:
            shown.add(control.name)
            yield Fault(control.target, label, control.error)
    for name, sentence in wrong.items():
        if name not in shown:
            yield Fault("add-citation" if name == "citations" else "answers", gettext("Answers"), sentence)


def _labelled(made: Sheet) -> Iterator[tuple[str, Control]]:
    for row in made.questions:
        yield from ((f"{row.number} {row.title}", control) for control in row.controls)
        if row.evidence:
            for source in made.citations:
                label = gettext("Source %(number)s") % {"number": source.number}
                yield from ((label, control) for control in source.controls)
    for row in made.rubrics:
        label = gettext("Rubric %(number)s") % {"number": row.number}
        yield from ((label, control) for control in row.controls)
    for own in made.added:
        label = gettext("Rubric of your own %(number)s") % {"number": own.number}
        yield from ((label, control) for control in own.controls)
    yield gettext("Verdict"), made.verdict
    yield gettext("Reason"), made.reason_code
    yield gettext("Reason"), made.dissent_code
    yield gettext("Reason"), made.reason
    yield gettext("Reason of the change"), made.change_reason
