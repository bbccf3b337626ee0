"""The questions of a case, and when the answers are complete.

Plain values, worded by the benchmark.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from itertools import chain
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from review.rules import citations, limits
from review.rules.blocks import Choice as Choice
from review.rules.blocks import Highlight
from review.rules.blocks import HighlightLabel as HighlightLabel
from review.rules.blocks import Level as Level
from review.rules.blocks import Question as Question
from review.rules.blocks import RubricText as RubricText
from review.rules.blocks import TrapTerm as TrapTerm
from review.rules.citations import Citation as Citation
from review.rules.state_machine import Opinion, Phase, Role, Verdict
from review.rules.state_machine import Reason as Reason

RubricValue = Literal["adequate", "corrected", "inadequate", "removed"]
RUBRIC_VALUES: tuple[RubricValue, ...] = ("adequate", "corrected", "inadequate", "removed")
RETAINED_VALUES: tuple[RubricValue, ...] = ("adequate", "corrected")  # the rubric is kept
BLOCKING_VALUES: tuple[RubricValue, ...] = ("inadequate",)  # the case cannot be approved


@dataclass(frozen=True, slots=True)
class Form:
    """Everything that is asked about one case.

    severities: the harm scale for each rubric that is kept; empty: not asked.
    reasons: the codes of a rejection; empty: free text only.
    dissents: the codes of a secondary's approval against the primary's rejection; empty: not asked.
    rubrics_editable: rubrics may be added and removed, not only corrected.
    terms: the meaning of the rubrics' tags.
    labels: the labels for highlights in the text; empty: no highlights.
    wordings: translations by admins, language -> key -> text. The keys are `<key>.label`, `.asks`,
        `.help`, `.choice.<value>`, `reasons:<code>.label`, `dissents:<code>.label`,
        `levels:<value>.label`, `.about` and `severity_asks`.
    asks_verdict: if off, nobody approves or rejects the case.
    rubrics_when: `<key>=<value>`: rubrics are judged only with this answer; empty: always.
    severity_asks: the question for the scale, if it does not ask about harm.
    """

    questions: tuple[Question, ...]
    rubrics: tuple[RubricText, ...] = ()
    severities: tuple[Level, ...] = ()
    reasons: tuple[Reason, ...] = ()
    dissents: tuple[Reason, ...] = ()
    rubrics_editable: bool = False
    terms: tuple[TrapTerm, ...] = ()
    labels: tuple[HighlightLabel, ...] = ()
    wordings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    asks_verdict: bool = True
    rubrics_when: str = ""
    severity_asks: str = ""

    def at(self, stage: str) -> "Form":
        """The part of the form that is asked at a stage."""
        return replace(
            self,
            questions=tuple(question for question in self.questions if not question.stages or stage in question.stages),
        )

    @property
    def tags(self) -> tuple[str, ...]:
        """The distinct tags of all traps, in the order of the rubrics, for added rubrics."""
        return tuple(dict.fromkeys(chain.from_iterable(rubric.tags for rubric in self.rubrics)))

    @property
    def findings(self) -> tuple[RubricValue, ...]:
        """What a physician may find about a rubric."""
        if self.rubrics_editable:
            return RUBRIC_VALUES
        return tuple(value for value in RUBRIC_VALUES if value != "removed")

    @property
    def first_look(self) -> "Form":
        """The part that is asked before the traps are revealed, without anything revealing."""
        return Form(
            tuple(question for question in self.questions if question.first_look and not question.about),
            labels=tuple(label for label in self.labels if label.first_look),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question."""

    value: Annotated[str, limits.VALUE] = ""
    note: Annotated[str, limits.TEXT] = ""


@dataclass(frozen=True, slots=True)
class RubricAnswer:
    """The finding on one rubric; `wording` is the physician's if the value is 'corrected'.

    `severity` counts only if the rubric is kept. 'removed' drops the rubric without a veto;
    'inadequate' is a veto.
    """

    value: Annotated[str, limits.CODE] = ""
    wording: Annotated[str, limits.CRITERION] = ""
    note: Annotated[str, limits.TEXT] = ""
    severity: Annotated[str, limits.CODE] = ""


