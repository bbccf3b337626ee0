"""Line charts of weekly figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil
from typing import TYPE_CHECKING

from review.charts.scales import LEFT, PLOT, RIGHT, TOP, WIDTH, Tick, scale_of

if TYPE_CHECKING:
    from review.quality.reliability import Week


@dataclass(frozen=True, slots=True)
class TrendLine:
    """One figure over the weeks: `paths` between gaps, and a dot for each week with a value."""

    paths: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    ticks: tuple[Tick, ...]
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Drift:
    """Agreement above and minutes per case below, on a common axis of weeks."""

    agreed: TrendLine
    minutes: TrendLine
    labels: tuple[tuple[float, date], ...]
    height: float
    left: float = LEFT
    width: float = WIDTH
    right: float = WIDTH - RIGHT


def drift(weeks: Sequence[Week], *, panel: float = 90.0) -> Drift:
    """The chart of the weeks with answers, spaced by date."""
    if weeks:
        first = weeks[0].monday
    else:
        first = date.min
    span = 7
    if weeks:
        span = max((weeks[-1].monday - first).days, 7)
    xs = [round(LEFT + 8 + (PLOT - 16) * (week.monday - first).days / span, 2) for week in weeks]
    minutes = [week.minutes for week in weeks]
    minute_ticks = scale_of(max((value for value in minutes if value is not None), default=0))
    minutes_top = TOP + panel + 56
    label_interval = ceil(len(weeks) / 6)
    return Drift(
        agreed=_line(xs, [week.agreed.value for week in weeks], [0, 0.5, 1], TOP + 10, panel, "{:.0%}"),
        minutes=_line(xs, minutes, minute_ticks, minutes_top, panel, "{:g}"),
        labels=tuple(
            (x, week.monday) for i, (x, week) in enumerate(zip(xs, weeks, strict=True)) if i % label_interval == 0
        ),
        height=minutes_top + panel + 34,
    )


def _line(
    xs: Sequence[float],
    values: Sequence[float | None],
    scale: Sequence[float],
    top: float,
    height: float,
    tick_format: str,
) -> TrendLine:
    def y(value: float) -> float:
        return round(top + height * (1 - value / scale[-1]), 2)

    points = [(x, y(value)) if value is not None else None for x, value in zip(xs, values, strict=True)]
    paths, run = [], []
    for point in [*points, None]:
        if point is not None:
            run.append(f"{point[0]:g} {point[1]:g}")
        elif run:
            if len(run) > 1:
                paths.append("M" + "L".join(run))
            run = []
    dots = tuple(point for point in points if point is not None)
    return TrendLine(tuple(paths), dots, tuple(Tick(y(v), tick_format.format(v)) for v in scale), top, top + height)
