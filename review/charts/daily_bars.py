"""Bars by day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from review.charts.scales import LEFT, PLOT, RIGHT, TOP, WIDTH, Tick, scale_of

if TYPE_CHECKING:
    from review.quality.progress import Day


@dataclass(frozen=True, slots=True)
class DayBar:
    """One day: a filled bar for reviews and a hollow one for closed cases, with a label under some."""

    day: Day
    x: float
    reviews_y: float
    reviews_height: float
    closed_x: float
    closed_y: float
    closed_height: float
    label_x: float
    label: date | None


@dataclass(frozen=True, slots=True)
class Bars:
    """Counts by day on one scale."""

    bars: tuple[DayBar, ...]
    ticks: tuple[Tick, ...]
    bar_width: float
    bottom: float
    height: float
    left: float = LEFT
    width: float = WIDTH
    right: float = WIDTH - RIGHT


def days(rows: Sequence[Day], *, height: float = 200.0) -> Bars:
    """Two bars a day, the last day at the right."""
    bottom = height - 26
    scale = scale_of(max((max(row.reviews, row.closed) for row in rows), default=0), whole=True)
    step = PLOT / max(len(rows), 1)
    bar = round(step * 0.38, 2)

    def tall(count: int) -> float:
        return round((bottom - TOP) * count / scale[-1], 2)

    marks = []
    for index, row in enumerate(rows):
        x = LEFT + step * index + step * 0.1
        marks.append(
            DayBar(
                day=row,
                x=round(x, 2),
                reviews_y=round(bottom - tall(row.reviews), 2),
                reviews_height=tall(row.reviews),
                closed_x=round(x + bar + step * 0.04, 2),
                closed_y=round(bottom - tall(row.closed), 2),
                closed_height=tall(row.closed),
                label_x=round(LEFT + step * (index + 0.5), 2),
                label=row.day if (len(rows) - 1 - index) % 7 == 0 else None,
            )
        )
    ticks = tuple(Tick(round(bottom - (bottom - TOP) * value / scale[-1], 2), f"{value:g}") for value in scale)
    return Bars(tuple(marks), ticks, bar, bottom, height)