@dataclass(frozen=True, slots=True)
class AddedRubric:
    """A rubric written by the physician, tied to the sample's traps by their tags."""

    criterion: Annotated[str, limits.CRITERION]
    tags: tuple[str, ...] = ()
    severity: Annotated[str, limits.CODE] = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """A physician's answers so far; complete when `problems` returns nothing.

    A number beside the type of a text, here and in what it contains, is its limit in characters.

    reason_code: for a rejection, one of the form's reasons.
    dissent_code: for an approval against the primary's rejection, one of the form's dissents.
    change_reason: why the secondary's confirmed answer differs from the blind one.
    declaration: whether the secondary's rubrics differ from the primary's in wording or in meaning.
    """

    questions: Mapping[str, Answer] = field(default_factory=dict)
    rubrics: Mapping[str, RubricAnswer] = field(default_factory=dict)
    verdict: Annotated[str, limits.CODE] = ""
    reason: Annotated[str, limits.TEXT] = ""
    reason_code: Annotated[str, limits.CODE] = ""
    dissent_code: Annotated[str, limits.CODE] = ""
    change_reason: Annotated[str, limits.TEXT] = ""
    declaration: Annotated[str, limits.CODE] = ""
    citations: tuple[Citation, ...] = ()
    added: tuple[AddedRubric, ...] = ()
    highlights: tuple[Highlight, ...] = ()

    def answer(self, key: str) -> Answer:
        """The answer to a question, empty until it is given."""
        return self.questions.get(key, Answer())

    def finding(self, key: str) -> RubricAnswer:
        """The finding on a rubric, empty until it is given."""
        return self.rubrics.get(key, RubricAnswer())


