"""The answer form as it is shown: its controls, what each holds, and one sentence per problem."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from django.utils.translation import gettext

from review.answers import harms
from review.answers.controls import (
    AddedRow,
    CitationRow,
    Control,
    Correction,
    FilledForm,
    FormProblem,
    HarmRow,
    HighlightRow,
    Option,
    Row,
)
from review.answers.posted_answers import NO_OFFERS, Offer, Offers, asks_evidence, blank_citation
from review.answers.question_display import asked, asked_rubric, wanted_with
from review.labels import CITATION_KINDS, DECLARATIONS, FINDINGS, HARMS, SENTENCES, VERDICTS, translate
from review.rules.blocks import Highlight
from review.rules.diffing import Span, diff_words
from review.rules.questions import (
    AddedRubric,
    Answer,
    Answers,
    Citation,
    Form,
    Problem,
    Reason,
    RubricAnswer,
    RubricText,
)

_WANTS = {"corrected": "wording", "inadequate": "note", "removed": "note"}
BLANK = 0  # the number of the row that a script copies


class _Filling:
    """The controls of one form, with the problem of each beside it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.wrong = {problem.field: _sentence(problem) for problem in reversed(problems)}
        first = problems[0].field if problems else ""
        self.first = "citation.1.reference" if first == "citations" else first

    def control(self, name: str, id_: str, value: str, options: Sequence[tuple[str, str]] = ()) -> Control:
        buttons = tuple(Option(f"{id_}-{n}", v, label, v == value) for n, (v, label) in enumerate(options, 1))
        return Control(name, id_, value, buttons, self.wrong.get(name, ""), focus=name == self.first)

    def severity(self, form: Form, name: str, id_: str, value: str) -> Control:
        made = self.control(name, id_, value, [(level.value, translate(level.label)) for level in form.severities])
        abouts = [translate(level.about) or str(HARMS.get(level.value, "")) for level in form.severities]
        options = zip(made.options, abouts, strict=True)
        return replace(made, options=tuple(replace(each, about=about) for each, about in options))

    def code(self, name: str, id_: str, value: str, reasons: Sequence[Reason]) -> Control:
        made = self.control(name, id_, value, [(reason.code, translate(reason.label)) for reason in reasons])
        options = zip(made.options, reasons, strict=True)
        return replace(made, options=tuple(replace(each, reducible=reason.reducible) for each, reason in options))

    def citation(self, number: int, citation: Citation) -> CitationRow:
        name, id_ = f"citation.{number}", f"citation-{number}"
        kinds = [("", gettext("Automatic")), *((k, str(v)) for k, v in CITATION_KINDS.items())]
        return CitationRow(
            number,
            self.control(f"{name}.kind", f"{id_}-kind", citation.kind, kinds),
            self.control(f"{name}.reference", f"{id_}-reference", citation.reference),
            self.control(f"{name}.section", f"{id_}-section", citation.section),
            self.control(f"{name}.passage", f"{id_}-passage", citation.passage),
            self.control(f"{name}.read_on", f"{id_}-read-on", citation.read_on),
        )

    def highlight(self, form: Form, number: int, highlight: Highlight) -> HighlightRow:
        name, id_ = f"highlight.{number}", f"highlight-{number}"
        labels = [(label.value, translate(label.label)) for label in form.labels]
        return HighlightRow(
            number,
            self.control(f"{name}.label", f"{id_}-label", highlight.label, labels),
            self.control(f"{name}.quote", f"{id_}-quote", highlight.quote),
            highlight,
        )

    def added(self, form: Form, number: int, rubric: AddedRubric) -> AddedRow:
        name, id_ = f"added.{number}", f"added-{number}"
        boxes = self.control(f"{name}.tags", f"{id_}-tags", "", [(tag, tag) for tag in form.tags])
        boxes = replace(boxes, options=tuple(replace(box, chosen=box.value in rubric.tags) for box in boxes.options))
        return AddedRow(
            number,
            self.control(f"{name}.criterion", f"{id_}-criterion", rubric.criterion),
            boxes,
            self.severity(form, f"{name}.severity", f"{id_}-severity", rubric.severity) if form.severities else None,
        )


def _sentence(problem: Problem) -> str:
    if problem.field.endswith(".read_on"):
        return gettext("Enter the date you read it. The date cannot be in the future.")
    if problem.field.endswith(".note") and problem.code == "unanswered":
        return gettext("Enter your answer.")
    return str(SENTENCES[problem.code])


