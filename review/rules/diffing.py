"""Diffs of conversations: turns aligned by similarity, words (Chinese: characters) marked."""

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
# Scripts without spaces are split by character; a number keeps its decimals, so that "2.5" to "25"
# is one change.
_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\d+(?:[.,]\d+)*|[^\W\d\u3040-\u30ff\u3400-\u9fff]+|\s+|.", re.S
)
_FIRST_CODE = 0xE000  # beyond the surrogates; room for about a million different words
_MAX_PAIRS = 40_000  # turns before times turns after, between equal beginnings and ends
_MIN_SIMILARITY = 0.2  # below this share of common word pairs a turn was replaced, not edited


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text that is unchanged, inserted or deleted."""

    op: Op
    text: str


@dataclass(frozen=True, slots=True)
class TurnPair:
    """A turn before and after the change; None on the side where it does not exist.

    spans: the text of both sides, in reading order; before = equal + delete, after = equal +
    insert.
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
    """The word-level differences between two texts."""
    if before == after:
        return (Span("equal", before),) if before else ()
    codes: dict[str, str] = {}

    def encode(text: str) -> str:
        return "".join(codes.setdefault(token, chr(_FIRST_CODE + len(codes))) for token in _TOKEN.findall(text))

    differ = diff_match_patch()
    runs = differ.diff_main(encode(before), encode(after), False)
    differ.diff_cleanupSemantic(runs)
    tokens = {code: token for token, code in codes.items()}
    return tuple(Span(_OPS[op], "".join(tokens[code] for code in run)) for op, run in runs)


def align_turns(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    """Pair the turns of two versions of a conversation so that the total similarity is greatest.

    Keeps the order and pairs only turns of the same speaker. If a turn was replaced by a quite
    different one, the removed turn comes before the added one.
    """
    # Equal turns at either end belong to every best alignment, and most turns are equal: skip them.
    start = _equal_prefix_length(before, after)
    end = _equal_prefix_length(before[start:][::-1], after[start:][::-1])
    middle = _align(before[start : len(before) - end], after[start : len(after) - end])
    last = zip(before[len(before) - end :], after[len(after) - end :], strict=True)
    return [
        *(_turn_pair(old, new) for old, new in zip(before[:start], after[:start], strict=True)),
        *middle,
        *(_turn_pair(old, new) for old, new in last),
    ]


def _equal_prefix_length(before: Sequence[Turn], after: Sequence[Turn]) -> int:
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _turn_pair(old: Turn, new: Turn) -> TurnPair:
    return TurnPair(old, new, diff_words(old.text, new.text))


def _align(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    if len(before) * len(after) > _MAX_PAIRS:  # no conversation is as long: shown as replaced
        return [
            *(TurnPair(old, None, (Span("delete", old.text),)) for old in before),
            *(TurnPair(None, new, (Span("insert", new.text),)) for new in after),
        ]
    olds, news = list(map(_turn_features, before)), list(map(_turn_features, after))
    gain = [[_similarity(old, new) for new in news] for old in olds]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]  # for the tails before[i:], after[j:]
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            matched = gain[i][j] + best[i + 1][j + 1] if gain[i][j] else 0.0
            best[i][j] = max(matched, best[i + 1][j], best[i][j + 1])
    pairs = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and gain[i][j] and best[i][j] == gain[i][j] + best[i + 1][j + 1]:
            pairs.append(_turn_pair(before[i], after[j]))
            i, j = i + 1, j + 1
        elif i < len(before) and (j == len(after) or best[i][j] == best[i + 1][j]):
            pairs.append(TurnPair(before[i], None, (Span("delete", before[i].text),)))
            i += 1
        else:
            pairs.append(TurnPair(None, after[j], (Span("insert", after[j].text),)))
            j += 1
    return pairs


@dataclass(frozen=True, slots=True)
class _TurnFeatures:
    speaker: str
    text: str
    word_pairs: Counter[tuple[str, str]]


def _turn_features(turn: Turn) -> _TurnFeatures:
    # Single words ("the", "of") make any two long texts look similar; pairs of neighbours do not.
    tokens = [token.casefold() for token in _TOKEN.findall(turn.text) if token[0].isalnum()]
    return _TurnFeatures(turn.speaker, turn.text, Counter(pairwise(["", *tokens, ""])))


def _similarity(old: _TurnFeatures, new: _TurnFeatures) -> float:
    """Dice coefficient of the word pairs; 0 if the turns must not be paired."""
    if old.speaker != new.speaker:
        return 0.0
    if old.text == new.text:
        return 1.0
    share = 2 * (old.word_pairs & new.word_pairs).total() / (old.word_pairs.total() + new.word_pairs.total())
    return share if share >= _MIN_SIMILARITY else 0.0
