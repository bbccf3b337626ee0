"""What the text of a chart says, how wide it is, and where it wraps."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from review.charts.scales import MARKERS

SERIES = 8  # colours, dash patterns and marker shapes that can be told apart
SCALE = (0.0, 0.25, 0.5, 0.75, 1.0)  # of every chart of shares

FONT = 13.0  # --size-1 of the tokens, rounded up; SVG text is measured with it

DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "5 2", "1 4", "12 4")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a legend; `index` (0-7) chooses colour, dash and marker. `marker` is a path around (0, 0)."""

    label: str
    index: int
    dash: str = ""
    marker: str = ""
    hollow: bool = False


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


def _wide(character: str) -> bool:
    """Whether a character fills its square, and a line may break before it."""
    return unicodedata.east_asian_width(character) in "WF"


def measure(text: str) -> float:
    """About how wide a text is."""
    return FONT * sum(1.0 if _wide(character) else 0.62 for character in text)


def wrapped(text: str, room: float) -> tuple[str, ...]:
    """All of `text` in lines that fit in `room`, broken at spaces and between CJK characters; a longer word stays whole."""
    pieces: list[str] = []
    for character in text:
        glued = pieces and not (_wide(character) or _wide(pieces[-1][-1]) or pieces[-1][-1] == " ")
        pieces[-1:] = [pieces[-1] + character] if glued else [*pieces[-1:], character]
    lines = [""]
    for piece in pieces:
        if lines[-1] and measure((lines[-1] + piece).strip()) > room:
            lines.append("")
        lines[-1] += piece
    return tuple(line.strip() for line in lines)
