"""Build the answer form for the templates: its controls, their values, a sentence per problem."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from review.answers import harms
from review.answers.controls import (
    Control,
    ControlRow,
    Correction,
    FilledForm,
    FormProblem,
    HarmRow,
    Option,
    RepeatedRow,
)
from review.answers.posted_answers import (
    LAST_FIELDS,
    NO_OFFERS,
    Offers,
    asks_for_evidence,
    blank_citation,
    only_trap,
    requires_evidence,
)
from review.answers.side_by_side import subject_label
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
from review.rules.citations import is_by_trap, level_of
from review.rules.diffing import Span, diff_words
from review.rules.questions import (
    BLOCKING_VALUES,
    AddedRubric,
    Answers,
    Choice,
    Citation,
    Form,
    Problem,
    Question,
    Reason,
    RubricAnswer,
    RubricText,
    blocking_fields,
)

_REQUIRED_WITH = {"corrected": "wording", "inadequate": "note", "removed": "note"}
_DASHES = str.maketrans("._", "--")
BLANK = 0  # the number of the row that a script copies


def _options(labels: Mapping[str, object], *, empty: str = "") -> list[Option]:
    """The options with these labels, after one without a value that says `empty`."""
    options = [Option(value, str(label)) for value, label in labels.items()]
    if empty:
        return [Option("", empty), *options]
    return options


class _ControlBuilder:
    """Builds the controls of a form, each with its error."""

    def __init__(self, form: Form, answers: Answers, problems: Sequence[Problem]) -> None:
        self.form = form
        self.errors = {problem.field: _sentence(problem) for problem in reversed(problems)}
        if any(problem.code == "verdict-contradicts" for problem in problems):
            self.errors["verdict"] = _contradiction(form, answers)
        first = ""
        if problems:
            first = problems[0].field
        if first == "citations":
            self.focused = "citation.1.reference"
        else:
            self.focused = first

    def control(
        self,
        name: str,
        value: str,
        options: Iterable[Option] = (),
        *,
        id_: str = "",
        chosen: Collection[str] | None = None,
    ) -> Control:
        """`chosen`: the values of the chosen options; by default the one that is `value`."""
        id_ = id_ or name.translate(_DASHES)
        if chosen is None:
            chosen = (value,)
        buttons = []
        for n, option in enumerate(options, 1):
            buttons.append(option._replace(id=f"{id_}-{n}", chosen=option.value in chosen))
        return Control(name, id_, value, tuple(buttons), self.errors.get(name, ""), focus=name == self.focused)

    @cached_property
    def levels_of_harm(self) -> list[Option]:
        options = []
        for level in self.form.severities:
            about = translate(level.about) or str(HARMS.get(level.value, ""))
            options.append(Option(level.value, translate(level.label), about=about))
        return options

    @cached_property
    def places(self) -> dict[str, int]:
        """The places of the questions that are always asked, among these."""
        always_asked = [question.key for question in self.form.questions if not question.when]
        return {key: place for place, key in enumerate(always_asked, 1)}

    def heading(self, question: Question) -> str:
        title = translate(question.label)
        if question.key in self.places:
            return f"{self.places[question.key]} {title}"
        return title

    @cached_property
    def question_with_sources(self) -> Question | None:
        """The one question with which sources are entered, preferably an unconditional one."""
        candidates = [question for question in self.form.questions if requires_evidence(question)]
        if not candidates:
            return None
        chosen = candidates[0]
        for question in candidates:
            if not question.when:
                chosen = question
                break
        if not chosen.about:
            return chosen
        repeated = chosen.key.partition(":")[0]  # asked of each trap or rubric: the sources follow the last one
        return [question for question in candidates if question.key.partition(":")[0] == repeated][-1]

    def severity(self, name: str, value: str, id_: str = "") -> Control:
        return self.control(name, value, self.levels_of_harm, id_=id_)

    @cached_property
    def parts_of_citation(self) -> dict[str, list[Option]]:
        """The fields of a source in their order, with their options."""
        choices = _options(CITATION_KINDS, empty=gettext("Choose"))
        kinds = [option._replace(level=level_of(Citation(option.value))) for option in choices]
        if not is_by_trap(self.form.terms):
            return {"reference": [], "passage": [], "kind": kinds, "read_on": [], "section": []}
        terms = {term.code: f"{term.code} {translate(term.name)}" for term in self.form.terms}
        traps = _options(terms, empty=gettext("Choose"))
        levels = _options(CITATION_LEVELS, empty=gettext("Choose"))
        head = {"trap": traps, "reference": [], "passage": [], "kind": kinds}
        return {**head, "level": levels, "read_on": [], "section": []}

    def citation(self, number: int, citation: Citation) -> RepeatedRow:
        if is_by_trap(self.form.terms):
            citation = replace(citation, trap=citation.trap or only_trap(self.form))
            citation = replace(citation, level=level_of(citation))
        fields = {}
        for part, options in self.parts_of_citation.items():
            fields[part] = self.control(f"citation.{number}.{part}", getattr(citation, part), options)
        return RepeatedRow(number, fields)

    def highlight(self, number: int, highlight: Highlight) -> RepeatedRow:
        labels = _options({label.value: translate(label.label) for label in self.form.labels})
        fields = {
            "quote": self.control(f"highlight.{number}.quote", highlight.quote),
            "label": self.control(f"highlight.{number}.label", highlight.label, labels),
        }
        return RepeatedRow(number, fields, highlight)

    def added(self, number: int, rubric: AddedRubric) -> RepeatedRow:
        tags = _options({tag: tag for tag in self.form.tags})
        fields = {
            "criterion": self.control(f"added.{number}.criterion", rubric.criterion),
            "tags": self.control(f"added.{number}.tags", "", tags, chosen=rubric.tags),
        }
        if self.form.severities:
            fields["severity"] = self.severity(f"added.{number}.severity", rubric.severity)
        return RepeatedRow(number, fields)


# What is missing from a source, or wrong with it, by the part of the citation.
_SOURCE_SENTENCES = {
    ("trap", "citation-incomplete"): _("Choose the trap that this source is about."),
    ("level", "citation-incomplete"): _("Choose the level of evidence of this source."),
    ("level", "citation-malformed"): _("This kind of source cannot have this level of evidence. Choose another level."),
    ("reference", "citation-incomplete"): _("Enter the source: a DOI, PMID, web address, book or guideline."),
    ("passage", "citation-incomplete"): _("Quote the passage, or enter the words you searched for."),
    ("section", "citation-incomplete"): _("Enter the section or page of the guideline or book."),
    ("read_on", "citation-incomplete"): _("Enter the date you read it. The date cannot be in the future."),
    ("kind", "citation-incomplete"): _("Choose the kind of source."),
}


def _sentence(problem: Problem) -> str:
    part = problem.field.rpartition(".")[2]
    if sentence := _SOURCE_SENTENCES.get((part, problem.code)):
        return str(sentence)
    if problem.field.endswith(".note") and problem.code == "unanswered":
        return gettext("Enter your answer.")
    return str(PROBLEM_MESSAGES[problem.code])


def _contradiction(form: Form, answers: Answers) -> str:
    """Which answers rule out the approval."""
    names = {f"question.{question.key}": translate(question.label) for question in form.questions}
    names |= {f"rubric.{rubric.key}": rubric_title(number) for number, rubric in enumerate(form.rubrics, 1)}
    blocking = [names[field] for field in blocking_fields(form, answers)]
    return gettext("Cannot be approved because of your answer to: %(names)s") % {"names": " · ".join(blocking)}


def rubric_title(number: int) -> str:
    """The heading of a rubric."""
    return gettext("Rubric %(number)s") % {"number": number}


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
    builder = _ControlBuilder(form, answers, harms.problems_by_trap(form, trap_levels, problems))
    sources = answers.citations
    if not sources and asks_for_evidence(form):
        sources = (blank_citation(),)
    options = {"verdict": _options(VERDICTS), "reason_code": _codes(form.reasons)}
    if rejected_before:
        options["dissent_code"] = _codes(form.dissents)
    if declares:
        options["declaration"] = _options(DECLARATIONS)
    fields = {name: builder.control(name, getattr(answers, name), options.get(name, ())) for name in LAST_FIELDS}
    fields["agreed"] = builder.control("agreed", "1")
    questions, rubrics = [], []
    for number, question in enumerate(form.questions, 1):
        questions.append(_question(builder, number, question, answers, committed, blocks))
    for number, rubric in enumerate(form.rubrics, 1):
        rubrics.append(_rubric(builder, number, rubric, answers, offers, trap_levels))
    citations = [builder.citation(number, citation) for number, citation in enumerate(sources, 1)]
    added = [builder.added(number, rubric) for number, rubric in enumerate(answers.added, 1)]
    highlights = [builder.highlight(number, highlight) for number, highlight in enumerate(answers.highlights, 1)]
    filled = FilledForm(
        questions=tuple(questions),
        rubrics=tuple(rubrics),
        harms=_harms(builder, form, trap_levels),
        citations=tuple(citations),
        added=tuple(added),
        highlights=tuple(highlights),
        fields=fields,
        blank_citation=builder.citation(BLANK, blank_citation()),
        blank_added=builder.added(BLANK, AddedRubric("")),
        blank_highlight=builder.highlight(BLANK, Highlight()),
        evidence_error=builder.errors.get("citations", ""),
        accepted_evidence=_accepted_evidence(form),
        problems=(),
    )
    return replace(filled, problems=tuple(_form_problems(filled, builder.errors)))


def _codes(reasons: Iterable[Reason]) -> list[Option]:
    return [Option(reason.code, translate(reason.label), reducible=reason.reducible) for reason in reasons]


def _accepted_evidence(form: Form) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Which kinds of source prove which traps, for those of which the form says so."""
    names: dict[tuple[str, ...], list[str]] = {}
    for term in form.terms:
        if not term.evidence and not term.levels:
            continue
        labels = [str(CITATION_KINDS[kind]) for kind in term.evidence]
        labels += [str(CITATION_LEVELS[level]) for level in term.levels]
        names.setdefault(tuple(labels), []).append(f"{term.code} {translate(term.name)}")
    return tuple((kinds, tuple(traps)) for kinds, traps in names.items())


