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
