"""Scales, sizes and markers shared by charts.

Lengths are SVG user units (a CSS pixel at full size).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, cos, floor, log10, pi, sin

WIDTH = 600.0
LEFT, RIGHT, TOP = 44.0, 40.0, 12.0  # on the right, half a date fits under the last mark
HEAD = 12.0  # a line of text above a plot
PLOT = WIDTH - LEFT - RIGHT
MARK = 4.5  # half the width of a mark


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale: its position and label."""

    at: float
    text: str


def ticks(scale: Sequence[float], place: Callable[[float], float], text: str = "{:g}") -> tuple[Tick, ...]:
    """The ticks of a scale, where `place` puts them."""
    return tuple(Tick(place(value), text.format(value)) for value in scale)


def scale_of(maximum: float, *, whole: bool = False) -> list[float]:
    """At most six round ticks from 0 to `maximum` or slightly beyond; `whole`: only integers."""
    if maximum <= 0:
        return [0, 1]
    step = _round_step(maximum, 5)
    if whole:
        step = max(1, step)
    return [round(step * index, 10) for index in range(ceil(maximum / step - 1e-9) + 1)]


def scale_between(values: Sequence[float]) -> list[float]:
    """At most seven round ticks around all `values`, not necessarily from 0."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # all equal: add some room on either side
        if abs(low) < 1:
            low, high = low - 0.5, high + 0.5
        else:
            low, high = low - abs(low) / 2, high + abs(high) / 2
    step = _round_step(high - low, 5)
    first = floor(low / step + 1e-9)
    return [round(step * (first + index), 10) for index in range(ceil(high / step - 1e-9) - first + 1)]


def _round_step(span: float, most: int) -> float:
    """The smallest round step of which at most `most` cover a span."""
    power = 10.0 ** floor(log10(span))
    for part in (0.2, 0.5, 1):
        if span / (power * part) <= most:
            return power * part
    return power * 2


def _polygon(corners: int, radius: float, rotation: float = 0.0, inner: float | None = None) -> str:
    radii = [radius]
    if inner is not None:
        radii = [radius, inner]
    count = corners * len(radii)
    points = []
    for i in range(count):
        r = radii[i % len(radii)]
        angle = 2 * pi * i / count - pi / 2 + rotation
        points.append(f"{r * cos(angle):.2f} {r * sin(angle):.2f}")
    return "M" + "L".join(points) + "Z"


# Shapes that distinguish the series of a chart without colour: SVG paths around (0, 0).
MARKERS = (
    f"M{-MARK} 0a{MARK} {MARK} 0 1 0 {2 * MARK} 0a{MARK} {MARK} 0 1 0 {-2 * MARK} 0Z",  # circle
    _polygon(4, MARK * 1.3, pi / 4),  # square
    _polygon(3, MARK * 1.35),  # triangle
    _polygon(4, MARK * 1.35),  # diamond
    _polygon(3, MARK * 1.35, pi),  # triangle, point down
    _polygon(5, MARK * 1.5, inner=MARK * 0.6),  # star
    _polygon(6, MARK * 1.2),  # hexagon
    _polygon(4, MARK * 1.5, inner=MARK * 0.45),  # four-pointed star
)
