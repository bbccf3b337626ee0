"""An estimate and its interval as a mark on a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from review.quality.agreement import AgreementEstimate


MARK = 96.0  # width of the drawing, in a table cell


@dataclass(frozen=True, slots=True)
class Mark:
    """A dot with a whisker on a scale from 0 to 1; values below 0 are drawn at 0."""

    x: float
    low_x: float | None
    high_x: float | None


def mark(estimate: AgreementEstimate) -> Mark | None:
    """The mark of an estimate; None if it is undefined."""
    if estimate.value is None:
        return None

    def x(value: float) -> float:
        return round(4 + (MARK - 8) * min(1.0, max(0.0, value)), 2)

    if estimate.low is None or estimate.high is None:
        return Mark(x(estimate.value), None, None)
    return Mark(x(estimate.value), x(estimate.low), x(estimate.high))


@dataclass(frozen=True, slots=True)
class DifferenceMark:
    """A difference and its whisker around the zero line, in per cent of the column's width."""

    x: float
    low_x: float | None
    high_x: float | None
    zero: float = 50.0


def difference_mark(
    value: float | None, low: float | None, high: float | None, *, reach: float
) -> DifferenceMark | None:
    """A row of a forest plot; None without a value.

    Differences beyond ±`reach` are drawn at the edge.
    """
    if value is None:
        return None

    def x(difference: float) -> float:
        return round(50 + 46 * max(-1.0, min(1.0, difference / reach if reach else 0.0)), 2)

    if low is None or high is None:
        return DifferenceMark(x(value), None, None)
    return DifferenceMark(x(value), x(low), x(high))
