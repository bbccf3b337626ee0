"""Bars by day: counts beside or upon each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from review.charts.scales import TOP, Tick, scale_of
from review.charts.text_measure import Entry

GAP = 0.12  # of a day's room, at either side of its bars


@dataclass(frozen=True, slots=True)
class Part:
    """One count of a day: its place and width in per cent of the plot, its height in pixels."""

    sign: Entry
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class DayBar:
    """One day with its counts and the bars of those that are not 0; a label under some."""

    day: date
    counts: tuple[int, ...]
    parts: tuple[Part, ...]
    label_x: float
    label: date | None


@dataclass(frozen=True, slots=True)
class DailyBars:
    """Counts by day on one scale. `name` is unique on the page."""

    name: str
    title: str
    bars: tuple[DayBar, ...]
    ticks: tuple[Tick, ...]
    bottom: float
    height: float
    legend: tuple[Entry, ...]


def days(
    rows: Sequence[tuple[date, Sequence[int]]],
    legend: Sequence[Entry],
    *,
    name: str = "days",
    title: str = "",
    stacked: bool = False,
    height: float = 200.0,
) -> DailyBars:
    """The counts of each day, as many as the legend has entries, the last day at the right."""
    bottom = height - 26
    tallest = max((sum(counts) if stacked else max(counts) for _day, counts in rows), default=0)
    scale = scale_of(tallest, whole=True)
    step = 100 / max(len(rows), 1)
    width = step * (1 - 2 * GAP) / (1 if stacked else len(legend))
    bars = []
    for place, (day, counts) in enumerate(rows):
        parts, ground = [], bottom
        for index, (sign, count) in enumerate(zip(legend, counts, strict=True)):
            tall = (bottom - TOP) * count / scale[-1]
            x = step * (place + GAP) + (0 if stacked else width * index)
            if count:
                parts.append(Part(sign, round(x, 3), round(width, 3), round(ground - tall, 2), round(tall, 2)))
            ground -= tall if stacked else 0
        label = day if (len(rows) - 1 - place) % 7 == 0 else None
        bars.append(DayBar(day, tuple(counts), tuple(parts), round(step * (place + 0.5), 3), label))
    ticks = tuple(Tick(round(bottom - (bottom - TOP) * value / scale[-1], 2), f"{value:g}") for value in scale)
    return DailyBars(name, title, tuple(bars), ticks, bottom, height, tuple(legend))