def fill_form(
    form: Form,
    answers: Answers,
    problems: Sequence[Problem] = (),
    offers: Offers = NO_OFFERS,
    given: Collection[str] = (),
    *,
    rejected_before: bool = False,
    declares: bool = False,
) -> FilledForm:
    """The form with `answers` filled in and every problem beside its field; the inverse of `answers_from_post`.

    given: keys of the questions that were answered before the traps were revealed. rejected_before: as of `problems`.
    declares: it is the secondary's last word, in which a difference of the rubrics is declared.
    """
    of_traps = harms.by_trap(form, answers)
    filling = _Filling(harms.asked_by_trap(form, of_traps, problems))
    sources = answers.citations or ((blank_citation(),) if asks_evidence(form) else ())
    questions = tuple(
        _question(filling, number, form, answers.questions.get(question.key, Answer()), given)
        for number, question in enumerate(form.questions, 1)
    )
    rubrics = tuple(
        _rubric(filling, form, number, rubric, answers, offers, of_traps)
        for number, rubric in enumerate(form.rubrics, 1)
    )
    made = FilledForm(
        questions=questions,
        rubrics=rubrics,
        harms=_harms(filling, form, of_traps),
        citations=tuple(filling.citation(number, each) for number, each in enumerate(sources, 1)),
        added=tuple(filling.added(form, number, each) for number, each in enumerate(answers.added, 1)),
        highlights=tuple(filling.highlight(form, number, each) for number, each in enumerate(answers.highlights, 1)),
        verdict=filling.control(
            "verdict", "verdict", answers.verdict, [(v, str(label)) for v, label in VERDICTS.items()]
        ),
        reason_code=filling.code("reason_code", "reason-code", answers.reason_code, form.reasons),
        dissent_code=filling.code(
            "dissent_code", "dissent-code", answers.dissent_code, form.dissents if rejected_before else ()
        ),
        reason=filling.control("reason", "reason", answers.reason),
        change_reason=filling.control("change_reason", "change-reason", answers.change_reason),
        declaration=filling.control(
            "declaration",
            "declaration",
            answers.declaration,
            [(value, str(label)) for value, label in DECLARATIONS.items()] if declares else (),
        ),
        agreed=filling.control("agreed", "agreed", "1"),
        blank_citation=filling.citation(BLANK, blank_citation()),
        blank_added=filling.added(form, BLANK, AddedRubric("")),
        blank_highlight=filling.highlight(form, BLANK, Highlight()),
        evidence_error=filling.wrong.get("citations", ""),
        fitting=_fitting(form),
        faults=(),
    )
    return replace(made, faults=tuple(_faults(made, filling.wrong)))


def _fitting(form: Form) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Which kinds of source show which traps, where the form says so."""
    found: dict[tuple[str, ...], list[str]] = {}
    for term in form.terms:
        if term.evidence:
            kinds = tuple(str(CITATION_KINDS[kind]) for kind in term.evidence)
            found.setdefault(kinds, []).append(f"{term.code} {translate(term.name)}")
    return tuple((kinds, tuple(names)) for kinds, names in found.items())


def _question(filling: _Filling, number: int, form: Form, answer: Answer, given: Collection[str]) -> Row:
    question = form.questions[number - 1]
    name, id_ = f"question.{question.key}", f"question-{number}"
    choice = filling.control(name, id_, answer.value, [(c.value, translate(c.label)) for c in question.choices])
    chosen = question.chosen(answer.value)
    pairs = zip(choice.options, question.choices, strict=True)
    return Row(
        number=number,
        title=translate(question.label),
        help=translate(question.help),
        tags=(),
        choice=replace(
            choice,
            options=tuple(replace(each, wants=wanted_with(one), chosen=one in chosen) for each, one in pairs),
        ),
        note=filling.control(f"{name}.note", f"{id_}-note", answer.note),
        given=question.key in given,
        asks=translate(question.asks),
        asked=asked(form, question),
    )


def corrections(form: Form, answers: Answers) -> tuple[Correction, ...]:
    """How each rubric's wording was corrected, in the order of the form; what `fill_form` shows beside its field."""
    return tuple(
        Correction(number, _corrected(rubric, answers.rubrics.get(rubric.key, RubricAnswer())))
        for number, rubric in enumerate(form.rubrics, 1)
    )


def _corrected(rubric: RubricText, finding: RubricAnswer) -> tuple[Span, ...]:
    changed = finding.value == "corrected" and finding.wording.strip()
    return diff_words(rubric.criterion, finding.wording) if changed else ()


