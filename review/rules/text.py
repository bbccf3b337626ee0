"""External text: characters that can be stored, and its words and characters in any script."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any
from unicodedata import normalize

import regex

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def has_more_values(value: Any, most: int) -> bool:
    """Whether a JSON value holds more than `most` values, keys included."""
    remaining, count = [value], 0
    while remaining and count + len(remaining) <= most:
        part = remaining.pop()
        count += 1
        if isinstance(part, Mapping):
            count += len(part)
            remaining += part.values()
        elif isinstance(part, list):
            remaining += part
    return count + len(remaining) > most


def whole_number(text: str, digits: int = 18) -> int | None:
    """The number that external text names; None if it is none, or has more digits.

    A primary key has at most 18, and `int` refuses thousands of them.
    """
    if text.isascii() and text.isdecimal() and len(text) <= digits:
        return int(text)
    return None


def parts_around(sign: str, text: str) -> tuple[str, str]:
    """What a text has before and after the first `sign`, without white space around either.

    All of it is before a sign that it does not have.
    """
    before, _sign, after = text.partition(sign)
    return before.strip(), after.strip()


# Letters, digits, punctuation and symbols, but for those that are drawn as nothing.
_VISIBLE = regex.compile(r"[[\p{L}\p{N}\p{P}\p{S}]--[\u115F\u1160\u2800\u3164\uFFA0]]", regex.V1)


def has_visible_text(text: str) -> bool:
    """Whether a text has a character that a reader can see.

    White space, joiners and other characters without a glyph are none.
    """
    return _VISIBLE.search(text) is not None


def unified_newlines(text: str) -> str:
    """The text with the line ends of Windows and old Macs as line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def one_line(text: str, length: int) -> str:
    """The beginning of `text` on one line, at most `length` long, cut between words if possible."""
    line = " ".join(text[: length * 10].split())
    if len(line) <= length:
        return line
    cut = line[: length - 1]
    words = cut
    if " " in cut[length // 2 :]:
        words = cut[: cut.rfind(" ")]
    return words.rstrip() + "…"


# White space is joined; two joiners stay, which Persian and the scripts of India need.
_HIDDEN = regex.compile(r"[[\p{Cc}\p{Cf}]--[\s\u200C\u200D]]", regex.V1)


def plain_name(text: str) -> str:
    """A name from outside as its reader should see it: one line, in the direction of its letters.

    Without control characters and those that change direction or are drawn as nothing.
    """
    return " ".join(_HIDDEN.sub("", text).split())


def storable(text: str) -> str:
    """The text with a sign for each NUL and half of a surrogate pair, which no database takes."""
    return _UNSTORABLE.sub("\ufffd", text)


def is_storable(value: Any) -> bool:
    """Whether a JSON value, keys included, contains no NUL and no lone surrogates."""
    remaining = [value]
    while remaining:
        part = remaining.pop()
        if isinstance(part, str):
            if _UNSTORABLE.search(part):
                return False
        elif isinstance(part, Mapping):
            remaining += [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple)):
            remaining += part
    return True


# Words by Unicode's rules (UAX 29), which keep a number with its decimals and Katakana together and
# cut Chinese, Hiragana and Thai by character; a word is never cut inside a character that is made
# of several code points. Flags by themselves, as `regex` looks back over all of them each time.
_FLAG = r"[\U0001F1E6-\U0001F1FF]{2}(?![\p{M}\u200d])"
_WORD = regex.compile(rf"{_FLAG}|\X+?\b", regex.WORD)
_CHARACTER = regex.compile(rf"{_FLAG}|\X")


def words(text: str) -> list[str]:
    """The words of a text with what is between them; joined, they are the text."""
    return list(_WORD.findall(text))


def character_edges(text: str) -> list[int]:
    """The places between the characters of a text, as readers count them, its two ends included."""
    return [0, *accumulate(map(len, _CHARACTER.findall(text)))]


def widened(edges: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """The places `start` and `end`, moved apart to the nearest of `edges`."""
    return edges[max(bisect_right(edges, start) - 1, 0)], edges[min(bisect_left(edges, end), len(edges) - 1)]


def find_words(text: str, quote: str) -> tuple[int, int] | None:
    """Where `text` has `quote`, as whole characters; Unicode's forms of writing one are alike."""
    edges = character_edges(text)
    if (start := text.find(quote)) >= 0:
        return widened(edges, start, start + len(quote))
    normal = [normalize("NFC", text[start:end]) for start, end in pairwise(edges)]
    if (start := "".join(normal).find(wanted := normalize("NFC", quote))) < 0:
        return None
    normal_edges = [0, *accumulate(map(len, normal))]
    start, end = widened(normal_edges, start, start + len(wanted))
    return edges[normal_edges.index(start)], edges[normal_edges.index(end)]
