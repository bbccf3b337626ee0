"""The questions of a case and what makes an answer to them complete. Plain values; a benchmark supplies the wording."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from review.rules import citations
from review.rules.blocks import Choice as Choice
from review.rules.blocks import Highlight
from review.rules.blocks import HighlightLabel as HighlightLabel
from review.rules.blocks import Level as Level
from review.rules.blocks import Question as Question
from review.rules.blocks import RubricText as RubricText
from review.rules.blocks import TrapTerm as TrapTerm
from review.rules.citations import Citation as Citation
from review.rules.citations import CitationKind as CitationKind
from review.rules.state_machine import Opinion, Phase, Role, Verdict
from review.rules.state_machine import Reason as Reason

RubricValue = Literal["adequate", "corrected", "inadequate", "removed"]
RUBRIC_VALUES: tuple[RubricValue, ...] = ("adequate", "corrected", "inadequate", "removed")
STANDING: tuple[RubricValue, ...] = ("adequate", "corrected")  # with these the rubric stays


@dataclass(frozen=True, slots=True)
class Form:
    """Everything that is asked about one case.

    severities: the harm scale asked for each rubric that stands; empty: not asked. reasons: the list a rejection is coded by;
    empty: free text alone. dissents: the list by which the secondary codes an approval against the primary's rejection; empty:
    not asked. rubrics_editable: rubrics may be added and removed, not only corrected. terms: what the rubrics' tags mean.
    severity_asks: what the scale is asked as, where not as harm. rubrics_when: `<key>=<value>`, the answer with which rubrics
    are judged; empty: always.
    labels: as what the text may be highlighted; empty: not at all. asks_verdict: off, nobody approves or rejects the case.
    wordings: language -> `<key>.label`, `.asks`, `.help`, `.choice.<value>`, `reasons:<code>.label`, `dissents:<code>.label`,
    `levels:<value>.label`, `.about`, `severity_asks` -> the text in it, where an admin wrote one.
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
        """What is asked at a stage."""
        return replace(
            self, questions=tuple(each for each in self.questions if not each.stages or stage in each.stages)
        )

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of all traps, each once, in the order of the rubrics: what an added rubric can be tied to."""
        return tuple(dict.fromkeys(tag for rubric in self.rubrics for tag in rubric.tags))

    @property
    def first_look(self) -> "Form":
        """What is asked before the traps are revealed, and nothing that would tell of them."""
        return Form(
            tuple(each for each in self.questions if each.first_look and not each.about),
            labels=tuple(label for label in self.labels if label.first_look),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question."""

    value: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RubricAnswer:
    """The finding on one rubric; `wording` is the physician's own where the value is 'corrected'.

    `severity` counts where the rubric stands. 'removed' takes the rubric away and is no veto; 'inadequate' is one.
    """

    value: str = ""
    wording: str = ""
    note: str = ""
    severity: str = ""


