"""Lines of an export without the text of their sources: quotes become positions in the source.

A text becomes `{"from_source": [piece, ...]}` if it shares at least `SHARED` characters with a text
of its source record. A piece is either literal text, or `[text, start, length]`: characters of the
text with this number in the line's `texts`, counted from 0 in Unicode code points.
`programs/restore_release.py` restores the lines, byte for byte.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

SHARED = 10  # characters; eight words with the spaces between them have at least 15
FROM_SOURCE = "from_source"
Place = tuple[str, str]  # name of the source, id of the record


class SourceTexts:
    """The texts of a sample's source records, indexed by all their runs of `SHARED` characters."""

    def __init__(self, records: Iterable[tuple[Place, Any]]) -> None:
        texts = []
        for place, content in records:
            texts += [(place, text) for text in _texts(content)]
        self._texts = sorted(texts, key=lambda item: -len(item[1]))  # the longest one covers most in one piece
        self._places: dict[str, tuple[int, int]] = {}
        for number, (_place, text) in enumerate(self._texts):
            for start in range(len(text) - SHARED + 1):
                self._places.setdefault(text[start : start + SHARED], (number, start))
        self._used: dict[int, int] = {}

    def line(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The object of a line, with the texts it quotes: source, record and SHA-256 of each."""
        self._used.clear()
        sample = self._replace_quotes(value)
        used = []
        for number in self._used:
            place, text = self._texts[number]
            used.append([*place, sha256(text.encode()).hexdigest()])
        return {"texts": used, "line": sample}

    def _replace_quotes(self, value: Any) -> Any:
        if isinstance(value, str):
            pieces = list(self._pieces(value))
            if any(isinstance(piece, list) for piece in pieces):
                return {FROM_SOURCE: pieces}
            return value
        if isinstance(value, list):
            return [self._replace_quotes(item) for item in value]
        if isinstance(value, dict):
            inner = {key: self._replace_quotes(item) for key, item in value.items()}
            # An object of the sample that looks like ours is wrapped once more, to tell it apart.
            if value.keys() == {FROM_SOURCE}:
                return {FROM_SOURCE: inner}
            return inner
        return value

    def _pieces(self, text: str) -> Iterator[str | list[int]]:
        position = literal_start = 0
        while position <= len(text) - SHARED:
            place = self._places.get(text[position : position + SHARED])
            if place is None:
                position += 1
                continue
            number, start = place
            length = _common_length(text, position, self._texts[number][1], start)
            if literal_start < position:
                yield text[literal_start:position]
            yield [self._used.setdefault(number, len(self._used)), start, length]
            position = literal_start = position + length
        if literal_start < len(text):
            yield text[literal_start:]


def by_reference(lines: Iterable[str], sources: Iterable[SourceTexts]) -> Iterator[str]:
    """Each JSON line, rewritten by reference to the sources of its sample."""
    for line, texts in zip(lines, sources, strict=True):
        yield json.dumps(texts.line(json.loads(line)), ensure_ascii=False, separators=(",", ":")) + "\n"


def _texts(value: Any) -> Iterator[str]:
    """All texts in a record's content that are longer than a word."""
    if isinstance(value, str):
        if len(value) >= SHARED and (" " in value or not value.isascii()):
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _common_length(text: str, position: int, source_text: str, start: int) -> int:
    """The length of the common run of characters from these positions."""
    low, high = SHARED, min(len(text) - position, len(source_text) - start)
    while low < high:
        half = (low + high + 1) // 2
        if text[position : position + half] == source_text[start : start + half]:
            low = half
        else:
            high = half - 1
    return low
