"""Heat maps."""

from collections.abc import Sequence
from dataclasses import dataclass

from review.charts.text_measure import format_share

HEAT_STEPS = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a heat map; `step` (0-9) determines its shade, None: no value and no shade."""

    value: float | None
    text: str
    step: int | None
    href: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A table of shares whose cells are shaded in ten equal steps from 0 to 1."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    hrefs: Sequence[Sequence[str]] | None = None,
    notes: Sequence[Sequence[str]] | None = None,
    *,
    name: str = "heat",
    title: str = "",
    percent: bool = True,
) -> HeatMap:
    """A heat map; `values`, `hrefs` and `notes` (why a value is missing) are lists of rows.

    `percent` is as in `Bar`.
    """
    empty = [[""] * len(columns)] * len(rows)
    shaded = []
    for label, line, line_links, line_notes in zip(rows, values, hrefs or empty, notes or empty, strict=True):
        cells = []
        for value, href, note in zip(line, line_links, line_notes, strict=True):
            step = None
            if value is not None:
                step = heat_step(value)
            cells.append(Cell(value, format_share(value, percent=percent) or note, step, href))
        shaded.append((label, tuple(cells)))
    return HeatMap(name, title, tuple(columns), tuple(shaded))


def heat_step(share: float) -> int:
    """The step (0-9) of a share from 0 to 1; 1 belongs to the last step."""
    return min(int(share * HEAT_STEPS), HEAT_STEPS - 1)
