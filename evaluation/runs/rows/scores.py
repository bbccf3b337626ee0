"""Scores beside verdicts: computed once, when a response is stored, so that a report of a million only counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from evaluation.models import Response, ResponseScore
from evaluation.protocol import Protocol, Rubric
from evaluation.runs import queries
from generation.models.work import Work

DIGITS = 6  # a score is stored with so many: far below what its interval can tell


@dataclass(frozen=True, slots=True)
class Read:
    """A response and one rubric of its sample, and how the judgment on it begins."""

    row: Response
    rubric_id: int
    rubric: Rubric
    text: str
    judged: Mapping[str, str]


def keep_scores(protocol: Protocol, found: Sequence[Read]) -> None:
    """Store the numbers of responses that have some. What is not judged has none."""
    if protocol.score is None:
        return
    ResponseScore.objects.bulk_create(
        (
            ResponseScore(
                run_id=each.row.run_id,
                response_id=each.row.pk,
                rubric_id=each.rubric_id,
                names=" ".join(numbers),
                numbers=" ".join(as_text(number) for number in numbers.values()),
            )
            for each in found
            if each.judged["status"] != Work.Status.FAILED
            for numbers in [_numbers(protocol, each)]
            if numbers
        ),
        ignore_conflicts=True,
    )


def _numbers(protocol: Protocol, each: Read) -> dict[str, float]:
    """By name in the protocol's order. What lies outside a score's range is none: it is counted as missing."""
    if protocol.score is None:
        return {}
    sample, row = queries.sample_value(each.row.sample), each.row
    told = protocol.score(sample, each.rubric, row.variant, row.about, each.text, each.judged.get("verdict", ""))
    return {
        rule.name: number
        for rule in protocol.scores
        for number in [told.get(rule.name)]
        if number is not None and isfinite(number) and rule.low <= round(number, DIGITS) <= rule.high
    }


def as_text(number: float) -> str:
    """A number as it is stored."""
    return f"{number:.{DIGITS}f}".rstrip("0").rstrip(".")