def _question(
    builder: _ControlBuilder,
    number: int,
    question: Question,
    answers: Answers,
    committed: Collection[str],
    blocks: Sequence[Block],
) -> ControlRow:
    name, id_ = f"question.{question.key}", f"question-{number}"
    answer = answers.answer(question.key)
    options, kinds = [], dict[str, None]()
    for choice in question.choices:
        options.append(
            Option(choice.value, translate(choice.label), requires=_required_with(choice), blocks=choice.blocks)
        )
        kinds |= dict.fromkeys(choice.evidence_kinds)
    chosen = [choice.value for choice in question.chosen(answer.value)]
    is_committed = question.key in committed
    shown_here = []
    for place, block in enumerate(blocks, 1):
        if block.title in question.shows and not is_committed:
            shown_here.append((place, block))
    return ControlRow(
        number=number,
        title=translate(question.label),
        heading=builder.heading(question),
        choice=builder.control(name, answer.value, options, id_=id_, chosen=chosen),
        note=builder.control(f"{name}.note", answer.note, id_=f"{id_}-note"),
        when=_field_and_value(question.when),
        condition=_condition(builder.form, question.when),
        question=question,
        help=translate(question.help),
        asks=translate(question.asks),
        about=subject_label(question.about),
        kinds=tuple(str(CITATION_KINDS[kind]) for kind in kinds if kind in CITATION_KINDS),
        sources=question is builder.question_with_sources,
        blocks=tuple(shown_here),
        committed=is_committed,
    )


