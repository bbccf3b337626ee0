"""A benchmark's practice case with explained answers.

Nothing is stored, so it can be left and repeated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import get_language, gettext
from pydantic import TypeAdapter

from review.common import benchmarks
from review.labels import FINDINGS, VERDICTS, translate
from review.rules.case_spec import CaseSpec
from review.rules.questions import (
    Answer,
    Answers,
    Problem,
    RubricAnswer,
    chosen_choices,
    is_asked,
    problems,
)
from review.rules.state_machine import Verdict
from review.turns.checks import highlight_problems, located_citations


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of error in the benchmark's taxonomy, with an example.

    `group` is the label of its cluster, if it has one.
    """

    code: str
    label: str
    group: str = ""
    definition: str = ""
    example: str = ""


@dataclass(frozen=True, slots=True)
class Practice:
    """The introduction and the practice case of a benchmark, in the reader's language.

    Attributes:
        about: paragraphs that say what is judged.
        expected: the known answers; a blank has no single right answer.
        why: explanation of the answer by field (question.<key>, citations, rubric.<key>, verdict,
            reason_code). What is asked of each trap has one answer and one explanation.
    """

    about: tuple[str, ...]
    kinds: tuple[Kind, ...]
    spec: CaseSpec
    expected: Answers
    why: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExplainedAnswer:
    """One answer next to the known one. `right` is None if there is no single right answer.

    `typed`: the note, wording or reason that goes with the answer.
    """

    title: str
    given: str
    expected: str
    right: bool | None
    why: str
    typed: str = ""


@dataclass(frozen=True, slots=True)
class PracticeRubric:
    """A rubric of a `PracticeSample`."""

    key: str
    criterion: str
    traps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PracticeSample:
    """What a benchmark's `review.case` reads of a sample."""

    task: str
    title: str
    content: dict[str, Any]
    language: str
    rubrics: tuple[PracticeRubric, ...] = ()
    specialty: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)


_SAMPLE = TypeAdapter(PracticeSample)


def names() -> list[str]:
    """The benchmarks that have a practice case."""
    return [name for name in benchmarks.names() if benchmarks.data(name, "practice")]


def practice(benchmark: str) -> Practice | None:
    """What the benchmark's `practice.json` says in the reader's language, if it has one."""
    data, cases = benchmarks.data(benchmark, "practice"), benchmarks.module(benchmark, "review")
    if data is None or cases is None:
        return None
    sample = _SAMPLE.validate_python({**data["sample"], "language": get_language() or "en"})
    expected = data["expected"]
    questions = {key: Answer(value) for key, value in expected["questions"].items()}
    rubrics = {key: RubricAnswer(value) for key, value in expected.get("rubrics", {}).items()}
    return Practice(
        about=tuple(data["about"]),
        kinds=tuple(_kinds(benchmark, data)),
        spec=cases.case(sample, "practice", 1),
        expected=Answers(
            questions=questions,
            rubrics=rubrics,
            verdict=expected["verdict"],
            reason_code=expected.get("reason_code", ""),
        ),
        why=data["why"],
    )


def _kinds(benchmark: str, data: Mapping[str, Any]) -> Iterator[Kind]:
    """The kinds of error in the file, or those of the taxonomy of which it has examples."""
    for kind in data.get("kinds", ()):
        yield Kind(**kind)
    terms = getattr(benchmarks.module(benchmark, "taxonomy"), "TERMS", ())
    labels = {term.code: gettext(term.label) for term in terms}
    for term in terms:
        if example := data.get("examples", {}).get(term.code):
            group = ""
            if term.parent:
                group = f"{term.parent} {labels[term.parent]}"
            yield Kind(term.code, labels[term.code], group, gettext(term.definition), example)


def faults(spec: CaseSpec, answers: Answers) -> list[Problem]:
    """What is missing or wrong, as at the submit of a real case."""
    answers, misplaced = located_citations(spec, answers)
    return problems(spec.form, answers) + misplaced + highlight_problems(spec, answers)


def explain_answers(practised: Practice, given: Answers) -> list[ExplainedAnswer]:
    """Every given answer with the known one and its explanation, in the order of the page."""
    form, expected = practised.spec.form, practised.expected

    def explained(
        field: str, title: object, labels: Mapping[str, object], value: str, known: str = "", typed: str = ""
    ) -> ExplainedAnswer:
        right = None
        if known:
            right = value == known
        in_words, known_in_words = _in_words(labels, value), _in_words(labels, known)
        why = practised.why.get(_asked_once(field), "")
        return ExplainedAnswer(str(title), in_words, known_in_words, right, why, typed)

    lines = []
    for question in form.questions:
        if question.kind == "text" or not is_asked(question.when, given):
            continue
        answer = given.answer(question.key)
        known = expected.questions.get(_asked_once(question.key), Answer())
        labels = {choice.value: translate(choice.label) for choice in question.choices}
        title = translate(question.label)
        lines.append(explained(f"question.{question.key}", title, labels, answer.value, known.value, answer.note))
    if any(choice.evidence for choice in chosen_choices(form, given)):
        sources = "; ".join(citation.reference for citation in given.citations)
        lines.append(explained("citations", gettext("Evidence"), {}, sources))
    for rubric in form.rubrics:
        finding = given.finding(rubric.key)
        known_finding = expected.finding(rubric.key)
        typed = finding.wording or finding.note
        lines.append(
            explained(f"rubric.{rubric.key}", rubric.criterion, FINDINGS, finding.value, known_finding.value, typed)
        )
    lines.append(explained("verdict", gettext("Verdict"), VERDICTS, given.verdict, expected.verdict))
    if form.reasons and given.verdict == Verdict.REJECT:
        reasons = {reason.code: translate(reason.label) for reason in form.reasons}
        title = gettext("Reason for rejection")
        lines.append(explained("reason_code", title, reasons, given.reason_code, expected.reason_code, given.reason))
    return lines


def _asked_once(name: str) -> str:
    """The name of a question that is asked of each trap or rubric, without that subject."""
    return name.partition(":")[0]


def _in_words(labels: Mapping[str, object], value: str) -> str:
    if not labels:
        return value
    return "; ".join(str(labels.get(part, part)) for part in value.split(","))
