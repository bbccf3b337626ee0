"""How many samples physicians found valid, judgment by judgment.

For benchmarks in which one judgment ends a sample and another sends it back.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext_noop as _

from generation.models import Sample, SampleVersion
from review.access.visibility import counted_reviews
from review.forms.queries import sample_case
from review.rules.questions import Question
from review.rules.shown_fields import shown
from review.rules.state_machine import ADJUDICATORS, Ground
from review.rules.wilson_interval import wilson

STREAMED = 500
Status = SampleVersion.Status
BY_SAMPLE = _("samples, by their latest decided version")
BY_VERSION = _("versions")
FOR_GOOD = _("samples approved or discarded")
ALL = _("All judgments")


@dataclass(frozen=True, slots=True)
class Validity:
    """One judgment: of `decided` items of the kind `counted`, physicians found `valid` ones valid.

    `judgment`, `counted`: msgids.
    """

    judgment: str
    counted: str
    decided: int
    valid: int

    @property
    @shown
    def share(self) -> float | None:
        if self.decided:
            return self.valid / self.decided
        return None

    @property
    @shown
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95% interval."""
        if self.decided:
            return wilson(self.valid, self.decided)
        return None

    @property
    def in_words(self) -> str:
        """The share with its interval: '70.6% (65.2–75.4%)'."""
        if self.share is None or self.interval is None:
            return "–"
        low, high = self.interval
        return f"{self.share:.1%} ({100 * low:.1f}–{high:.1%})"


def validity(benchmark: str, versions: QuerySet[SampleVersion]) -> list[Validity]:
    """The judgments on some versions, the overall one last. Two queries, streamed.

    Empty if no answer of the benchmark ends a sample, or nothing has been decided. A judgment is in
    favour if one of the deciding physicians answered in favour, which is how a rejected sample is
    sent back instead of ended. Questions that went unasked because of another answer are not
    counted.
    """
    questions = judgment_questions(benchmark)
    ending = set()
    for question in questions:
        if any(choice.ends for choice in question.choices):
            ending.add(question.key)
    if not ending:
        return []
    decided = versions.filter(status__in=[Status.APPROVED, Status.REJECTED]).exclude(case__ground=Ground.UNREVIEWED)
    rejected = rejected_judgments(questions, decided.filter(status=Status.REJECTED))
    by_sample: dict[str, dict[int, bool]] = defaultdict(dict)  # latest version
    by_version: dict[str, Counter[bool]] = defaultdict(Counter)
    overall: dict[int, bool] = {}
    rows = decided.order_by("sample", "number").values_list("sample", "sample__status", "case", "status")
    for sample, sample_status, case, status in rows.iterator(chunk_size=STREAMED):
        approved = status == Status.APPROVED
        for question in questions:
            in_favour: bool | None = True
            if not approved:
                in_favour = rejected.get(case, {}).get(question.key)
            if in_favour is not None:
                by_sample[question.key][sample] = in_favour
                by_version[question.key][in_favour] += 1
        if approved or sample_status == Sample.Status.DISCARDED:
            overall[sample] = approved
    if not by_sample[questions[0].key]:
        return []
    lines = []
    for question in questions:
        if question.key in ending:
            latest = by_sample[question.key]
            lines.append(Validity(question.label, BY_SAMPLE, len(latest), sum(latest.values())))
        else:
            counts = by_version[question.key]
            lines.append(Validity(question.label, BY_VERSION, counts.total(), counts[True]))
    return [*lines, Validity(ALL, FOR_GOOD, len(overall), sum(overall.values()))]


def judgment_questions(benchmark: str) -> list[Question]:
    """The questions of the benchmark's form that can keep a sample from being approved."""
    spec = sample_case(benchmark)
    if spec is None:
        return []
    blocking = []
    for question in spec.form.questions:
        if any(choice.blocks for choice in question.choices):
            blocking.append(question)
    return blocking


def rejected_judgments(
    questions: list[Question], versions: QuerySet[SampleVersion]
) -> Mapping[int, Mapping[str, bool]]:
    """Rejected case -> question -> whether any deciding physician answered in favour.

    Questions that nobody was asked are missing.
    """
    reviews = counted_reviews().filter(case__in=versions.order_by().values("case")).order_by("case", "id")
    values = [
        KeyTransform("value", KeyTransform(question.key, KeyTransform("questions", "answers")))
        for question in questions
    ]
    answers_by_role: dict[int, dict[str, dict[str, Any]]] = {}
    for case, role, *raw_values in reviews.values_list("case", "role", *values).iterator(chunk_size=STREAMED):
        answers = {question.key: value for question, value in zip(questions, raw_values, strict=True)}
        answers_by_role.setdefault(case, {})[role] = answers  # the latest review of each role wins
    return {case: _in_favour(questions, roles) for case, roles in answers_by_role.items()}


def _in_favour(questions: list[Question], answers_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, bool]:
    deciding = list(answers_by_role.values())
    if adjudicators := [answers for role, answers in answers_by_role.items() if role in ADJUDICATORS]:
        deciding = adjudicators
    in_favour: dict[str, bool] = {}
    for question in questions:
        blocking = {choice.value for choice in question.choices if choice.blocks}
        condition, _equals, required = question.when.partition("=")
        values = [answers[question.key] for answers in deciding if not condition or answers.get(condition) == required]
        if any(values):
            in_favour[question.key] = any(value not in blocking for value in values if value)
    return in_favour