def _required_with(choice: Choice) -> str:
    """What an answer requires besides itself, as words for the page's script: note, evidence."""
    return " ".join(["note"] * choice.blocks + ["evidence"] * choice.evidence)


def _field_and_value(when: str) -> tuple[str, ...]:
    if when:
        return tuple(f"question.{when}".split("=", 1))
    return ()


def _condition(form: Form, when: str) -> str:
    key, _equals, value = when.partition("=")
    for question in form.questions:
        if question.key == key:
            labels = {choice.value: translate(choice.label) for choice in question.choices}
            names = {"question": translate(question.label), "answer": labels.get(value, value)}
            return gettext("Only if “%(question)s” is “%(answer)s”") % names
    return ""


def corrections(form: Form, answers: Answers) -> tuple[Correction, ...]:
    """How each rubric's wording was corrected, in the order of the form, as in `fill_form`."""
    return tuple(
        Correction(number, _correction_diff(rubric, answers.finding(rubric.key)))
        for number, rubric in enumerate(form.rubrics, 1)
    )


def _correction_diff(rubric: RubricText, finding: RubricAnswer) -> tuple[Span, ...]:
    is_corrected = finding.value == "corrected" and finding.wording.strip()
    if is_corrected:
        return diff_words(rubric.criterion, finding.wording)
    return ()