def _harms(filling: _Filling, form: Form, of_traps: Mapping[str, str]) -> tuple[HarmRow, ...]:
    rows = []
    for number, tag in enumerate(form.tags if form.severities else (), 1):
        choice = filling.severity(form, f"harm.{tag}", f"harm-{number}", of_traps[tag])
        of_trap = tuple(f"rubric.{each.key}" for each in form.rubrics if tag in each.tags)
        by_ahrq = all(option.about == str(HARMS.get(option.value)) for option in choice.options)
        rows.append(HarmRow(tag, choice, of_trap, by_ahrq))
    return tuple(rows)


def _rubric(
    filling: _Filling,
    form: Form,
    number: int,
    rubric: RubricText,
    answers: Answers,
    offers: Offers,
    of_traps: Mapping[str, str],
) -> Row:
    name, id_ = f"rubric.{rubric.key}", f"rubric-{number}"
    finding = answers.rubrics.get(rubric.key, RubricAnswer())
    level = harms.own(form, answers, rubric, of_traps)
    labels = [(v, str(label)) for v, label in FINDINGS.items() if v != "removed" or form.rubrics_editable]
    choice = filling.control(name, id_, finding.value, labels)
    choice = replace(choice, options=tuple(replace(each, wants=_WANTS.get(each.value, "")) for each in choice.options))
    wording = finding.wording if finding.value == "corrected" else ""
    return Row(
        number=number,
        title=rubric.criterion,
        help="",
        tags=rubric.tags,
        choice=_with_offers(choice, rubric.criterion, wording, offers.get(rubric.key, ())),
        note=filling.control(f"{name}.note", f"{id_}-note", finding.note),
        wording=filling.control(f"{name}.wording", f"{id_}-wording", wording or rubric.criterion),
        severity=filling.severity(form, f"{name}.severity", f"{id_}-severity", level) if form.severities else None,
        diff=_corrected(rubric, finding),
        asked=asked_rubric(form),
    )


def _with_offers(choice: Control, original: str, wording: str, offers: Sequence[Offer]) -> Control:
    """The radio group with a button for each wording on offer; adopted already = that button is the chosen one."""
    if not offers:
        return choice
    adopted = next((offer.value for offer in offers if offer.wording.strip() == wording.strip()), choice.value)
    options = [replace(option, chosen=option.value == adopted) for option in choice.options] + [
        Option(
            f"{choice.id}-{n}", offer.value, offer.label, offer.value == adopted, diff_words(original, offer.wording)
        )
        for n, offer in enumerate(offers, len(choice.options) + 1)
    ]
    return replace(choice, options=tuple(options))


def _faults(made: FilledForm, wrong: Mapping[str, str]) -> Iterator[FormProblem]:
    """Every problem with the field it leads to, in the order of the page; one of no field to the form."""
    shown: set[str] = set()
    for label, control in _labelled(made):
        if control.error:
            shown.add(control.name)
            yield FormProblem(control.target, label, control.error)
    for name, sentence in wrong.items():
        if name not in shown:
            cited = name == "citations"
            label = gettext("Evidence") if cited else gettext("Answers")
            yield FormProblem("citation-1-reference" if cited else "answers", label, sentence)


def _labelled(made: FilledForm) -> Iterator[tuple[str, Control]]:
    yield gettext("What both reviewers agree on"), made.agreed
    for row in made.questions:
        yield from ((f"{row.number} {row.title}", control) for control in row.controls)
        if row.asked.sources:
            for source in made.citations:
                label = gettext("Source %(number)s") % {"number": source.number}
                yield from ((label, control) for control in source.controls)
    for row in made.rubrics:
        label = gettext("Rubric %(number)s") % {"number": row.number}
        yield from ((label, control) for control in row.controls)
    for harm in made.harms:
        yield gettext("Harm of trap %(tag)s") % {"tag": harm.tag}, harm.choice
    for own in made.added:
        label = gettext("Your rubric %(number)s") % {"number": own.number}
        yield from ((label, control) for control in own.controls)
    for marked in made.highlights:
        label = gettext("Highlight %(number)s") % {"number": marked.number}
        yield from ((label, control) for control in marked.controls)
    yield gettext("Verdict"), made.verdict
    yield gettext("Reason"), made.reason_code
    yield gettext("Reason"), made.dissent_code
    yield gettext("Reason"), made.reason
    yield gettext("Reason for change"), made.change_reason
    yield gettext("Change of wording or of meaning"), made.declaration
