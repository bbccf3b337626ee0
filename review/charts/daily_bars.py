"""Daily bars: counts side by side or stacked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from review.charts.scales import TOP, Tick, scale_of
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
    tallest = max((sum(counts) if stacked else max(counts) for _day, counts in rows), default=0)
    scale = scale_of(tallest, whole=True)
    step = 100 / max(len(rows), 1)
    width = step * (1 - 2 * GAP) / (1 if stacked else len(legend))
    bars = []
    for index, (day, counts) in enumerate(rows):
        parts, base = [], bottom
        for series_index, (sign, count) in enumerate(zip(legend, counts, strict=True)):
            bar_height = (bottom - TOP) * count / scale[-1]
            x = step * (index + GAP) + (0 if stacked else width * series_index)
            if count:
                parts.append(
                    Part(sign, round(x, 3), round(width, 3), round(base - bar_height, 2), round(bar_height, 2))
                )
            base -= bar_height if stacked else 0
        label = None
        if (len(rows) - 1 - index) % 7 == 0:
            label = day
        bars.append(DayBar(day, tuple(counts), tuple(parts), round(step * (index + 0.5), 3), label))
    ticks = tuple(Tick(round(bottom - (bottom - TOP) * value / scale[-1], 2), f"{value:g}") for value in scale)
    return DailyBars(title, tuple(bars), ticks, bottom, tuple(legend))
