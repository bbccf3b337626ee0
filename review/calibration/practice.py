"""A practice case with its answers explained, from a benchmark's folder. Nothing is stored: it can be left and repeated."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext

from review.calibration.queries import compare
from review.common import benchmarks
from review.labels import FINDINGS, VERDICTS, translate
from review.rules.case_spec import CaseSpec
from review.rules.questions import Answer, Answers, Form, RubricAnswer


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of error in the benchmark's taxonomy with an example; `group` is the label of its cluster, if it has one."""

    code: str
    label: str
    group: str
    definition: str
    example: str


@dataclass(frozen=True, slots=True)
class Practice:
    """What a newcomer reads and tries, in the reader's language.

    about: in a few paragraphs, what is judged. why: field (question.<key>, rubric.<key>, verdict) -> the answer explained.
    expected: the known answers; what it leaves blank has no single right answer.
    """

    about: tuple[str, ...]
    kinds: tuple[Kind, ...]
    spec: CaseSpec
    expected: Answers
    why: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Explained:
    """One answer beside the known one. `right` is None where there is no single right answer."""

    title: str
    given: str
    expected: str
    right: bool | None
    why: str


def names() -> list[str]:
    """The benchmarks that have a practice case."""
    return [name for name in benchmarks.names() if benchmarks.module(name, "practice") is not None]


def practice(benchmark: str) -> Practice | None:
    """The benchmark's `practice.practice()`, if it has one."""
    module = benchmarks.module(benchmark, "practice")
    found: Practice | None = module.practice() if module else None
    return found


def explained(about: Practice, given: Answers) -> list[Explained]:
    """Every answer with the known one and why, the verdict last."""
    form, expected = about.spec.form, about.expected
    _matched, _asked, missed = compare(expected, given)
    found = []
    for key, title, (one, other), labels in _fields(form, given, expected):
        right = key not in missed if other else None
        said, known = (_in_words(value, labels) for value in (one, other))
        found.append(Explained(title, said, known, right, about.why.get(key, "")))
    return found


def _in_words(value: str, labels: Mapping[str, str]) -> str:
    """The labels of an answer; of several choices, of each."""
    return labels.get(value) or "; ".join(labels.get(each, each) for each in value.split(","))


def _fields(form: Form, given: Answers, expected: Answers) -> list[tuple[str, str, tuple[str, str], dict[str, str]]]:
    verdicts = {value: str(label) for value, label in VERDICTS.items()}
    findings = {value: str(label) for value, label in FINDINGS.items()}
    both = (given, expected)
    return [
        *(
            (
                f"question.{question.key}",
                translate(question.label),
                _pair([each.questions.get(question.key, Answer()).value for each in both]),
                {choice.value: translate(choice.label) for choice in question.choices},
            )
            for question in form.questions
        ),
        *(
            (
                f"rubric.{rubric.key}",
                rubric.criterion,
                _pair([each.rubrics.get(rubric.key, RubricAnswer()).value for each in both]),
                findings,
            )
            for rubric in form.rubrics
        ),
        ("verdict", gettext("Verdict"), (given.verdict, expected.verdict), verdicts),
    ]


def _pair(values: list[str]) -> tuple[str, str]:
    return values[0], values[1]
