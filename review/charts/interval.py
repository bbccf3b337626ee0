"""An estimate and its interval as a mark on a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from review.quality.agreement import AgreementEstimate


MARK = 96.0  # width of the drawing, in a table cell


@dataclass(frozen=True, slots=True)
class Mark:
    """A dot with a whisker; without an interval, the dot alone."""

    x: float
    low_x: float | None = None
    high_x: float | None = None


def mark(estimate: AgreementEstimate) -> Mark | None:
    """The mark of an estimate on a scale from 0 to 1; None if it is undefined.

    Values below 0 are drawn at 0.
    """
    return _mark(estimate.value, estimate.low, estimate.high, lambda value: 4 + (MARK - 8) * min(1.0, max(0.0, value)))


def difference_mark(value: float | None, low: float | None, high: float | None, *, reach: float) -> Mark | None:
    """A row of a forest plot, in per cent of its width, with zero at 50; None without a value.

    Differences beyond ±`reach` are drawn at the edge.
    """

    def place(difference: float) -> float:
        if not reach:
            return 50.0
        return 50 + 46 * max(-1.0, min(1.0, difference / reach))

    return _mark(value, low, high, place)


def _mark(value: float | None, low: float | None, high: float | None, place: Callable[[float], float]) -> Mark | None:
    if value is None:
        return None
    if low is None or high is None:
        return Mark(round(place(value), 2))
    return Mark(round(place(value), 2), round(place(low), 2), round(place(high), 2))