ProblemCode = Literal[
    "unanswered", "unknown-value", "note-missing", "wording-missing", "wording-unchanged",
    "verdict-missing", "verdict-contradicts", "reason-missing", "change-reason-missing", "unknown-field",
    "evidence-missing", "evidence-kind-missing", "evidence-unfit",
    "citation-malformed", "citation-incomplete", "citation-duplicate",
    "severity-missing", "reason-code-missing", "dissent-code-missing", "dissent-reason-missing",
    "criterion-missing", "criterion-duplicate", "no-rubric-left",
    "highlight-misplaced", "highlight-duplicate", "too-many", "too-long", "unconfirmed", "undeclared",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """A missing or contradictory answer, with the form field it concerns.

    Fields, n from 1: `question.<key>` and `.note`, `rubric.<key>` with `.wording`, `.note` and
    `.severity`, `rubrics` (all of them), `added.<n>.criterion`, `.tags` and `.severity`,
    `citations` (all), `citation.<n>.<part>`, `highlights` (all), `highlight.<n>.<part>`, `verdict`,
    `reason`, `reason_code`, `dissent_code`, `change_reason`, `declaration`, `agreed`.
    """

    field: str
    code: ProblemCode


def wrong_choice(field: str, value: str, missing: ProblemCode) -> Problem:
    """The problem of a value that is none of the choices: an unknown one, or none at all."""
    if value:
        return Problem(field, "unknown-value")
    return Problem(field, missing)


def problems(
    form: Form,
    answers: Answers,
    *,
    committed: Answers | None = None,
    rejected_before: bool = False,
    today: date | None = None,
) -> list[Problem]:
    """Everything that prevents `answers` from being submitted, in the order of the page.

    committed: the secondary's blind answers, while confirming: a difference needs a reason.
    rejected_before: the physician has seen that the primary rejected, so an approval is a dissent
        and needs a reason, too.
    today: the last day on which a citation can have been read (see `citations.citation_faults`).
    """
    result = question_problems(form, answers)
    result += _trap_evidence_problems(form, answers) or _evidence_problems(form, answers)
    faults = citations.citation_faults(answers.citations, today=today)
    faults += citations.trap_faults(form.terms, answers.citations)
    result += [Problem(field, code) for field, code in faults]
    if is_asked(form.rubrics_when, without_unasked(form, answers)):
        result += _rubric_problems(form, answers)
        result += _addition_problems(form, answers)
    result += _unknown_fields(form, answers)
    if answers.verdict == Verdict.APPROVE:
        result += _approval_problems(form, answers, rejected_before)
    elif answers.verdict == Verdict.REJECT:
        result += _rejection_problems(form, answers)
    else:
        result.append(Problem("verdict", "verdict-missing"))
    if committed is not None and is_changed(form, committed, answers) and not answers.change_reason.strip():
        result.append(Problem("change_reason", "change-reason-missing"))
    return result


def blocking_fields(form: Form, answers: Answers) -> list[str]:
    """The fields whose answer rules out approval, in the order of the page."""
    asked = without_unasked(form, answers)
    fields = []
    for question in form.questions:
        chosen = question.chosen(asked.answer(question.key).value)
        if any(choice.blocks for choice in chosen):
            fields.append(f"question.{question.key}")
    vetoes = {key for key, finding in asked.rubrics.items() if finding.value in BLOCKING_VALUES}
    return fields + [f"rubric.{rubric.key}" for rubric in form.rubrics if rubric.key in vetoes]


def is_changed(form: Form, committed: Answers, answers: Answers) -> bool:
    """Whether `answers` differ from the committed ones in substance, which needs a reason."""
    ignored = {question.key for question in form.questions if not question.compared}
    return differs(committed, without_unasked(form, answers), ignored)


def _unknown_fields(form: Form, answers: Answers) -> list[Problem]:
    keys = {f"question.{question.key}" for question in form.questions} | {f"rubric.{r.key}" for r in form.rubrics}
    given = [*(f"question.{key}" for key in answers.questions), *(f"rubric.{key}" for key in answers.rubrics)]
    return [Problem(name, "unknown-field") for name in given if name not in keys]


def _approval_problems(form: Form, answers: Answers, rejected_before: bool) -> list[Problem]:
    if blocking_fields(form, answers):
        return [Problem("verdict", "verdict-contradicts")]
    if _no_rubric_left(form, answers):
        return [Problem("rubrics", "no-rubric-left")]
    result: list[Problem] = []
    if rejected_before and form.dissents:
        if answers.dissent_code not in {reason.code for reason in form.dissents}:
            result.append(wrong_choice("dissent_code", answers.dissent_code, "dissent-code-missing"))
        if not (answers.reason.strip() or answers.change_reason.strip()):
            result.append(Problem("reason", "dissent-reason-missing"))
    return result


def _rejection_problems(form: Form, answers: Answers) -> list[Problem]:
    result: list[Problem] = []
    if form.reasons and answers.reason_code not in {reason.code for reason in form.reasons}:
        result.append(wrong_choice("reason_code", answers.reason_code, "reason-code-missing"))
    if not answers.reason.strip():
        result.append(Problem("reason", "reason-missing"))
    return result


def _evidence_problems(form: Form, answers: Answers) -> list[Problem]:
    """The evidence that the chosen answers require and that is not there."""
    choices = chosen_choices(form, answers)
    requires_evidence = any(choice.evidence for choice in choices)
    if requires_evidence and not answers.citations:
        return [Problem("citations", "evidence-missing")]
    cited_kinds = {citation.kind for citation in answers.citations}
    for choice in choices:
        if choice.evidence_kinds and cited_kinds.isdisjoint(choice.evidence_kinds):
            return [Problem("citations", "evidence-kind-missing")]
    if requires_evidence and citations.unproved_traps(form.terms, answers.citations):
        return [Problem("citations", "evidence-unfit")]
    return []


def _trap_evidence_problems(form: Form, answers: Answers) -> list[Problem]:
    """The answers that call a trap false without a source about this trap that can show it.

    None where evidence is not given by trap.
    """
    if not citations.is_by_trap(form.terms):
        return []
    asked = without_unasked(form, answers).questions
    unproved = {term.code for term in citations.unproved_traps(form.terms, answers.citations)}
    cited = {citation.trap for citation in answers.citations}
    result: list[Problem] = []
    for question in form.questions:
        answer = asked.get(question.key)
        if answer is None or not any(choice.evidence for choice in question.chosen(answer.value)):
            continue
        if question.about:
            traps = [question.key.partition(":")[2]]
        else:
            traps = [term.code for term in form.terms]
        if missing := [trap for trap in traps if trap in unproved]:
            code: ProblemCode = "evidence-missing"
            if cited.issuperset(missing):
                code = "evidence-unfit"
            result.append(Problem(f"question.{question.key}", code))
    return result


def limit_problems(form: Form, answers: Answers) -> list[Problem]:
    """What not even a draft may hold: unknown questions, too many entries, too long texts.

    `form`: with the questions of all stages.
    """
    result = _unknown_fields(form, answers)
    entries = {
        "citations": (answers.citations, limits.CITATIONS),
        "added": (answers.added, limits.ADDED),
        "highlights": (answers.highlights, 2 * limits.HIGHLIGHTS),
    }
    result += [Problem(name, "too-many") for name, (rows, most) in entries.items() if len(rows) > most]
    if result:
        return result
    return [Problem(name, "too-long") for name, text, most in _limited_texts(answers) if len(text) > most]


@cache
def _limits(kind: type) -> dict[str, int]:
    """How many characters the texts of a dataclass may have, by the names of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: get_args(hint)[1] for name, hint in hints.items() if get_origin(hint) is Annotated}


def _limited_texts(answers: Answers) -> Iterator[tuple[str, str, int]]:
    """(field, text, limit) of every text in `answers`."""
    rows: list[tuple[str, type, Iterable[tuple[object, object]]]] = [
        ("question", Answer, answers.questions.items()),
        ("rubric", RubricAnswer, answers.rubrics.items()),
        ("citation", Citation, enumerate(answers.citations, 1)),
        ("added", AddedRubric, enumerate(answers.added, 1)),
        ("highlight", Highlight, enumerate(answers.highlights, 1)),
    ]
    for name, most in _limits(Answers).items():
        yield name, getattr(answers, name), most
    for part, kind, entries in rows:
        most_by_name = _limits(kind)
        for key, entry in entries:
            for name, most in most_by_name.items():
                yield f"{part}.{key}.{name}".removesuffix(".value"), getattr(entry, name), most
    for number, added in enumerate(answers.added, 1):
        yield f"added.{number}.tags", max(added.tags, key=len, default=""), limits.CODE
        if len(added.tags) > limits.TAGS:
            yield f"added.{number}.tags", "," * len(added.tags), limits.TAGS


def is_asked(when: str, answers: Answers) -> bool:
    """Whether the answers so far meet the condition `when` of a question or of the rubrics."""
    key, _, value = when.partition("=")
    return not key or value in answers.answer(key).value.split(",")


def without_unasked(form: Form, answers: Answers) -> Answers:
    """`answers` without those to questions and rubrics not asked, given the other answers."""
    for question in form.questions:
        if not is_asked(question.when, answers):
            rest = {key: answer for key, answer in answers.questions.items() if key != question.key}
            answers = replace(answers, questions=rest)
    if is_asked(form.rubrics_when, answers):
        return answers
    return replace(answers, rubrics={}, added=())


def chosen_choices(form: Form, answers: Answers) -> list[Choice]:
    """The choices that these answers select, in the questions that are asked."""
    asked_answers = without_unasked(form, answers).questions
    asked = [question for question in form.questions if question.key in asked_answers]
    chosen: list[Choice] = []
    for question in asked:
        chosen += question.chosen(asked_answers[question.key].value)
    return chosen


def question_problems(form: Form, answers: Answers) -> list[Problem]:
    """The problems of the questions alone."""
    result: list[Problem] = []
    answers = without_unasked(form, answers)
    for question in form.questions:
        answer = answers.answer(question.key)
        field_name = f"question.{question.key}"
        chosen = question.chosen(answer.value)
        if not is_asked(question.when, answers) or not (question.required or answer.value):
            continue
        if question.kind == "text" and not answer.value:
            if not answer.note.strip():
                result.append(Problem(f"{field_name}.note", "unanswered"))
        elif not chosen or ",".join(choice.value for choice in chosen) != answer.value:
            result.append(wrong_choice(field_name, answer.value, "unanswered"))
        elif any(choice.blocks for choice in chosen) and not answer.note.strip():
            result.append(Problem(f"{field_name}.note", "note-missing"))
    return result


def _rubric_problems(form: Form, answers: Answers) -> list[Problem]:
    result: list[Problem] = []
    for rubric in form.rubrics:
        finding = answers.finding(rubric.key)
        field_name = f"rubric.{rubric.key}"
        if finding.value not in form.findings:
            result.append(wrong_choice(field_name, finding.value, "unanswered"))
        elif finding.value in ("inadequate", "removed"):
            if not finding.note.strip():
                result.append(Problem(f"{field_name}.note", "note-missing"))
        else:
            if finding.value == "corrected" and not finding.wording.strip():
                result.append(Problem(f"{field_name}.wording", "wording-missing"))
            elif finding.value == "corrected" and finding.wording.strip() == rubric.criterion.strip():
                result.append(Problem(f"{field_name}.wording", "wording-unchanged"))
            result += _severity_problems(form, finding.severity, field_name)
    return result


def _addition_problems(form: Form, answers: Answers) -> list[Problem]:
    if not form.rubrics_editable:
        if answers.added:
            return [Problem("added", "unknown-field")]
        return []
    result: list[Problem] = []
    wordings = {folded(wording) for wording in retained_wordings(form, answers).values()}
    for number, added in enumerate(answers.added, 1):
        field_name = f"added.{number}"
        wording = folded(added.criterion)
        if not wording:
            result.append(Problem(f"{field_name}.criterion", "criterion-missing"))
        elif wording in wordings:
            result.append(Problem(f"{field_name}.criterion", "criterion-duplicate"))
        wordings.add(wording)
        # Rubrics are counted by trap: without a tag this one would be missing from all figures, and
        # with a foreign tag it would be in a wrong one.
        if form.tags and not added.tags:
            result.append(Problem(f"{field_name}.tags", "unanswered"))
        elif not set(added.tags) <= set(form.tags):
            result.append(Problem(f"{field_name}.tags", "unknown-value"))
        result += _severity_problems(form, added.severity, field_name)
    return result


def _severity_problems(form: Form, severity: str, field_name: str) -> list[Problem]:
    known = severity in {level.value for level in form.severities}
    if known or not (severity or form.severities):
        return []
    return [wrong_choice(f"{field_name}.severity", severity, "severity-missing")]


def retained_wordings(form: Form, answers: Answers) -> dict[str, str]:
    """The wordings of the form's rubrics that these answers keep, by key."""
    wordings = {}
    for rubric in form.rubrics:
        finding = answers.finding(rubric.key)
        if finding.value == "corrected":
            wordings[rubric.key] = finding.wording
        elif finding.value in RETAINED_VALUES:
            wordings[rubric.key] = rubric.criterion
    return wordings


def _no_rubric_left(form: Form, answers: Answers) -> bool:
    removed = [answers.finding(rubric.key).value == "removed" for rubric in form.rubrics]
    return bool(removed) and all(removed) and not answers.added


def folded(text: str) -> str:
    """A text without what makes no difference to its words: white space and case."""
    return " ".join(text.split()).casefold()


def finding_decision(finding: RubricAnswer) -> tuple[str, str, str]:
    """The decisive parts of a finding: (value, corrected wording, harm of a kept rubric)."""
    wording = severity = ""
    if finding.value == "corrected":
        wording = finding.wording.strip()
    if finding.value in RETAINED_VALUES:
        severity = finding.severity
    return finding.value, wording, severity


def additions_decision(answers: Answers) -> frozenset[tuple[str, frozenset[str], str]]:
    """The decisive parts of the added rubrics, regardless of order, whitespace and case."""
    return frozenset((folded(added.criterion), frozenset(added.tags), added.severity) for added in answers.added)


def verdict_decision(answers: Answers) -> tuple[str, str]:
    """The verdict and, for a rejection, its reason code."""
    if answers.verdict == Verdict.REJECT:
        return answers.verdict, answers.reason_code
    return answers.verdict, ""


def differs(first: Answers, second: Answers, ignored: Collection[str] = ()) -> bool:
    """Whether two sets of answers differ in substance.

    Notes, evidence, free-text reasons and the questions with the keys `ignored` do not count.
    """

    def decisions(answers: Answers) -> object:
        return (
            {key: answer.value for key, answer in answers.questions.items() if key not in ignored},
            {key: finding_decision(finding) for key, finding in answers.rubrics.items()},
            additions_decision(answers),
            verdict_decision(answers),
        )

    return decisions(first) != decisions(second)


def opinion(form: Form, answers: Answers, role: Role, phase: Phase) -> Opinion:
    """Complete `answers` as input of the state machine, in which inadequate rubrics are vetoes."""
    inadequate = [choice.inadequate for choice in chosen_choices(form, answers)]
    inadequate += [finding.value == "inadequate" for finding in answers.rubrics.values()]
    return Opinion(role, phase, Verdict(answers.verdict), any(inadequate))
