"""The questions of a case and what makes an answer to them complete. Plain values; a benchmark supplies the wording."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from review.rules import citations
from review.rules.blocks import Highlight
from review.rules.blocks import HighlightLabel as HighlightLabel
from review.rules.citations import Citation as Citation
from review.rules.citations import CitationKind as CitationKind
from review.rules.state_machine import Opinion, Phase, Role, Verdict


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a question.

    blocks: with this answer the case cannot be approved. inadequate: it says that a rubric is not aligned with its trap.
    evidence: it claims something that wants at least one citation.
    """

    value: str
    label: str
    blocks: bool = False
    inadequate: bool = False
    evidence: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A criterion that every reviewer judges. A note is required with an answer that blocks.

    label: the criterion's name, a heading. asks: the question itself, where the heading alone could be read two ways.
    first_look: asked before the traps are revealed, where the policy says so; the answer then stands.
    """

    key: str
    label: str
    help: str
    choices: tuple[Choice, ...]
    first_look: bool = False
    asks: str = ""


@dataclass(frozen=True, slots=True)
class RubricText:
    """A rubric as shown to physicians, with the tags of its traps."""

    key: str
    criterion: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a scale, from the least to the most."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a sample is rejected, or why it is approved against the primary's rejection.

    A reducible one (ambiguous wording, missing context, something overlooked) can be mended; an irreducible one (true medical
    disagreement) cannot: a sample rejected for it is dropped.
    """

    code: str
    label: str
    reducible: bool


@dataclass(frozen=True, slots=True)
class TrapTerm:
    """What a tag means: the name of its trap, and its definition. `evidence`: the kinds of source of which one shows it; empty:
    any."""

    code: str
    name: str
    definition: str = ""
    evidence: tuple[CitationKind, ...] = ()


RubricValue = Literal["adequate", "corrected", "inadequate", "removed"]
RUBRIC_VALUES: tuple[RubricValue, ...] = ("adequate", "corrected", "inadequate", "removed")
STANDING: tuple[RubricValue, ...] = ("adequate", "corrected")  # with these the rubric stays


