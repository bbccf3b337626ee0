"""Box plots of distributions.

Like bars, the chart is a table: each box is in the row of its numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PARTS = 5  # of a box: whisker, quartile, median, quartile, whisker


@dataclass(frozen=True, slots=True)
class Box:
    """A distribution: the 5th, 25th, 50th, 75th and 95th percentile (`parts`) and the mean.

    Without numbers, `parts` is empty and `mean` None. `note` is shown beside the mean (its
    interval); `count` is the number of values.
    """

    label: str
    parts: tuple[float, ...] = ()
    mean: float | None = None
    note: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class BoxMark:
    """A box as drawn, in per cent of the scale, with its numbers as texts."""

    box: Box
    at: tuple[float, ...]
    width: float  # between the quartiles
    mean: float | None
    text: str
    spread: str


@dataclass(frozen=True, slots=True)
class BoxChart:
    """Horizontal boxes on one scale."""

    name: str
    title: str
    marks: tuple[BoxMark, ...]
    ticks: tuple[str, ...]


def boxes(rows: Sequence[Box], *, low: float, high: float, name: str = "boxes", title: str = "") -> BoxChart:
    """Boxes for `rows`, in their order, on a scale from `low` to `high` with five ticks.

    `name` is unique on the page. Raises ValueError for a box without five parts in ascending order,
    or with values outside the scale.
    """
    marks = []
    for row in rows:
        if row.parts and (len(row.parts) != PARTS or list(row.parts) != sorted(row.parts)):
            raise ValueError(f"{row.label}: a box has five parts in ascending order")
        parts = [_place(row, part, low, high) for part in row.parts]
        mean, text, width = None, "", 0.0
        if row.mean is not None:
            mean, text = _place(row, row.mean, low, high), f"{row.mean:.3f}"
        if parts:
            width = round(parts[3] - parts[1], 2)
        spread = " / ".join(f"{part:.3f}" for part in row.parts[1:4])
        marks.append(BoxMark(row, tuple(parts), width, mean, text, spread))
    ticks = tuple(f"{low + (high - low) * quarter / 4:g}" for quarter in range(5))
    return BoxChart(name, title, tuple(marks), ticks)


def _place(row: Box, number: float, low: float, high: float) -> float:
    """Where a number is drawn, in per cent of the scale. Raises ValueError outside of it."""
    if not low <= number <= high:
        raise ValueError(f"{row.label}: a value is outside {low}..{high}")
    return round(100 * (number - low) / (high - low), 2)
