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
from review.rules.questions import Answer, Answers, Form, RubricAnswer


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
        why: explanation of the answer by field (question.<key>, rubric.<key>, verdict).
    """

    about: tuple[str, ...]
    kinds: tuple[Kind, ...]
    spec: CaseSpec
    expected: Answers
    why: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExplainedAnswer:
    """One answer next to the known one. `right` is None if there is no single right answer."""

    title: str
    given: str
    expected: str
    right: bool | None
    why: str


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
        expected=Answers(questions=questions, rubrics=rubrics, verdict=expected["verdict"]),
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


def explain_answers(practised: Practice, given: Answers) -> list[ExplainedAnswer]:
    """Every given answer with the known one and its explanation, the verdict last."""
    form = practised.spec.form
    values, expected_values = _values(form, given), _values(form, practised.expected)
    rows: list[tuple[str, str, Mapping[str, object]]] = []
    for question in form.questions:
        if question.kind != "text":
            choices = {choice.value: translate(choice.label) for choice in question.choices}
            rows.append((f"question.{question.key}", translate(question.label), choices))
    for rubric in form.rubrics:
        rows.append((f"rubric.{rubric.key}", rubric.criterion, FINDINGS))
    rows.append(("verdict", gettext("Verdict"), VERDICTS))
    result = []
    for key, title, labels in rows:
        value, expected = values[key], expected_values[key]
        right = None
        if expected:
            right = value == expected
        in_words, known = _in_words(labels, value), _in_words(labels, expected)
        result.append(ExplainedAnswer(title, in_words, known, right, practised.why.get(key, "")))
    return result


def _in_words(labels: Mapping[str, object], value: str) -> str:
    return "; ".join(str(labels.get(part, part)) for part in value.split(","))


def _values(form: Form, answers: Answers) -> dict[str, str]:
    values = {"verdict": answers.verdict}
    for question in form.questions:
        values[f"question.{question.key}"] = answers.questions.get(question.key, Answer()).value
    for rubric in form.rubrics:
        values[f"rubric.{rubric.key}"] = answers.rubrics.get(rubric.key, RubricAnswer()).value
    return values
