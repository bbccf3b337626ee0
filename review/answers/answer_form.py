"""Build the answer form for the templates: its controls, their values, a sentence per problem."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from django.utils.translation import gettext

from review.answers import harms
from review.answers.controls import (
    AddedRow,
    CitationRow,
    Control,
    ControlRow,
    Correction,
    FilledForm,
    FormProblem,
    HarmRow,
    HighlightRow,
    Option,
)
from review.answers.posted_answers import NO_OFFERS, Offer, Offers, asks_for_evidence, blank_citation, only_trap
from review.answers.question_display import question_display, required_with, rubric_display
from review.labels import (
    CITATION_KINDS,
    CITATION_LEVELS,
    DECLARATIONS,
    FINDINGS,
    HARMS,
    PROBLEM_MESSAGES,
    VERDICTS,
    translate,
)
from review.rules.blocks import Block, Highlight
from review.rules.citations import is_by_trap
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

_REQUIRED_WITH = {"corrected": "wording", "inadequate": "note", "removed": "note"}
BLANK = 0  # the number of the row that a script copies


class _ControlBuilder:
    """Builds the controls of a form, each with its error."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.errors = {problem.field: _sentence(problem) for problem in reversed(problems)}
        first = problems[0].field if problems else ""
        self.focused = "citation.1.reference" if first == "citations" else first

    def control(self, name: str, id_: str, value: str, options: Sequence[tuple[str, str]] = ()) -> Control:
        buttons = tuple(Option(f"{id_}-{n}", v, label, v == value) for n, (v, label) in enumerate(options, 1))
        return Control(name, id_, value, buttons, self.errors.get(name, ""), focus=name == self.focused)

    def severity(self, form: Form, name: str, id_: str, value: str) -> Control:
        control = self.control(name, id_, value, [(level.value, translate(level.label)) for level in form.severities])
        abouts = [translate(level.about) or str(HARMS.get(level.value, "")) for level in form.severities]
        pairs = zip(control.options, abouts, strict=True)
        return replace(control, options=tuple(replace(option, about=about) for option, about in pairs))

    def code(self, name: str, id_: str, value: str, reasons: Sequence[Reason]) -> Control:
        control = self.control(name, id_, value, [(reason.code, translate(reason.label)) for reason in reasons])
        pairs = zip(control.options, reasons, strict=True)
        return replace(control, options=tuple(replace(option, reducible=reason.reducible) for option, reason in pairs))

    def citation(self, form: Form, number: int, citation: Citation) -> CitationRow:
        name, id_ = f"citation.{number}", f"citation-{number}"
        by_trap = is_by_trap(form.terms)
        traps = [("", gettext("Choose")), *((term.code, f"{term.code} {translate(term.name)}") for term in form.terms)]
        levels = [("", gettext("Automatic")), *((level, str(label)) for level, label in CITATION_LEVELS.items())]
        kinds = [("", gettext("Automatic")), *((k, str(v)) for k, v in CITATION_KINDS.items())]
        return CitationRow(
            number,
            self.control(f"{name}.kind", f"{id_}-kind", citation.kind, kinds),
            self.control(f"{name}.reference", f"{id_}-reference", citation.reference),
            self.control(f"{name}.section", f"{id_}-section", citation.section),
            self.control(f"{name}.passage", f"{id_}-passage", citation.passage),
            self.control(f"{name}.read_on", f"{id_}-read-on", citation.read_on),
            self.control(f"{name}.trap", f"{id_}-trap", citation.trap or only_trap(form), traps) if by_trap else None,
            self.control(f"{name}.level", f"{id_}-level", citation.level, levels) if by_trap else None,
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
    return str(PROBLEM_MESSAGES[problem.code])


def fill_form(
    form: Form,
    answers: Answers,
    problems: Sequence[Problem] = (),
    offers: Offers = NO_OFFERS,
    committed: Collection[str] = (),
    *,
    blocks: Sequence[Block] = (),
    rejected_before: bool = False,
    declares: bool = False,
) -> FilledForm:
    """The form with `answers` filled in and each problem at its field.

    The inverse of `answers_from_post`.

    Args:
        committed: keys of the questions that were answered before the traps were revealed.
        blocks: what the case shows, some of it with a question.
        rejected_before: as in `review.rules.questions.problems`.
        declares: whether this is the secondary's last answer, which declares whether differing
            rubrics change the wording or the meaning.
    """
    trap_levels = harms.trap_levels(form, answers)
    builder = _ControlBuilder(harms.problems_by_trap(form, trap_levels, problems))
    sources = answers.citations or ((blank_citation(),) if asks_for_evidence(form) else ())
    questions = tuple(
        _question(builder, number, form, answers.questions.get(question.key, Answer()), committed, blocks)
        for number, question in enumerate(form.questions, 1)
    )
    rubrics = tuple(
        _rubric(builder, form, number, rubric, answers, offers, trap_levels)
        for number, rubric in enumerate(form.rubrics, 1)
    )
    filled = FilledForm(
        questions=questions,
        rubrics=rubrics,
        harms=_harms(builder, form, trap_levels),
        citations=tuple(builder.citation(form, number, each) for number, each in enumerate(sources, 1)),
        added=tuple(builder.added(form, number, each) for number, each in enumerate(answers.added, 1)),
        highlights=tuple(builder.highlight(form, number, each) for number, each in enumerate(answers.highlights, 1)),
        verdict=builder.control(
            "verdict", "verdict", answers.verdict, [(v, str(label)) for v, label in VERDICTS.items()]
        ),
        reason_code=builder.code("reason_code", "reason-code", answers.reason_code, form.reasons),
        dissent_code=builder.code(
            "dissent_code", "dissent-code", answers.dissent_code, form.dissents if rejected_before else ()
        ),
        reason=builder.control("reason", "reason", answers.reason),
        change_reason=builder.control("change_reason", "change-reason", answers.change_reason),
        declaration=builder.control(
            "declaration",
            "declaration",
            answers.declaration,
            [(value, str(label)) for value, label in DECLARATIONS.items()] if declares else (),
        ),
        agreed=builder.control("agreed", "agreed", "1"),
        blank_citation=builder.citation(form, BLANK, blank_citation()),
        blank_added=builder.added(form, BLANK, AddedRubric("")),
        blank_highlight=builder.highlight(form, BLANK, Highlight()),
        evidence_error=builder.errors.get("citations", ""),
        accepted_evidence=_accepted_evidence(form),
        problems=(),
    )
    return replace(filled, problems=tuple(_form_problems(filled, builder.errors)))


def _accepted_evidence(form: Form) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Which kinds of source prove which traps, for those of which the form says so."""
    names: dict[tuple[str, ...], list[str]] = {}
    for term in form.terms:
        if term.evidence or term.levels:
            labels = [CITATION_KINDS[kind] for kind in term.evidence] + [CITATION_LEVELS[each] for each in term.levels]
            kinds = tuple(map(str, labels))
            names.setdefault(kinds, []).append(f"{term.code} {translate(term.name)}")
    return tuple((kinds, tuple(traps)) for kinds, traps in names.items())


def _question(
    builder: _ControlBuilder,
    number: int,
    form: Form,
    answer: Answer,
    committed: Collection[str],
    blocks: Sequence[Block],
) -> ControlRow:
    question = form.questions[number - 1]
    name, id_ = f"question.{question.key}", f"question-{number}"
    choice = builder.control(name, id_, answer.value, [(c.value, translate(c.label)) for c in question.choices])
    chosen = question.chosen(answer.value)
    pairs = zip(choice.options, question.choices, strict=True)
    return ControlRow(
        number=number,
        title=translate(question.label),
        help=translate(question.help),
        tags=(),
        choice=replace(
            choice,
            options=tuple(
                replace(option, requires=required_with(answer_choice), chosen=answer_choice in chosen)
                for option, answer_choice in pairs
            ),
        ),
        note=builder.control(f"{name}.note", f"{id_}-note", answer.note),
        committed=question.key in committed,
        asks=translate(question.asks),
        display=question_display(form, question, () if question.key in committed else blocks),
    )


def corrections(form: Form, answers: Answers) -> tuple[Correction, ...]:
    """How each rubric's wording was corrected, in the order of the form, as in `fill_form`."""
    return tuple(
        Correction(number, _correction_diff(rubric, answers.rubrics.get(rubric.key, RubricAnswer())))
        for number, rubric in enumerate(form.rubrics, 1)
    )


def _correction_diff(rubric: RubricText, finding: RubricAnswer) -> tuple[Span, ...]:
    is_corrected = finding.value == "corrected" and finding.wording.strip()
    return diff_words(rubric.criterion, finding.wording) if is_corrected else ()


def _harms(builder: _ControlBuilder, form: Form, trap_levels: Mapping[str, str]) -> tuple[HarmRow, ...]:
    rows = []
    for number, tag in enumerate(form.tags if form.severities else (), 1):
        choice = builder.severity(form, f"harm.{tag}", f"harm-{number}", trap_levels[tag])
        rubrics = tuple(f"rubric.{rubric.key}" for rubric in form.rubrics if tag in rubric.tags)
        by_ahrq = all(option.about == str(HARMS.get(option.value)) for option in choice.options)
        rows.append(HarmRow(tag, choice, rubrics, by_ahrq))
    return tuple(rows)


def _rubric(
    builder: _ControlBuilder,
    form: Form,
    number: int,
    rubric: RubricText,
    answers: Answers,
    offers: Offers,
    trap_levels: Mapping[str, str],
) -> ControlRow:
    name, id_ = f"rubric.{rubric.key}", f"rubric-{number}"
    finding = answers.rubrics.get(rubric.key, RubricAnswer())
    level = harms.own_level(form, answers, rubric, trap_levels)
    labels = [(v, str(label)) for v, label in FINDINGS.items() if v != "removed" or form.rubrics_editable]
    choice = builder.control(name, id_, finding.value, labels)
    options = (replace(option, requires=_REQUIRED_WITH.get(option.value, "")) for option in choice.options)
    choice = replace(choice, options=tuple(options))
    wording = finding.wording if finding.value == "corrected" else ""
    return ControlRow(
        number=number,
        title=rubric.criterion,
        help="",
        tags=rubric.tags,
        choice=_with_offers(choice, rubric.criterion, wording, offers.get(rubric.key, ())),
        note=builder.control(f"{name}.note", f"{id_}-note", finding.note),
        wording=builder.control(f"{name}.wording", f"{id_}-wording", wording or rubric.criterion),
        severity=builder.severity(form, f"{name}.severity", f"{id_}-severity", level) if form.severities else None,
        diff=_correction_diff(rubric, finding),
        display=rubric_display(form),
    )


def _with_offers(choice: Control, original: str, wording: str, offers: Sequence[Offer]) -> Control:
    """The radio group, plus a button per offered wording; the one equal to `wording` is chosen."""
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


def _form_problems(filled: FilledForm, errors: Mapping[str, str]) -> Iterator[FormProblem]:
    """The lines of the error summary, in the order of the page, each linking to its field.

    A problem without a field on the page links to the form.
    """
    shown: set[str] = set()
    for label, control in _labelled_controls(filled):
        if control.error:
            shown.add(control.name)
            yield FormProblem(control.target, label, control.error)
    for name, sentence in errors.items():
        if name not in shown:
            is_evidence = name == "citations"
            label = gettext("Evidence") if is_evidence else gettext("Answers")
            yield FormProblem("citation-1-reference" if is_evidence else "answers", label, sentence)


def _labelled_controls(filled: FilledForm) -> Iterator[tuple[str, Control]]:
    yield gettext("What both reviewers agree on"), filled.agreed
    for row in filled.questions:
        yield from ((f"{row.number} {row.title}", control) for control in row.controls)
        if row.display.sources:
            for source in filled.citations:
                label = gettext("Source %(number)s") % {"number": source.number}
                yield from ((label, control) for control in source.controls)
    for row in filled.rubrics:
        label = gettext("Rubric %(number)s") % {"number": row.number}
        yield from ((label, control) for control in row.controls)
    for harm in filled.harms:
        yield gettext("Harm of trap %(tag)s") % {"tag": harm.tag}, harm.choice
    for added in filled.added:
        label = gettext("Your rubric %(number)s") % {"number": added.number}
        yield from ((label, control) for control in added.controls)
    for highlight in filled.highlights:
        label = gettext("Highlight %(number)s") % {"number": highlight.number}
        yield from ((label, control) for control in highlight.controls)
    yield gettext("Verdict"), filled.verdict
    yield from ((gettext("Reason"), control) for control in (filled.reason_code, filled.dissent_code, filled.reason))
    yield gettext("Reason for change"), filled.change_reason
    yield gettext("Change of wording or of meaning"), filled.declaration
