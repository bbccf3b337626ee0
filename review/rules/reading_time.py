"""How long a case is and how long reading it may take. Lengths are in words; two CJK characters count as one word."""

import re
from collections.abc import Iterable

from review.rules.blocks import Block, Dialogue, Diff, Table, Text

# An unhurried reader: silent reading of English non-fiction is about 240 words a minute (Brysbaert 2019), here less.
WORDS_A_MINUTE = 200
CJK_A_WORD = 2  # 400 characters a minute
LEAST = 60  # seconds: a short text may still need thought
MOST = 600  # seconds: nobody reads 2,000 words without scrolling once

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]++(?:['’-][^\W_]++)*+")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]++(?:['-][A-Za-z0-9]++)*+")  # the same, found in half the time


def count_words(text: str) -> float:
    """The length of a text in words."""
    if text.isascii():
        return len(_ASCII_WORD.findall(text))
    rest, cjk = _CJK.subn(" ", text)
    return len(_WORD.findall(rest)) + cjk / CJK_A_WORD


def count_block_words(blocks: Iterable[Block]) -> int:
    """The words of what a case shows. Of a conversation before and after, the one after: the other differs by little."""
    return round(sum(count_words(text) for block in blocks for text in _texts(block)))


def allowance(blocks: Iterable[Block]) -> int:
    """Seconds without any input after which a reader of `blocks` counts as away: the time to read all of it once."""
    return min(MOST, max(LEAST, round(count_block_words(blocks) / WORDS_A_MINUTE * 60)))


def _texts(block: Block) -> list[str]:
    match block:
        case Text():
            return [block.text]
        case Dialogue():
            return [turn.text for turn in block.turns]
        case Diff():
            return [turn.text for turn in block.after]
        case Table():
            return [cell for row in block.rows for cell in row]
        case _:
            return []
