"""What changed between two conversations: turns aligned by likeness, words (Chinese: characters) marked."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Literal

from diff_match_patch import diff_match_patch

from review.rules.blocks import Turn

Op = Literal["equal", "insert", "delete"]

_OPS: dict[int, Op] = {0: "equal", 1: "insert", -1: "delete"}
# Scripts without spaces go by the character; a number keeps its decimals ("2.5" to "25" is one change).
_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\d+(?:[.,]\d+)*|[^\W\d\u3040-\u30ff\u3400-\u9fff]+|\s+|.", re.S
)
_FIRST_CODE = 0xE000  # beyond the surrogates; room for about a million different words
_ALIKE = 0.2  # below this share of common word pairs a turn was replaced, not edited


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of text that stayed, came or went."""

    op: Op
    text: str


@dataclass(frozen=True, slots=True)
class TurnPair:
    """A turn before and the same turn after; None on the side where it does not exist.

    spans: the text of both, in reading order; before = equal + delete, after = equal + insert.
    """

    before: Turn | None
    after: Turn | None
    spans: tuple[Span, ...]

    @property
    def change(self) -> Literal["same", "edited", "added", "removed"]:
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        return "same" if self.before.text == self.after.text else "edited"


def diff_words(before: str, after: str) -> tuple[Span, ...]:
    """The differences between two texts, word by word."""
    if before == after:
        return (Span("equal", before),) if before else ()
    codes: dict[str, str] = {}

    def encode(text: str) -> str:
        return "".join(codes.setdefault(token, chr(_FIRST_CODE + len(codes))) for token in _TOKEN.findall(text))

    differ = diff_match_patch()
    found = differ.diff_main(encode(before), encode(after), False)
    differ.diff_cleanupSemantic(found)
    tokens = {code: token for token, code in codes.items()}
    return tuple(Span(_OPS[op], "".join(tokens[code] for code in run)) for op, run in found)


def align_turns(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    """Pair the turns of two versions of a conversation so that the likeness of the pairs is greatest.

    Order is kept and only turns of the same speaker are paired. Where a turn was replaced by a quite different one, what
    went comes before what came.
    """
    # Equal turns at either end are pairs of any best alignment (nothing is more alike), and most turns are equal.
    start = _alike_at_start(before, after)
    end = _alike_at_start(before[start:][::-1], after[start:][::-1])
    middle = _align(before[start : len(before) - end], after[start : len(after) - end])
    last = zip(before[len(before) - end :], after[len(after) - end :], strict=True)
    return [
        *(_paired(old, new) for old, new in zip(before[:start], after[:start], strict=True)),
        *middle,
        *(_paired(old, new) for old, new in last),
    ]


def _alike_at_start(before: Sequence[Turn], after: Sequence[Turn]) -> int:
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _paired(old: Turn, new: Turn) -> TurnPair:
    return TurnPair(old, new, diff_words(old.text, new.text))


def _align(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    olds, news = list(map(_pairs_of_words, before)), list(map(_pairs_of_words, after))
    gain = [[_alike(old, new) for new in news] for old in olds]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]  # of the tails before[i:], after[j:]
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            matched = gain[i][j] + best[i + 1][j + 1] if gain[i][j] else 0.0
            best[i][j] = max(matched, best[i + 1][j], best[i][j + 1])
    pairs = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and gain[i][j] and best[i][j] == gain[i][j] + best[i + 1][j + 1]:
            pairs.append(_paired(before[i], after[j]))
            i, j = i + 1, j + 1
        elif i < len(before) and (j == len(after) or best[i][j] == best[i + 1][j]):
            pairs.append(TurnPair(before[i], None, (Span("delete", before[i].text),)))
            i += 1
        else:
            pairs.append(TurnPair(None, after[j], (Span("insert", after[j].text),)))
            j += 1
    return pairs


@dataclass(frozen=True, slots=True)
class _Likeness:
    speaker: str
    text: str
    pairs: Counter[tuple[str, str]]


def _pairs_of_words(turn: Turn) -> _Likeness:
    # Single words make any two long texts look alike ("the", "of"); neighbouring words do not.
    tokens = [token.casefold() for token in _TOKEN.findall(turn.text) if token[0].isalnum()]
    return _Likeness(turn.speaker, turn.text, Counter(pairwise(["", *tokens, ""])))


def _alike(one: _Likeness, other: _Likeness) -> float:
    """Share of common neighbouring words (Dice), 0 where the turns must not be paired."""
    if one.speaker != other.speaker:
        return 0.0
    if one.text == other.text:
        return 1.0
    share = 2 * (one.pairs & other.pairs).total() / (one.pairs.total() + other.pairs.total())
    return share if share >= _ALIKE else 0.0
