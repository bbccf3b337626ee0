"""Daily bars: counts side by side or stacked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from review.charts.scales import TOP, Tick, scale_of, ticks
from review.charts.text_measure import LegendEntry

HEIGHT = 200.0
GAP = 0.12  # share of a day's width that is left free on either side of its bars


@dataclass(frozen=True, slots=True)
class Part:
    """The bar of one count: `x` and `width` in per cent of the plot, `y` and `height` in pixels."""

    sign: LegendEntry
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class DayBar:
    """One day with its counts and the bars of the non-zero ones; only some days have a label."""

    day: date
    counts: tuple[int, ...]
    parts: tuple[Part, ...]
    label_x: float
    label: date | None


@dataclass(frozen=True, slots=True)
class DailyBars:
    """Counts by day on one scale."""

    title: str
    bars: tuple[DayBar, ...]
    ticks: tuple[Tick, ...]
    bottom: float
    legend: tuple[LegendEntry, ...]
    height: float = HEIGHT


def days(
    rows: Sequence[tuple[date, Sequence[int]]],
    legend: Sequence[LegendEntry],
    *,
    title: str = "",
    stacked: bool = False,
) -> DailyBars:
    """Bars for the counts of each day (one per legend entry), with the last day on the right."""
    bottom = HEIGHT - 26
    tallest, beside = 0, len(legend)  # bars beside one another
    for _day, counts in rows:
        if stacked:
            tallest = max(tallest, sum(counts))
        else:
            tallest = max(tallest, *counts)
    if stacked:
        beside = 1
    scale = scale_of(tallest, whole=True)
    step = 100 / max(len(rows), 1)
    width = step * (1 - 2 * GAP) / beside
    bars = []
    for index, (day, counts) in enumerate(rows):
        parts, base, x = [], bottom, step * (index + GAP)
        for sign, count in zip(legend, counts, strict=True):
            height = (bottom - TOP) * count / scale[-1]
            if count:
                parts.append(Part(sign, round(x, 3), round(width, 3), round(base - height, 2), round(height, 2)))
            if stacked:
                base -= height
            else:
                x += width
        label = None
        if (len(rows) - 1 - index) % 7 == 0:
            label = day
        bars.append(DayBar(day, tuple(counts), tuple(parts), round(step * (index + 0.5), 3), label))

    def y(value: float) -> float:
        return round(bottom - (bottom - TOP) * value / scale[-1], 2)

    return DailyBars(title, tuple(bars), ticks(scale, y), bottom, tuple(legend))
