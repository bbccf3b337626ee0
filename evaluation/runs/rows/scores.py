"""Scores beside verdicts, computed once when a response is stored: reports only aggregate them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from evaluation.models import Response, ResponseScore
from evaluation.protocol import Protocol, Rubric
from evaluation.runs import queries
from generation.models.work import Work

DIGITS = 6  # decimals of a stored score, far finer than its interval


@dataclass(frozen=True, slots=True)
class RubricReading:
    """A response with one rubric of its sample. `judged`: the initial fields of their judgment."""

    row: Response
    rubric_id: int
    rubric: Rubric
    text: str
    judged: Mapping[str, str]


def store_scores(protocol: Protocol, readings: Sequence[RubricReading]) -> None:
    """Store the scores of these responses. Responses that are not judged have none."""
    if protocol.score is None:
        return
    ResponseScore.objects.bulk_create(
        (
            ResponseScore(
                run_id=reading.row.run_id,
                response_id=reading.row.pk,
                rubric_id=reading.rubric_id,
                names=" ".join(scores),
                numbers=" ".join(format_score(number) for number in scores.values()),
            )
            for reading in readings
            if reading.judged["status"] != Work.Status.FAILED
            for scores in [_scores(protocol, reading)]
            if scores
        ),
        ignore_conflicts=True,
    )


def _scores(protocol: Protocol, reading: RubricReading) -> dict[str, float]:
    """The scores by name, in the protocol's order. Values out of range count as missing."""
    if protocol.score is None:
        return {}
    sample, row = queries.sample_value(reading.row.sample), reading.row
    scores = protocol.score(
        sample, reading.rubric, row.variant, row.about, reading.text, reading.judged.get("verdict", "")
    )
    return {
        rule.name: number
        for rule in protocol.scores
        for number in [scores.get(rule.name)]
        if number is not None and isfinite(number) and rule.low <= round(number, DIGITS) <= rule.high
    }


def format_score(number: float) -> str:
    """The stored form of a score."""
    return f"{number:.{DIGITS}f}".rstrip("0").rstrip(".")