@dataclass(frozen=True, slots=True)
class AddedRubric:
    """A rubric written by the physician, tied to the sample's traps by their tags."""

    criterion: str
    tags: tuple[str, ...] = ()
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a physician has answered so far; complete when `problems` finds nothing.

    `reason_code` is one of the form's reasons, of a rejection; `dissent_code` one of its dissents, of an approval against the
    primary's rejection; `change_reason`: why the secondary's confirmed answer differs from the blind one; `declaration`: if its
    rubrics differ from the primary's in wording or in meaning."""

    questions: Mapping[str, Answer] = field(default_factory=dict)
    rubrics: Mapping[str, RubricAnswer] = field(default_factory=dict)
    verdict: str = ""
    reason: str = ""
    reason_code: str = ""
    dissent_code: str = ""
    change_reason: str = ""
    declaration: str = ""
    citations: tuple[Citation, ...] = ()
    added: tuple[AddedRubric, ...] = ()
    highlights: tuple[Highlight, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """What is missing or contradictory, and the form field it concerns.

    Fields, n from 1: `question.<key>` and `.note`, `rubric.<key>` with `.wording`, `.note` and `.severity`, `rubrics` (all of
    them), `added.<n>.criterion`, `.tags` and `.severity`, `citations` (all), `citation.<n>.<part>`, `highlights` (all),
    `highlight.<n>.<part>`, `verdict`, `reason`, `reason_code`, `dissent_code`, `change_reason`, `declaration`, `agreed`.
    """

    field: str
    code: Literal[
        "unanswered", "unknown-value", "note-missing", "wording-missing", "wording-unchanged",
        "verdict-missing", "verdict-contradicts", "reason-missing", "change-reason-missing", "unknown-field",
        "evidence-missing", "evidence-kind-missing", "evidence-unfit",
        "citation-malformed", "citation-incomplete", "citation-duplicate",
        "severity-missing", "reason-code-missing", "dissent-code-missing", "dissent-reason-missing",
        "criterion-missing", "criterion-duplicate", "no-rubric-left",
        "highlight-misplaced", "highlight-duplicate", "too-many", "unconfirmed", "undeclared",
    ]  # fmt: skip


def problems(
    form: Form,
    answers: Answers,
    *,
    committed: Answers | None = None,
    rejected_before: bool = False,
    today: date | None = None,
) -> list[Problem]:
    """All that keeps `answers` from being submitted, in the order of the page.

    `committed` is the secondary's blind answer when the confirmed one is being given: a difference wants a reason.
    `rejected_before`: the physician has seen that the primary rejected, so that an approval is a dissent and wants one, too.
    `today` is the last day on which a citation can have been read; see `citations.faults`.
    """
    found = problems_of_questions(form, answers)
    chosen = _chosen(form, answers)
    judged = asks_rubrics(form, answers)
    if any(choice.evidence for choice in chosen) and not answers.citations:
        found.append(Problem("citations", "evidence-missing"))
    elif any(c.evidence_kinds and not {s.kind for s in answers.citations} & {*c.evidence_kinds} for c in chosen):
        found.append(Problem("citations", "evidence-kind-missing"))
    elif any(choice.evidence for choice in chosen) and citations.unproved(form.terms, answers.citations):
        found.append(Problem("citations", "evidence-unfit"))
    found += [Problem(field, code) for field, code in citations.citation_faults(answers.citations, today=today)]
    if judged:
        found += _problems_of_rubrics(form, answers)
        found += _problems_of_additions(form, answers)
    known = {question.key for question in form.questions}, {rubric.key for rubric in form.rubrics}
    found += [Problem(f"question.{key}", "unknown-field") for key in answers.questions if key not in known[0]]
    found += [Problem(f"rubric.{key}", "unknown-field") for key in answers.rubrics if key not in known[1]]
    blocking = any(choice.blocks for choice in chosen) or any(
        judged and answers.rubrics.get(rubric.key, RubricAnswer()).value == "inadequate" for rubric in form.rubrics
    )
    if answers.verdict not in set(Verdict):
        found.append(Problem("verdict", "verdict-missing"))
    elif answers.verdict == Verdict.APPROVE and blocking:
        found.append(Problem("verdict", "verdict-contradicts"))
    elif answers.verdict == Verdict.APPROVE and _nothing_left(form, answers):
        found.append(Problem("rubrics", "no-rubric-left"))
    elif answers.verdict == Verdict.REJECT:
        if form.reasons and answers.reason_code not in {reason.code for reason in form.reasons}:
            found.append(Problem("reason_code", "unknown-value" if answers.reason_code else "reason-code-missing"))
        if not answers.reason.strip():
            found.append(Problem("reason", "reason-missing"))
    elif answers.verdict == Verdict.APPROVE and rejected_before and form.dissents:
        if answers.dissent_code not in {reason.code for reason in form.dissents}:
            found.append(Problem("dissent_code", "unknown-value" if answers.dissent_code else "dissent-code-missing"))
        if not (answers.reason.strip() or answers.change_reason.strip()):
            found.append(Problem("reason", "dissent-reason-missing"))
    free, said = {question.key for question in form.questions if not question.compared}, without_unasked(form, answers)
    if committed is not None and differs(committed, said, free) and not answers.change_reason.strip():
        found.append(Problem("change_reason", "change-reason-missing"))
    return found


def is_asked(question: Question, answers: Answers) -> bool:
    """Whether the answers so far are those with which a question is asked."""
    return _holds(question.when, answers)


def asks_rubrics(form: Form, answers: Answers) -> bool:
    """Whether the answers so far are those with which rubrics are judged."""
    return _holds(form.rubrics_when, without_unasked(form, answers))


def _holds(when: str, answers: Answers) -> bool:
    key, _, value = when.partition("=")
    return not key or value in answers.questions.get(key, Answer()).value.split(",")


def without_unasked(form: Form, answers: Answers) -> Answers:
    """`answers` without those to questions that earlier ones leave unasked, and to rubrics that are left unasked."""
    for question in form.questions:
        if not is_asked(question, answers):
            rest = {key: answer for key, answer in answers.questions.items() if key != question.key}
            answers = replace(answers, questions=rest)
    return answers if _holds(form.rubrics_when, answers) else replace(answers, rubrics={}, added=())


def _chosen(form: Form, answers: Answers) -> list[Choice]:
    given = without_unasked(form, answers).questions
    asked = [question for question in form.questions if question.key in given]
    return [choice for question in asked for choice in question.chosen(given[question.key].value)]


def problems_of_questions(form: Form, answers: Answers) -> list[Problem]:
    """What is missing of the questions alone."""
    found: list[Problem] = []
    answers = without_unasked(form, answers)
    for question in form.questions:
        answer = answers.questions.get(question.key, Answer())
        where = f"question.{question.key}"
        chosen = question.chosen(answer.value)
        if not is_asked(question, answers) or not (question.required or answer.value):
            continue
        if question.kind == "text" and not answer.value:
            found += [] if answer.note.strip() else [Problem(f"{where}.note", "unanswered")]
        elif not chosen or ",".join(choice.value for choice in chosen) != answer.value:
            found.append(Problem(where, "unknown-value" if answer.value else "unanswered"))
        elif any(choice.blocks for choice in chosen) and not answer.note.strip():
            found.append(Problem(f"{where}.note", "note-missing"))
    return found


def _problems_of_rubrics(form: Form, answers: Answers) -> list[Problem]:
    found: list[Problem] = []
    values = RUBRIC_VALUES if form.rubrics_editable else tuple(value for value in RUBRIC_VALUES if value != "removed")
    for rubric in form.rubrics:
        finding = answers.rubrics.get(rubric.key, RubricAnswer())
        where = f"rubric.{rubric.key}"
        if finding.value not in values:
            found.append(Problem(where, "unknown-value" if finding.value else "unanswered"))
        elif finding.value in ("inadequate", "removed"):
            if not finding.note.strip():
                found.append(Problem(f"{where}.note", "note-missing"))
        else:
            if finding.value == "corrected" and not finding.wording.strip():
                found.append(Problem(f"{where}.wording", "wording-missing"))
            elif finding.value == "corrected" and finding.wording.strip() == rubric.criterion.strip():
                found.append(Problem(f"{where}.wording", "wording-unchanged"))
            found += _problems_of_severity(form, finding.severity, where)
    return found


def _problems_of_additions(form: Form, answers: Answers) -> list[Problem]:
    if not form.rubrics_editable:
        return [Problem("added", "unknown-field")] if answers.added else []
    found: list[Problem] = []
    wordings = {_folded(wording) for wording in _standing(form, answers).values()}
    for number, added in enumerate(answers.added, 1):
        where = f"added.{number}"
        wording = _folded(added.criterion)
        if not wording:
            found.append(Problem(f"{where}.criterion", "criterion-missing"))
        elif wording in wordings:
            found.append(Problem(f"{where}.criterion", "criterion-duplicate"))
        wordings.add(wording)
        # A rubric is counted by its traps: one without would be in no figure, one with another's in a wrong one.
        if form.tags and not added.tags:
            found.append(Problem(f"{where}.tags", "unanswered"))
        elif not set(added.tags) <= set(form.tags):
            found.append(Problem(f"{where}.tags", "unknown-value"))
        found += _problems_of_severity(form, added.severity, where)
    return found


def _problems_of_severity(form: Form, severity: str, where: str) -> list[Problem]:
    wrong = severity not in {level.value for level in form.severities} and (severity or form.severities)
    return [Problem(f"{where}.severity", "unknown-value" if severity else "severity-missing")] if wrong else []


def _standing(form: Form, answers: Answers) -> dict[str, str]:
    """The wordings of the form's rubrics that these answers leave standing, by key."""
    findings = [(rubric, answers.rubrics.get(rubric.key, RubricAnswer())) for rubric in form.rubrics]
    return {
        rubric.key: finding.wording if finding.value == "corrected" else rubric.criterion
        for rubric, finding in findings
        if finding.value in STANDING
    }


def _nothing_left(form: Form, answers: Answers) -> bool:
    removed = [answers.rubrics.get(rubric.key, RubricAnswer()).value == "removed" for rubric in form.rubrics]
    return bool(removed) and all(removed) and not answers.added


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def decided_finding(found: RubricAnswer) -> tuple[str, str, str]:
    """What a finding decides: (value, the corrected wording, the harm of a rubric that stands)."""
    wording = found.wording.strip() if found.value == "corrected" else ""
    return found.value, wording, found.severity if found.value in STANDING else ""


def decided_additions(answers: Answers) -> frozenset[tuple[str, frozenset[str], str]]:
    """What the physician's own rubrics decide, however they are ordered, spaced and cased."""
    return frozenset((_folded(added.criterion), frozenset(added.tags), added.severity) for added in answers.added)


def decided_verdict(answers: Answers) -> tuple[str, str]:
    """The verdict, with the code of its reason."""
    return answers.verdict, answers.reason_code if answers.verdict == Verdict.REJECT else ""


def differs(one: Answers, other: Answers, free: Collection[str] = ()) -> bool:
    """Whether two answers differ in what they decide: notes, evidence, reasons in words and the `free` questions aside."""

    def decided(answers: Answers) -> object:
        return (
            {key: answer.value for key, answer in answers.questions.items() if key not in free},
            {key: decided_finding(found) for key, found in answers.rubrics.items()},
            decided_additions(answers),
            decided_verdict(answers),
        )

    return decided(one) != decided(other)


def opinion(form: Form, answers: Answers, role: Role, phase: Phase) -> Opinion:
    """What complete `answers` say to the machine. A rubric found inadequate is a veto; one removed is not."""
    poor = [choice.inadequate for choice in _chosen(form, answers)]
    poor += [finding.value == "inadequate" for finding in answers.rubrics.values()]
    return Opinion(role, phase, Verdict(answers.verdict), any(poor))
