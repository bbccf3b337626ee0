"""Diffs of conversations: turns aligned by similarity, words marked.

The result depends on the texts alone. Texts are compared in Unicode's form NFC and shown as they
came.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from unicodedata import normalize

from review.rules.blocks import Turn
from review.rules.text import words

Op = Literal["equal", "insert", "delete"]

_MAX_CELLS = 400_000_000  # words before times words after: 50 MB of bits, half a second
_MAX_PAIRS = 40_000  # turns before times turns after, between equal beginnings and ends
_MIN_SIMILARITY = 0.2  # below this share of common word pairs a turn was replaced, not edited


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text that is unchanged, inserted or deleted.

    source: the unchanged text as it was before, where only its Unicode form differs.
    """

    op: Op
    text: str
    source: str = ""


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
        if _same_text(self.before, self.after):
            return "same"
        return "edited"


def diff_words(before: str, after: str) -> tuple[Span, ...]:
    """The word-level differences between two texts. None begins inside a character."""
    if before == after:
        if before:
            return (Span("equal", before),)
        return ()
    olds, news = words(before), words(after)
    edits = [_Edit(0, 0, 0)]
    i = j = 0
    pairs = _matches([normalize("NFC", word) for word in olds], [normalize("NFC", word) for word in news])
    for old, new in [*pairs, (len(olds), len(news))]:
        if (old, new) != (i, j):
            edits.append(_Edit(old - i, new - j, 0))
            while len(edits) > 1 and edits[-2].is_incidental(edits[-1]):
                edits[-2:] = [edits[-2].joined(edits[-1])]
        edits[-1].kept += 1
        i, j = old + 1, new + 1
    edits[-1].kept -= 1  # the end of both texts
    spans = []
    i = j = 0
    for edit in edits:
        i_kept, j_kept = i + edit.removed, j + edit.added
        i_end, j_end = i_kept + edit.kept, j_kept + edit.kept
        removed, added = "".join(olds[i:i_kept]), "".join(news[j:j_kept])
        was, now = "".join(olds[i_kept:i_end]), "".join(news[j_kept:j_end])
        i, j = i_end, j_end
        if was == now:
            was = ""
        spans += [Span("delete", removed), Span("insert", added), Span("equal", now, was)]
    return tuple(span for span in spans if span.text)


@dataclass(slots=True)
class _Edit:
    """Numbers of words that are removed, added, and then kept."""

    removed: int
    added: int
    kept: int

    def is_incidental(self, following: "_Edit") -> bool:
        """Whether the words kept are no more than the changes on either side of them."""
        return self.kept <= min(max(self.removed, self.added), max(following.removed, following.added))

    def joined(self, following: "_Edit") -> "_Edit":
        return _Edit(
            self.removed + self.kept + following.removed, self.added + self.kept + following.added, following.kept
        )


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The places (in `old`, in `new`) of a longest common subsequence.

    Equal beginnings and ends alone, where the middle has more than `_MAX_CELLS`.
    """
    start, end = _equal_ends(old, new)
    i, j = len(old) - end, len(new) - end
    result = [(len(old) - n, len(new) - n) for n in range(1, end + 1)]
    if (i - start) * (j - start) <= _MAX_CELLS:
        # Bit-parallel (Hyyrö 2004): bit i of row j is 0 where the length grows at old[i].
        bits: dict[str, int] = {}
        for at in range(start, i):
            bits[old[at]] = bits.get(old[at], 0) | 1 << at
        row = full = (1 << i) - 1
        rows = []
        for item in new[start:j]:
            equal = row & bits.get(item, 0)
            row = (row + equal | row - equal) & full
            rows.append(row)
        while i > start and j > start:
            if rows[j - start - 1] >> i - 1 & 1:
                i -= 1
            elif j - start > 1 and not rows[j - start - 2] >> i - 1 & 1:
                j -= 1
            else:
                i, j = i - 1, j - 1
                result.append((i, j))
    return [*((n, n) for n in range(start)), *reversed(result)]


def align_turns(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    """Pair the turns of two versions of a conversation so that the total similarity is greatest.

    Keeps the order and pairs only turns of the same speaker. If a turn was replaced by a quite
    different one, the removed turn comes before the added one.
    """
    # Equal turns at either end belong to every best alignment, and most turns are equal: skip them.
    start, end = _equal_ends(_speakers_and_texts(before), _speakers_and_texts(after))
    middle = _align(before[start : len(before) - end], after[start : len(after) - end])
    last = zip(before[len(before) - end :], after[len(after) - end :], strict=True)
    return [
        *(turn_pair(old, new) for old, new in zip(before[:start], after[:start], strict=True)),
        *middle,
        *(turn_pair(old, new) for old, new in last),
    ]


def _speakers_and_texts(turns: Sequence[Turn]) -> list[tuple[str, str]]:
    return [(turn.speaker, normalize("NFC", turn.text)) for turn in turns]


def _equal_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """How many items are equal at the beginning, and how many of the others at the end."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end


def _same_text(old: Turn, new: Turn) -> bool:
    return normalize("NFC", old.text) == normalize("NFC", new.text)


def turn_pair(old: Turn | None, new: Turn | None) -> TurnPair:
    """Two turns with what changed between them; None: a turn that is only in the other."""
    was = now = ""
    if old:
        was = old.text
    if new:
        now = new.text
    return TurnPair(old, new, diff_words(was, now))


def _align(before: Sequence[Turn], after: Sequence[Turn]) -> list[TurnPair]:
    if len(before) * len(after) > _MAX_PAIRS:  # no conversation is as long: shown as replaced
        return [*(turn_pair(old, None) for old in before), *(turn_pair(None, new) for new in after)]
    olds, news = list(map(_turn_features, before)), list(map(_turn_features, after))
    gain = []
    for old in olds:
        gain.append([_similarity(old, new) for new in news])
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]  # for the tails before[i:], after[j:]
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            matched = 0.0
            if gain[i][j]:
                matched = gain[i][j] + best[i + 1][j + 1]
            best[i][j] = max(matched, best[i + 1][j], best[i][j + 1])
    pairs = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and gain[i][j] and best[i][j] == gain[i][j] + best[i + 1][j + 1]:
            pairs.append(turn_pair(before[i], after[j]))
            i, j = i + 1, j + 1
        elif i < len(before) and (j == len(after) or best[i][j] == best[i + 1][j]):
            pairs.append(turn_pair(before[i], None))
            i += 1
        else:
            pairs.append(turn_pair(None, after[j]))
            j += 1
    return pairs


@dataclass(frozen=True, slots=True)
class _TurnFeatures:
    speaker: str
    text: str
    word_pairs: Counter[tuple[str, str]]


def _turn_features(turn: Turn) -> _TurnFeatures:
    # Single words ("the", "of") make any two long texts look similar; pairs of neighbours do not.
    text = normalize("NFC", turn.text)
    tokens = [word for word in words(text.casefold()) if word[0].isalnum()]
    return _TurnFeatures(turn.speaker, text, Counter(pairwise(["", *tokens, ""])))


def _similarity(old: _TurnFeatures, new: _TurnFeatures) -> float:
    """Dice coefficient of the word pairs; 0 if the turns must not be paired."""
    if old.speaker != new.speaker:
        return 0.0
    if old.text == new.text:
        return 1.0
    share = 2 * (old.word_pairs & new.word_pairs).total() / (old.word_pairs.total() + new.word_pairs.total())
    if share >= _MIN_SIMILARITY:
        return share
    return 0.0
