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

    label: str
    at: tuple[float, ...]
    width: float  # of the box, between the quartiles
    mean: float | None
    text: str
    spread: str
    note: str
    count: int
    parts: tuple[float, ...]


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
    scale = [low + (high - low) * quarter / 4 for quarter in range(5)]
    first, last = low, high
    marks = []
    for row in rows:
        numbers = [*row.parts, *([] if row.mean is None else [row.mean])]
        if row.parts and (len(row.parts) != PARTS or list(row.parts) != sorted(row.parts)):
            raise ValueError(f"{row.label}: a box has five parts in ascending order")
        if any(not first <= number <= last for number in numbers):
            raise ValueError(f"{row.label}: a value is outside {first}..{last}")
        at = tuple(_percent(part, first, last) for part in row.parts)
        spread = " / ".join(f"{part:.3f}" for part in row.parts[1:4])
        mean = None if row.mean is None else _percent(row.mean, first, last)
        text = "" if row.mean is None else f"{row.mean:.3f}"
        width = round(at[3] - at[1], 2) if at else 0.0
        marks.append(BoxMark(row.label, at, width, mean, text, spread, row.note, row.count, row.parts))
    return BoxChart(name, title, tuple(marks), tuple(f"{tick:g}" for tick in scale))


def _percent(value: float, first: float, last: float) -> float:
    return round(100 * (value - first) / (last - first), 2)
