"""Numbers into geometry for `templates/generation/charts/`. Lengths are SVG user units, one CSS pixel at natural size.

Each picture has the same numbers as a table beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from generation.endpoints.queries import UsageTotals
from review.charts.scales import LEFT, PLOT, RIGHT, TOP, WIDTH, Tick, scale_of

PARTS = ("answered", "failed", "hits")  # from the ground up


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a day's bar; `index` (0-2) is its place in `PARTS`."""

    index: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One day: what was answered, what failed and what had been paid for before, one above the other."""

    x: float
    parts: tuple[Part, ...]
    label_x: float
    label: date | None


@dataclass(frozen=True, slots=True)
class Days:
    """Calls by day."""

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    bar_width: float
    bottom: float
    height: float
    left: float = LEFT
    width: float = WIDTH
    right: float = WIDTH - RIGHT


def days(rows: Sequence[UsageTotals], *, height: float = 180.0) -> Days:
    """A bar a day, the last day at the right."""
    bottom = height - 26
    scale = scale_of(max((row.calls + row.hits for row in rows), default=0), whole=True)
    step = PLOT / max(len(rows), 1)
    bars = []
    for place, row in enumerate(rows):
        parts, ground = [], bottom
        for index, count in enumerate((row.calls - row.failed, row.failed, row.hits)):
            tall = (bottom - TOP) * count / scale[-1]
            if count:
                parts.append(Part(index, round(ground - tall, 2), round(tall, 2)))
            ground -= tall
        bars.append(
            Bar(
                x=round(LEFT + step * (place + 0.15), 2),
                parts=tuple(parts),
                label_x=round(LEFT + step * (place + 0.5), 2),
                label=row.day if (len(rows) - 1 - place) % 7 == 0 else None,
            )
        )
    ticks = tuple(Tick(round(bottom - (bottom - TOP) * value / scale[-1], 2), f"{value:g}") for value in scale)
    return Days(tuple(bars), ticks, round(step * 0.7, 2), bottom, height)
