"""An estimate and its interval as a mark on a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from review.quality.agreement import Estimate


MARK = 96.0  # an interval in a table's cell


@dataclass(frozen=True, slots=True)
class Mark:
    """A dot and its whisker on a scale from 0 to 1; what lies below 0 is drawn at 0, and the number beside it is right."""

    x: float
    low_x: float | None
    high_x: float | None


def mark(estimate: Estimate) -> Mark | None:
    """The picture of one estimate; None where it is not defined."""
    if estimate.value is None:
        return None

    def x(value: float) -> float:
        return round(4 + (MARK - 8) * min(1.0, max(0.0, value)), 2)

    known = estimate.low is not None and estimate.high is not None
    return Mark(
        x(estimate.value),
        x(estimate.low) if known and estimate.low is not None else None,
        x(estimate.high) if known and estimate.high is not None else None,
    )


@dataclass(frozen=True, slots=True)
class DifferenceMark:
    """A difference and its whisker around the line of no difference, in per cent of a width that a column of them shares."""

    x: float
    low_x: float | None
    high_x: float | None
    zero: float = 50.0


def difference_mark(
    value: float | None, low: float | None, high: float | None, *, reach: float
) -> DifferenceMark | None:
    """A row of a forest plot; `reach`: the largest difference that is drawn, either way. None where there is no difference."""
    if value is None:
        return None

    def x(at: float) -> float:
        return round(50 + 46 * max(-1.0, min(1.0, at / reach if reach else 0.0)), 2)

    known = low is not None and high is not None
    return DifferenceMark(
        x(value), x(low) if known and low is not None else None, x(high) if known and high is not None else None
    )