@dataclass(frozen=True, slots=True)
class Form:
    """Everything that is asked about one case.

    severities: the harm scale asked for each rubric that stands; empty: not asked. reasons: the list a rejection is coded by;
    empty: free text alone. dissents: the list by which the secondary codes an approval against the primary's rejection; empty:
    not asked. rubrics_editable: rubrics may be added and removed, not only corrected. terms: what the rubrics' tags mean.
    labels: as what stretches of the text may be highlighted; empty: not at all.
    """

    questions: tuple[Question, ...]
    rubrics: tuple[RubricText, ...] = ()
    severities: tuple[Level, ...] = ()
    reasons: tuple[Reason, ...] = ()
    dissents: tuple[Reason, ...] = ()
    rubrics_editable: bool = False
    terms: tuple[TrapTerm, ...] = ()
    labels: tuple[HighlightLabel, ...] = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of all traps, each once, in the order of the rubrics: what an added rubric can be tied to."""
        return tuple(dict.fromkeys(tag for rubric in self.rubrics for tag in rubric.tags))

    @property
    def first_look(self) -> "Form":
        """What is asked before the traps are revealed, and nothing that would tell of them."""
        return Form(
            tuple(question for question in self.questions if question.first_look),
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
    primary's rejection; `change_reason`: why the secondary's confirmed answer differs from the own blind one.
    """

    questions: Mapping[str, Answer] = field(default_factory=dict)
    rubrics: Mapping[str, RubricAnswer] = field(default_factory=dict)
    verdict: str = ""
    reason: str = ""
    reason_code: str = ""
    dissent_code: str = ""
    change_reason: str = ""
    citations: tuple[Citation, ...] = ()
    added: tuple[AddedRubric, ...] = ()
    highlights: tuple[Highlight, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """What is missing or contradictory, and the form field it concerns.

    Fields: `question.<key>`, `question.<key>.note`, `rubric.<key>` with `.wording`, `.note` and `.severity`, `rubrics` (all of
    them), `added.<n>.criterion`, `.tags` and `.severity`, `citations` (all), `citation.<n>.<part>`, `highlights` (all),
    `highlight.<n>.<part>`, `verdict`, `reason`, `reason_code`, `dissent_code`, `change_reason`, `agreed`; n counts
    from 1.
    """

    field: str
    code: Literal[
        "unanswered", "unknown-value", "note-missing", "wording-missing", "wording-unchanged",
        "verdict-missing", "verdict-contradicts", "reason-missing", "change-reason-missing", "unknown-field",
        "evidence-missing", "evidence-unfit", "citation-malformed", "citation-incomplete", "citation-duplicate",
        "severity-missing", "reason-code-missing", "dissent-code-missing", "dissent-reason-missing",
        "criterion-missing", "criterion-duplicate", "no-rubric-left",
        "highlight-misplaced", "highlight-duplicate", "too-many", "unconfirmed",
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
    found = _problems_of_questions(form, answers)
    chosen = _chosen(form, answers)
    if any(choice.evidence for choice in chosen) and not answers.citations:
        found.append(Problem("citations", "evidence-missing"))
    elif any(choice.evidence for choice in chosen) and unproved(form, answers):
        found.append(Problem("citations", "evidence-unfit"))
    found += [Problem(field, code) for field, code in citations.citation_faults(answers.citations, today=today)]
    found += _problems_of_rubrics(form, answers)
    found += _problems_of_additions(form, answers)
    known = {question.key for question in form.questions}, {rubric.key for rubric in form.rubrics}
    found += [Problem(f"question.{key}", "unknown-field") for key in answers.questions if key not in known[0]]
    found += [Problem(f"rubric.{key}", "unknown-field") for key in answers.rubrics if key not in known[1]]
    blocking = any(choice.blocks for choice in chosen) or any(
        answers.rubrics.get(rubric.key, RubricAnswer()).value == "inadequate" for rubric in form.rubrics
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
    if committed is not None and differs(committed, answers) and not answers.change_reason.strip():
        found.append(Problem("change_reason", "change-reason-missing"))
    return found


def unproved(form: Form, answers: Answers) -> list[TrapTerm]:
    """The traps of which no source is of a kind that shows them."""
    cited = {citation.kind for citation in answers.citations}
    return [term for term in form.terms if term.evidence and not cited & set(term.evidence)]


def first_look_problems(form: Form, answers: Answers) -> list[Problem]:
    """All that keeps the traps from being revealed: an answer is missing to a question of the first look."""
    return _problems_of_questions(form.first_look, answers)


def with_first_look(form: Form, answers: Answers, looked: Answers) -> Answers:
    """`answers`, their part of the first look as it was given then, whatever they say of it now.

    What was highlighted before the traps were revealed stands, too.
    """
    first = {question.key for question in form.questions if question.first_look}
    now = {key: answer for key, answer in answers.questions.items() if key not in first}
    return replace(
        answers,
        questions={**{key: looked.questions[key] for key in first & looked.questions.keys()}, **now},
        highlights=(*looked.highlights, *(each for each in answers.highlights if not each.first_look)),
    )


def _chosen(form: Form, answers: Answers) -> list[Choice]:
    return [
        choice
        for question in form.questions
        for choice in question.choices
        if question.key in answers.questions and choice.value == answers.questions[question.key].value
    ]


def _problems_of_questions(form: Form, answers: Answers) -> list[Problem]:
    found: list[Problem] = []
    for question in form.questions:
        answer = answers.questions.get(question.key, Answer())
        where = f"question.{question.key}"
        choice = next((choice for choice in question.choices if choice.value == answer.value), None)
        if choice is None:
            found.append(Problem(where, "unknown-value" if answer.value else "unanswered"))
        elif choice.blocks and not answer.note.strip():
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
    if severity in {level.value for level in form.severities} or not (severity or form.severities):
        return []
    return [Problem(f"{where}.severity", "unknown-value" if severity else "severity-missing")]


def _standing(form: Form, answers: Answers) -> dict[str, str]:
    """The wordings of the form's rubrics that these answers leave standing, by key."""
    found = {}
    for rubric in form.rubrics:
        finding = answers.rubrics.get(rubric.key, RubricAnswer())
        if finding.value in STANDING:
            found[rubric.key] = finding.wording if finding.value == "corrected" else rubric.criterion
    return found


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


def differs(one: Answers, other: Answers) -> bool:
    """Whether two answers differ in what they decide: notes, evidence and reasons in words aside."""

    def decided(answers: Answers) -> object:
        return (
            {key: answer.value for key, answer in answers.questions.items()},
            {key: decided_finding(found) for key, found in answers.rubrics.items()},
            decided_additions(answers),
            decided_verdict(answers),
        )

    return decided(one) != decided(other)


def opinion(form: Form, answers: Answers, role: Role, phase: Phase) -> Opinion:
    """What complete `answers` say to the machine. A rubric found inadequate is a veto; one removed is not."""
    inadequate = any(choice.inadequate for choice in _chosen(form, answers)) or any(
        finding.value == "inadequate" for finding in answers.rubrics.values()
    )
    return Opinion(role, phase, Verdict(answers.verdict), inadequate)
