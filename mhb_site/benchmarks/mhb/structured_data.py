"""Finds structured data in a record: a table, a log, or a series of measured values.

The paper's example of different modalities (B3, Table 1) is "text and structured data".
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

MIN_ROWS = 3  # ours: fewer lines, or fewer values, are no table
# "Day 1: 5 bowel movements", "Potassium | 2.9 | mmol/L": a name, a mark or a gap, and a number.
_ROW = re.compile(r"^[^\n\w]*[^\W_][^\n]{0,60}?(?:[:：=|\t]|  )[^\n]*\d")
# "CRP 45 mg/L", "白细胞 12.3×10^9/L"
_MEASURED = re.compile(
    r"\d(?:\s?[x×*]\s?10\S{1,3})?\s?(?:%|°C|℃|mm\s?Hg|bpm|fL|pg"
    r"|(?:[mµμnpk]?(?:g|mol|IU|U|Eq)|cells)?\s?/\s?(?:[dmµμ]?[lL]|mm3|mm³|min))(?![a-z])"
)


def has_structured_data(content: Mapping[str, Any]) -> bool:
    """Whether a record's content has an image, or a turn or report that lists values."""
    if content.get("images") or content.get("image"):
        return True
    texts = [turn["content"] for turn in content.get("turns", ())] or [content.get("text", "")]
    return any(_lists_values(text) for text in texts)


def _lists_values(text: str) -> bool:
    if len(_MEASURED.findall(text)) >= MIN_ROWS:
        return True
    rows = [number for number, line in enumerate(text.splitlines()) if _ROW.match(line)]
    in_a_row = 1
    for number, following in pairwise(rows):
        if following == number + 1:
            in_a_row = in_a_row + 1
        else:
            in_a_row = 1
        if in_a_row >= MIN_ROWS:
            return True
    return False
