"""Scatter plots and point clouds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING

from review.charts.scales import HEAD, LEFT, MARKERS, PLOT, RIGHT, TOP, WIDTH, Tick, scale_between, scale_of
from review.rules.blocks import Points

if TYPE_CHECKING:
    from review.quality.reliability import Dot


@dataclass(frozen=True, slots=True)
class Scatter:
    """A dot for each case: words along, minutes up. `clipped`: so many lie above the picture, drawn at its edge."""

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
    """Speed against length. The scale of minutes ends at what 19 of 20 cases need: one long lunch flattens nothing."""
    bottom = height - 56
    minutes = sorted(dot.minutes for dot in dots)
    most = minutes[ceil(0.95 * len(minutes)) - 1] if minutes else 0
    x_scale, y_scale = scale_of(max((dot.words for dot in dots), default=0), whole=True), scale_of(most)

    def x(words: float) -> float:
        return round(LEFT + PLOT * words / x_scale[-1], 2)

    def y(value: float) -> float:
        return round(bottom - (bottom - TOP - HEAD) * min(1.0, value / y_scale[-1]), 2)

    return Scatter(
        dots=tuple((x(dot.words), y(dot.minutes)) for dot in dots),
        x_ticks=tuple(Tick(x(value), f"{value:g}") for value in x_scale),
        y_ticks=tuple(Tick(y(value), f"{value:g}") for value in y_scale),
        bottom=bottom,
        height=height,
        clipped=sum(dot.minutes > y_scale[-1] for dot in dots),
    )


POINTS_SHOWN = 2_000  # in one picture and its table
MOST_LIKE = 3.0  # a mark at its largest, in natural sizes
LEAST_LIKE = 0.7


@dataclass(frozen=True, slots=True)
class Spot:
    """A point as drawn: where, and how large (1: the natural size of its mark)."""

    x: float
    y: float
    scale: float
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Points of one group. `index` (0-7) chooses the colour; shape and `hollow` tell sixteen groups apart without it."""

    label: str
    index: int
    marker: str
    hollow: bool
    spots: tuple[Spot, ...]


PERCENT = [0.0, 25.0, 50.0, 75.0, 100.0]


@dataclass(frozen=True, slots=True)
class PointsChart:
    """A block of points. `rows`: label, group, x, y and size of each, for the table; `left_out`: so many are in neither."""

    groups: tuple[Group, ...]
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
    """Points on two scales that need not begin at 0, a group's points under one shape, larger ones behind smaller ones."""
    shown = block.points[:POINTS_SHOWN]
    left, right, top, bottom = LEFT + 8, WIDTH - RIGHT, TOP + HEAD, height - 56
    x_scale = PERCENT if block.percent else scale_between([point.x for point in shown])
    y_scale = PERCENT if block.percent else scale_between([point.y for point in shown])
    largest = max((point.size for point in shown), default=0.0)
    sized = len({point.size for point in shown}) > 1

    def x(value: float) -> float:
        return round(left + (right - left) * (value - x_scale[0]) / (x_scale[-1] - x_scale[0]), 2)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (value - y_scale[0]) / (y_scale[-1] - y_scale[0]), 2)

    def scale(size: float) -> float:
        return round(max(LEAST_LIKE, MOST_LIKE * sqrt(size / largest)), 3) if sized else 1.0

    groups = []
    for place, label in enumerate(dict.fromkeys(point.group for point in shown)):
        own = sorted((point for point in shown if point.group == label), key=lambda point: -point.size)
        spots = tuple(
            Spot(x(point.x), y(point.y), scale(point.size), f"{point.label or label}: {point.x:.4g}, {point.y:.4g}")
            for point in own
        )
        groups.append(Group(label, place % 8, MARKERS[place % 8], place % 16 >= 8, spots))
    return PointsChart(
        groups=tuple(groups),
        rows=tuple(
            (point.label, point.group, f"{point.x:.4g}", f"{point.y:.4g}", f"{point.size:.4g}") for point in shown
        ),
        x_ticks=tuple(Tick(x(value), f"{value:g}") for value in x_scale),
        y_ticks=tuple(Tick(y(value), f"{value:g}") for value in y_scale),
        grouped=any(point.group for point in shown),
        labelled=any(point.label for point in shown),
        sized=sized,
        left_out=len(block.points) - len(shown),
        bottom=bottom,
        height=height,
    )
