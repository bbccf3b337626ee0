"""Text in charts: formatting of values, text width, line breaks, legend entries."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from review.charts.scales import MARKERS

MAX_SERIES = 8  # distinguishable colours, dash patterns and markers
SHARE_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)  # ticks of all charts of shares

FONT = 13.0  # --size-1 of the CSS tokens, rounded up; the basis for measuring SVG text

DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "5 2", "1 4", "12 4")


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A legend entry; `index` (0-7) determines colour, dash and marker (a path around (0, 0))."""

    label: str
    index: int
    dash: str = ""
    marker: str = ""
    hollow: bool = False


def legend_entries(labels: Sequence[str]) -> tuple[LegendEntry, ...]:
    distinct = list(dict.fromkeys(labels))
    if len(distinct) > MAX_SERIES:
        raise ValueError(f"{len(distinct)} series cannot be told apart; {MAX_SERIES} can")
    return tuple(LegendEntry(label, i, DASHES[i], MARKERS[i]) for i, label in enumerate(distinct))


def format_share(value: float | None, *, percent: bool = True) -> str:
    """A share as '35.7%' or '0.357'; empty for None."""
    if value is None:
        return ""
    if percent:
        return f"{value:.1%}"
    return f"{value:.3f}"


def format_tick(value: float, *, percent: bool) -> str:
    if percent:
        return f"{value:.0%}"
    return f"{value:.2f}"


def _is_wide(character: str) -> bool:
    """Whether a character has full width, so that a line may break before it."""
    return unicodedata.east_asian_width(character) in "WF"


def text_width(text: str) -> float:
    """The approximate width of a text."""
    wide = sum(map(_is_wide, text))
    return FONT * (wide + 0.62 * (len(text) - wide))


def wrap(text: str, width: float) -> tuple[str, ...]:
    """Break `text` into lines of at most `width`, at spaces and between CJK characters.

    A single word that is wider is not broken.
    """
    pieces: list[str] = []
    for character in text:
        glued = pieces and not (_is_wide(character) or _is_wide(pieces[-1][-1]) or pieces[-1][-1] == " ")
        if glued:
            pieces[-1] += character
        else:
            pieces.append(character)
    lines = [""]
    for piece in pieces:
        if lines[-1] and text_width((lines[-1] + piece).strip()) > width:
            lines.append("")
        lines[-1] += piece
    return tuple(line.strip() for line in lines)
