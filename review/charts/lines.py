"""Line charts of weekly figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil
from typing import TYPE_CHECKING

from review.charts.scales import LEFT, PLOT, RIGHT, TOP, WIDTH, Tick, scale_of, ticks

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
    first, span = date.min, 7
    if weeks:
        first = weeks[0].monday
        span = max((weeks[-1].monday - first).days, 7)
    xs, labels = [], []
    label_interval = ceil(len(weeks) / 6)
    for index, week in enumerate(weeks):
        x = round(LEFT + 8 + (PLOT - 16) * (week.monday - first).days / span, 2)
        xs.append(x)
        if index % label_interval == 0:
            labels.append((x, week.monday))
    shares = [week.agreed.value for week in weeks]
    minutes = [week.minutes for week in weeks]
    minute_ticks = scale_of(max((value for value in minutes if value is not None), default=0))
    minutes_top = TOP + panel + 56
    return Drift(
        agreed=_line(xs, shares, [0, 0.5, 1], TOP + 10, panel, "{:.0%}"),
        minutes=_line(xs, minutes, minute_ticks, minutes_top, panel, "{:g}"),
        labels=tuple(labels),
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

    paths, dots, run = [], [], list[str]()
    for x, value in [*zip(xs, values, strict=True), (0.0, None)]:
        if value is not None:
            dots.append((x, y(value)))
            run.append(f"{x:g} {y(value):g}")
            continue
        if len(run) > 1:
            paths.append("M" + "L".join(run))
        run = []
    return TrendLine(tuple(paths), tuple(dots), ticks(scale, y, tick_format), top, top + height)
