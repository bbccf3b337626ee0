"""Lines of an export without the text of their source: what stands in the source is named by its place there.

A text becomes `{"from_source": [piece, ...]}` where it shares at least `SHARED` characters with a text of its source record. A
piece is either words of its own, or `[text, start, length]`: characters of the text with this number in the line's `texts`,
counted from 0 in Unicode code points. `programs/restore_release.py` puts the lines together again, byte for byte.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

SHARED = 10  # characters: eight words with the spaces between them have at least 15
FROM_SOURCE = "from_source"
Place = tuple[str, str]  # name of the source, id of the record


class SourceTexts:
    """The texts of one sample's source records, and where each run of `SHARED` characters stands in them."""

    def __init__(self, records: Iterable[tuple[Place, Any]]) -> None:
        found = [(place, text) for place, content in records for text in _texts(content)]
        self._texts = sorted(found, key=lambda one: -len(one[1]))  # the longest holds the most in one piece
        self._places: dict[str, tuple[int, int]] = {}
        for number, (_place, text) in enumerate(self._texts):
            for start in range(len(text) - SHARED + 1):
                self._places.setdefault(text[start : start + SHARED], (number, start))
        self._used: dict[int, int] = {}

    def line(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The object of a line, and the texts that it takes words from: source, record and SHA-256 of each."""
        self._used.clear()
        sample = self._without(value)
        used = [self._texts[number] for number in self._used]
        return {"texts": [[*place, sha256(text.encode()).hexdigest()] for place, text in used], "line": sample}

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            pieces = list(self._pieces(value))
            return {FROM_SOURCE: pieces} if any(isinstance(piece, list) for piece in pieces) else value
        if isinstance(value, list):
            return [self._without(one) for one in value]
        if isinstance(value, dict):
            inner = {key: self._without(one) for key, one in value.items()}
            # An object of the sample that looks like ours is told by being wrapped once more.
            return {FROM_SOURCE: inner} if value.keys() == {FROM_SOURCE} else inner
        return value

    def _pieces(self, text: str) -> Iterator[str | list[int]]:
        at = began = 0
        while at <= len(text) - SHARED:
            place = self._places.get(text[at : at + SHARED])
            if place is None:
                at += 1
                continue
            number, start = place
            length = _in_common(text, at, self._texts[number][1], start)
            if began < at:
                yield text[began:at]
            yield [self._used.setdefault(number, len(self._used)), start, length]
            at = began = at + length
        if began < len(text):
            yield text[began:]


def written(lines: Iterable[str], sources: Iterable[SourceTexts]) -> Iterator[str]:
    """Each line of JSON, written by reference to the source of its sample."""
    for line, texts in zip(lines, sources, strict=True):
        yield json.dumps(texts.line(json.loads(line)), ensure_ascii=False, separators=(",", ":")) + "\n"


def _texts(value: Any) -> Iterator[str]:
    """All texts in the content of a record that are more than a word."""
    if isinstance(value, str):
        if len(value) >= SHARED and (" " in value or not value.isascii()):
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _in_common(one: str, at: int, other: str, start: int) -> int:
    """How many characters from there on are the same."""
    low, high = SHARED, min(len(one) - at, len(other) - start)
    while low < high:
        half = (low + high + 1) // 2
        if one[at : at + half] == other[start : start + half]:
            low = half
        else:
            high = half - 1
    return low