def _harms(builder: _ControlBuilder, form: Form, trap_levels: Mapping[str, str]) -> tuple[HarmRow, ...]:
    if not form.severities:
        return ()
    rows = []
    for number, tag in enumerate(form.tags, 1):
        choice = builder.severity(f"harm.{tag}", trap_levels[tag], f"harm-{number}")
        rubrics = tuple(f"rubric.{rubric.key}" for rubric in form.rubrics if tag in rubric.tags)
        by_ahrq = all(option.about == str(HARMS.get(option.value)) for option in choice.options)
        rows.append(HarmRow(tag, choice, rubrics, by_ahrq))
    return tuple(rows)


def _rubric(
    builder: _ControlBuilder,
    number: int,
    rubric: RubricText,
    answers: Answers,
    offers: Offers,
    trap_levels: Mapping[str, str],
) -> ControlRow:
    form, name, id_ = builder.form, f"rubric.{rubric.key}", f"rubric-{number}"
    finding = answers.finding(rubric.key)
    options = [
        Option(value, str(label), requires=_REQUIRED_WITH.get(value, ""), blocks=value in BLOCKING_VALUES)
        for value, label in FINDINGS.items()
        if value in form.findings
    ]
    offered = offers.get(rubric.key, ())
    options += [
        Option(offer.value, offer.label, wording=diff_words(rubric.criterion, offer.wording)) for offer in offered
    ]
    wording = ""
    if finding.value == "corrected":
        wording = finding.wording
    chosen = next((offer.value for offer in offered if offer.wording.strip() == wording.strip()), finding.value)
    severity = None
    if form.severities:
        level = harms.own_level(form, answers, rubric, trap_levels)
        severity = builder.severity(f"{name}.severity", level, f"{id_}-severity")
    return ControlRow(
        number=number,
        title=rubric.criterion,
        heading=rubric_title(number),
        choice=builder.control(name, finding.value, options, id_=id_, chosen=[chosen]),
        note=builder.control(f"{name}.note", finding.note, id_=f"{id_}-note"),
        when=_field_and_value(form.rubrics_when),
        condition=_condition(form, form.rubrics_when),
        tags=rubric.tags,
        wording=builder.control(f"{name}.wording", wording or rubric.criterion, id_=f"{id_}-wording"),
        severity=severity,
        diff=_correction_diff(rubric, finding),
    )


def _form_problems(filled: FilledForm, errors: Mapping[str, str]) -> Iterator[FormProblem]:
    """The lines of the error summary, in the order of the page, each linking to its field.

    A problem without a field on the page links to the form.
    """
    if not errors:
        return
    shown: set[str] = set()
    for label, control in _labelled_controls(filled):
        if control.error:
            shown.add(control.name)
            yield FormProblem(control.target, label, control.error)
    for name, sentence in errors.items():
        if name in shown:
            continue
        if name == "citations":
            yield FormProblem("citation-1-reference", gettext("Evidence"), sentence)
        else:
            yield FormProblem("answers", gettext("Answers"), sentence)


def _labelled_controls(filled: FilledForm) -> Iterator[tuple[str, Control]]:
    yield gettext("What both reviewers agree on"), filled.fields["agreed"]
    for row in filled.questions:
        for control in row.controls:
            yield row.heading, control
        if row.sources:
            yield from _repeated(gettext("Source %(number)s"), filled.citations)
    for row in filled.rubrics:
        for control in row.controls:
            yield row.heading, control
    for harm in filled.harms:
        yield gettext("Harm of trap %(tag)s") % {"tag": harm.tag}, harm.choice
    yield from _repeated(gettext("Your rubric %(number)s"), filled.added)
    yield from _repeated(gettext("Highlight %(number)s"), filled.highlights)
    for name, label in LAST_FIELDS.items():
        yield str(label), filled.fields[name]


def _repeated(label: str, rows: Iterable[RepeatedRow]) -> Iterator[tuple[str, Control]]:
    for row in rows:
        for control in row.fields.values():
            yield label % {"number": row.number}, control
