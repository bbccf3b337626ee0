"""Scales and sizes that charts share. Lengths are SVG user units, one CSS pixel at natural size."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

WIDTH = 600.0
LEFT, RIGHT, TOP = 44.0, 40.0, 12.0  # at the right, half a date fits under the last mark
HEAD = 12.0  # a line of text above a plot
PLOT = WIDTH - LEFT - RIGHT


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
