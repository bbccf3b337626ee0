"""How wide text is in a chart, and what fits."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from review.charts.markers import MARKERS

SERIES = 8  # colours, dash patterns and marker shapes that can be told apart

FONT = 13.0  # --size-1 of the tokens, rounded up; SVG text is measured with it
WIDTH = 600.0
GAP = 10.0

LABEL_ROOM = (70.0, 200.0)

DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "5 2", "1 4", "12 4")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a legend; `index` (0-7) chooses colour, dash and marker. `marker` is a path around (0, 0)."""

    label: str
    index: int
    dash: str
    marker: str


@dataclass(frozen=True, slots=True)
class AxisTick:
    """A line of the scale: where, and what it says."""

    at: float
    text: str


def legend_entries(labels: Sequence[str]) -> tuple[Entry, ...]:
    distinct = list(dict.fromkeys(labels))
    if len(distinct) > SERIES:
        raise ValueError(f"{len(distinct)} series cannot be told apart; {SERIES} can")
    return tuple(Entry(label, i, DASHES[i], MARKERS[i]) for i, label in enumerate(distinct))


def format_share(value: float | None, *, percent: bool = True) -> str:
    """A share as '35.7%', or as '0.357'; empty where there is none."""
    return "" if value is None else f"{value:.1%}" if percent else f"{value:.3f}"


def interval_mark(value: float, *, percent: bool) -> str:
    return f"{value:.0%}" if percent else f"{value:.2f}"


def _advance(character: str) -> float:
    """About how wide a character is, in em: a CJK character fills its square."""
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.62


def _measure(text: str) -> float:
    return FONT * sum(map(_advance, text))


def label_room(labels: Sequence[str]) -> float:
    least, most = LABEL_ROOM
    return round(min(most, max([least, *(_measure(label) + GAP for label in labels)])), 2)


def value_room(texts: Sequence[str]) -> float:
    """What stands behind a bar that fills the scale."""
    return round(max([40.0, *map(_measure, texts)]) + 10, 2)


def shorten(text: str, room: float) -> str:
    """`text`, or as much of it as fits in `room` before an ellipsis; the whole stands in the mark's title and the table."""
    if _measure(text) <= room:
        return text
    kept = text
    while kept and _measure(kept + "…") > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def two_lines(text: str) -> tuple[str, ...]:
    """Broken at the space nearest the middle, where a line would be long."""
    if _measure(text) <= 110 or " " not in text:
        return (shorten(text, 150),)
    middle = min((i for i, c in enumerate(text) if c == " "), key=lambda i: abs(i - len(text) / 2))
    return shorten(text[:middle], 150), shorten(text[middle + 1 :], 150)
