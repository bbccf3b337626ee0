"""The length of a case in words, and the time to read it. Two CJK characters count as one word."""

import re
from collections.abc import Iterable
from itertools import chain

from review.rules.blocks import Block, Dialogue, Diff, Table, Text

# An unhurried reader: slower than the average of 240 words a minute for silent reading of English
# non-fiction (Brysbaert 2019).
WORDS_PER_MINUTE = 200
CJK_PER_WORD = 2  # 400 characters a minute
MIN_SECONDS = 60  # seconds: a short text may still need thought
MAX_SECONDS = 600  # seconds: nobody reads 2,000 words without scrolling once

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]++(?:['’-][^\W_]++)*+")


def count_words(text: str) -> float:
    """The length of a text in words."""
    rest, cjk = _CJK.subn(" ", text)
    return len(_WORD.findall(rest)) + cjk / CJK_PER_WORD


def count_block_words(blocks: Iterable[Block]) -> int:
    """The number of words in a case; of a diff only its changed version is counted."""
    return round(sum(count_words(text) for text in chain.from_iterable(map(_texts, blocks))))


def allowance(blocks: Iterable[Block]) -> int:
    """Seconds without input after which a reader of `blocks` is away: the time to read them."""
    return min(MAX_SECONDS, max(MIN_SECONDS, round(count_block_words(blocks) / WORDS_PER_MINUTE * 60)))


def _texts(block: Block) -> list[str]:
    match block:
        case Text():
            return [block.text]
        case Dialogue():
            return [turn.text for turn in block.turns]
        case Diff():
            return [turn.text for turn in block.after]
        case Table():
            return list(chain.from_iterable(block.rows))
        case _:
            return []
