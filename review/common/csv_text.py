"""CSV as text, for every table that the site writes: RFC 4180, safe to open in a spreadsheet.

Spreadsheets execute cells that begin like a formula, and texts come from models and people. So a
text that begins with one of = + - @ (also full-width, or after spaces and characters that are not
shown), TAB, CR or LF gets a leading apostrophe, and so does one that begins with an apostrophe. To
restore the original, remove one leading apostrophe from every cell that has one. Numbers stay as
they are.
"""

import re
from collections.abc import Iterable

MARGIN = 100  # characters at the beginning that may all be unseen; a text with more of them is escaped
BOM = "\ufeff"  # at the start of a file, so that Excel reads it as UTF-8; readers take "utf-8-sig"
END = "\r\n"
_DANGEROUS = frozenset("=+-@＝＋－＠\t\r\n'")
_UNSEEN = re.compile(r"[\s\x00-\x1f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_QUOTED = re.compile('[",\r\n]').search


def line(cells: Iterable[object]) -> str:
    """A line without its line end; cells are quoted only if necessary, and None is empty.

    `csv.writer` looks at each character, which takes longer than everything else that is done to a
    sample.
    """
    texts = []
    for cell in cells:
        if isinstance(cell, str):
            text = safe(cell)
        elif cell is None:
            text = ""
        else:
            text = str(cell)
        if _QUOTED(text):
            text = '"' + text.replace('"', '""') + '"'
        texts.append(text)
    return ",".join(texts)


def table(rows: Iterable[Iterable[object]]) -> str:
    """All lines of a table."""
    return "".join([line(cells) + END for cells in rows])


def safe(text: str) -> str:
    """A text as a cell that no spreadsheet executes."""
    first = text[:1]
    if first and first not in _DANGEROUS and _UNSEEN.match(first):
        shown = _UNSEEN.sub("", text[:MARGIN])
        first = "="
        if shown or len(text) <= MARGIN:
            first = shown[:1]
    if first in _DANGEROUS:
        return f"'{text}"
    return text
