"""Scatter plots and point clouds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING

from review.charts.scales import HEAD, LEFT, MARKERS, PLOT, RIGHT, TOP, WIDTH, Tick, scale_between, scale_of, ticks
from review.charts.text_measure import LegendEntry
from review.rules.blocks import Point, Points

if TYPE_CHECKING:
    from review.quality.reliability import Dot


@dataclass(frozen=True, slots=True)
class Scatter:
    """A dot per case, minutes over words.

    `clipped`: the number of dots above the range, drawn at its edge.
    """

    dots: tuple[tuple[float, float], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bottom: float
    height: float
    clipped: int
    left: float = LEFT
    width: float = WIDTH
    right: float = WIDTH - RIGHT
    top: float = TOP + HEAD


def scatter(dots: Sequence[Dot], *, height: float = 276.0) -> Scatter:
    """Active time over length.

    The minutes end at the 95th percentile, so that outliers flatten nothing.
    """
    bottom = height - 56
    minutes = sorted(dot.minutes for dot in dots)
    percentile_95 = 0.0
    if minutes:
        percentile_95 = minutes[ceil(0.95 * len(minutes)) - 1]
    longest = max((dot.words for dot in dots), default=0)
    x_scale, y_scale = scale_of(longest, whole=True), scale_of(percentile_95)

    def x(words: float) -> float:
        return round(LEFT + PLOT * words / x_scale[-1], 2)

    def y(value: float) -> float:
        return round(bottom - (bottom - TOP - HEAD) * min(1.0, value / y_scale[-1]), 2)

    places = tuple((x(dot.words), y(dot.minutes)) for dot in dots)
    return Scatter(
        dots=places,
        x_ticks=ticks(x_scale, x),
        y_ticks=ticks(y_scale, y),
        bottom=bottom,
        height=height,
        clipped=sum(dot.minutes > y_scale[-1] for dot in dots),
    )


MAX_NAMES = 40  # written beside the points of one chart
MAX_POINTS = 2_000  # in one chart and its table
MAX_MARK_SCALE = 3.0  # relative to the natural size of a mark
MIN_MARK_SCALE = 0.7


@dataclass(frozen=True, slots=True)
class Spot:
    """A point as drawn; `scale` is relative to the natural size of its mark.

    `name` is written beside it; "" if the chart has no room for names.
    """

    x: float
    y: float
    scale: float
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class PointGroup:
    """The points of one group, whose `sign` distinguishes 16 groups without colour."""

    sign: LegendEntry
    spots: tuple[Spot, ...]


PERCENT = [0.0, 25.0, 50.0, 75.0, 100.0]


@dataclass(frozen=True, slots=True)
class PointsChart:
    """A scatter plot.

    `rows`: label, group, x, y and size, for the table; `left_out`: points not shown.
    """

    groups: tuple[PointGroup, ...]
    rows: tuple[tuple[str, str, str, str, str], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    grouped: bool
    labelled: bool
    sized: bool
    left_out: int
    bottom: float
    height: float
    left: float = LEFT + 8
    width: float = WIDTH
    right: float = WIDTH - RIGHT
    top: float = TOP + HEAD


def points_chart(block: Points, *, height: float = 356.0) -> PointsChart:
    """A scatter plot on scales that need not start at 0, small points in front of large ones."""
    shown = block.points[:MAX_POINTS]
    left, right, top, bottom = LEFT + 8, WIDTH - RIGHT, TOP + HEAD, height - 56
    x_scale, y_scale = PERCENT, PERCENT
    if not block.percent:
        x_scale = scale_between([point.x for point in shown])
        y_scale = scale_between([point.y for point in shown])
    sizes = {point.size for point in shown}
    largest, sized = max(sizes, default=0.0), len(sizes) > 1

    def x(value: float) -> float:
        return round(left + (right - left) * (value - x_scale[0]) / (x_scale[-1] - x_scale[0]), 2)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (value - y_scale[0]) / (y_scale[-1] - y_scale[0]), 2)

    def scale(size: float) -> float:
        if sized:
            return round(max(MIN_MARK_SCALE, MAX_MARK_SCALE * sqrt(size / largest)), 3)
        return 1.0

    # The first word of a label is its code. With two points of one name, none of them says which.
    names = [point.label.partition(" ")[0] for point in shown]
    named = len(shown) <= MAX_NAMES and len(set(names)) == len(names)

    members: dict[str, list[Point]] = {}
    rows = []
    for point in shown:
        members.setdefault(point.group, []).append(point)
        rows.append((point.label, point.group, f"{point.x:.4g}", f"{point.y:.4g}", f"{point.size:.4g}"))
    groups = []
    for index, (label, points) in enumerate(members.items()):
        spots = []
        for point in sorted(points, key=lambda point: -point.size):
            code = ""
            if named:
                code = point.label.partition(" ")[0]
            text = f"{point.label or label}: {point.x:.4g}, {point.y:.4g}"
            spots.append(Spot(x(point.x), y(point.y), scale(point.size), text, code))
        sign = LegendEntry(label, index % 8, marker=MARKERS[index % 8], hollow=index % 16 >= 8)
        groups.append(PointGroup(sign, tuple(spots)))
    return PointsChart(
        groups=tuple(groups),
        rows=tuple(rows),
        x_ticks=ticks(x_scale, x),
        y_ticks=ticks(y_scale, y),
        grouped=any(members),
        labelled=any(point.label for point in shown),
        sized=sized,
        left_out=len(block.points) - len(shown),
        bottom=bottom,
        height=height,
    )
