"""Scales, sizes and marks that charts share. Lengths are SVG user units, one CSS pixel at natural size."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, cos, floor, log10, pi, sin

WIDTH = 600.0
LEFT, RIGHT, TOP = 44.0, 40.0, 12.0  # at the right, half a date fits under the last mark
HEAD = 12.0  # a line of text above a plot
PLOT = WIDTH - LEFT - RIGHT
MARK = 4.5  # half the width of a mark


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale: where, and what it says."""

    at: float
    text: str


def scale_of(most: float, *, whole: bool = False) -> list[float]:
    """Up to six round steps from 0 to `most` or a little beyond; `whole`: nothing between whole numbers."""
    if most <= 0:
        return [0, 1]
    power = 10 ** int(log10(most) // 1)
    step = next(power * part for part in (0.2, 0.5, 1, 2) if most / (power * part) <= 5)
    if whole:
        step = max(1, step)
    return [round(step * index, 10) for index in range(ceil(most / step - 1e-9) + 1)]


def scale_between(values: Sequence[float]) -> list[float]:
    """Up to seven round steps that hold all of `values`, which may lie anywhere."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # all the same: something to either side
        low, high = (low - 0.5, high + 0.5) if abs(low) < 1 else (low - abs(low) / 2, high + abs(high) / 2)
    power = 10.0 ** floor(log10(high - low))
    step = next(power * part for part in (0.2, 0.5, 1, 2) if (high - low) / (power * part) <= 5)
    first = floor(low / step + 1e-9)
    return [round(step * (first + index), 10) for index in range(ceil(high / step - 1e-9) - first + 1)]


def _polygon(corners: int, radius: float, turn: float = 0.0, inner: float | None = None) -> str:
    count = corners if inner is None else 2 * corners
    places = []
    for i in range(count):
        r = radius if inner is None or i % 2 == 0 else inner
        angle = 2 * pi * i / count - pi / 2 + turn
        places.append(f"{r * cos(angle):.2f} {r * sin(angle):.2f}")
    return "M" + "L".join(places) + "Z"


# Shapes by which the series of a chart are told apart without their colours: SVG paths around (0, 0).
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
