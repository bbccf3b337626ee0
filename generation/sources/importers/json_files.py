"""Reads files that are one JSON array or object, member by member.

A member that is no JSON by the letter (NaN, a number of thousands of digits, a bad escape) spoils
itself only, as long as its end can be found.
"""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from generation.sources.importers.base import (
    MAX_RECORD,
    REST,
    Constant,
    Malformed,
    without_constants,
)
from review.rules import json_nesting
from review.rules.text_files import open_text

_CHUNK = 16 * 1024  # bytes
_decode = json.JSONDecoder(parse_constant=Constant).raw_decode
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(r"[^\[\]{}\",]*(?=[,\]}])")
# Errors of the decoder inside of a value, whose end can be found nevertheless.
_INSIDE = ("Invalid", "Expecting value")
_ENDS = "the file ends before it does"
_TOO_LONG = f"the record is longer than {MAX_RECORD:,} bytes"
_NO_JSON = "what follows is not JSON"


class _BrokenOff(Exception):
    """Nothing after this place can be read."""


def array_items(path: Path) -> Iterator[tuple[str, Any]]:
    """(position, value or Malformed) of each element of a JSON array, streamed.

    Where reading must stop, the last position ends with REST.
    """
    return ((where, value) for where, _key, value in _members(path, "array", "[]"))


def object_items(path: Path) -> Iterator[tuple[str, str, Any]]:
    """(position, key, value or Malformed) of each member of a JSON object, as `array_items`."""
    return _members(path, "object", "{}")


def _members(path: Path, what: str, brackets: str) -> Iterator[tuple[str, str, Any]]:
    place = 1
    start, end = brackets[0], brackets[1]
    with open_text(path) as file:
        text = _Text(file)
        try:
            text.expect(start)
            separator = ","
            if text.next() == end:
                separator = text.expect(end)
            while separator != end:
                key = ""
                if start == "{":
                    key = text.key()
                value = text.value()
                # Before the value is used: the end that was found may be another one's.
                separator = text.expect("," + end)
                yield f"record {place}", key, value
                place += 1
            if text.next():
                raise _BrokenOff(_NO_JSON)
        except _BrokenOff as error:
            yield f"record {place}{REST}", "", Malformed(f"The {what} breaks off here: {error}.")


class _Text:
    """JSON that is read value by value; one of them is in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        # What is no text becomes half a surrogate pair, which `check_storable` refuses, if used.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text, self._at = "", 0
        self._ended = False

    def _more(self, size: int = _CHUNK) -> bool:
        chunk = self._file.read(size)
        self._ended = not chunk
        self._text, self._at = self._text[self._at :] + self._decoder.decode(chunk, not chunk), 0
        return bool(chunk)

    def next(self) -> str:
        """The next character that is not white space; '' at the end of the file."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it may be empty
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def expect(self, characters: str) -> str:
        """Read one of these characters. Raises _BrokenOff."""
        found = self.next()
        if not found:
            raise _BrokenOff(_ENDS)
        if found not in characters:
            raise _BrokenOff(_NO_JSON)
        self._at += 1
        return found

    def key(self) -> str:
        """Read a key and its colon. Raises _BrokenOff."""
        key = self.value()
        if not isinstance(key, str):
            raise _BrokenOff(_NO_JSON)
        self.expect(":")
        return key

    def value(self) -> Any:
        """Read a value; Malformed if it is none, but its end was found. Raises _BrokenOff."""
        if not self.next():
            raise _BrokenOff(_ENDS)
        try:
            value, end = self._decoded()
            json_nesting.check(f"[{self._text[self._at : end]}")
        except json_nesting.TooDeep as error:
            value, end = Malformed(f"It cannot be read: {error}."), self._end_of_broken()
        except RecursionError:
            value, end = Malformed(f"It cannot be read: {json_nesting.TooDeep()}."), self._end_of_broken()
        except json.JSONDecodeError as error:
            if len(self._text) - self._at > MAX_RECORD:
                raise _BrokenOff(_TOO_LONG) from None
            if not error.msg.startswith(_INSIDE):
                if error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip()):
                    raise _BrokenOff(_ENDS) from None
                raise _BrokenOff(_NO_JSON) from None
            value, end = Malformed(f"It is not JSON: {error.msg}."), self._end_of_broken()
        except ValueError:
            value, end = Malformed("A number in it is out of range."), self._end_of_broken()
        if end - self._at > MAX_RECORD:
            raise _BrokenOff(_TOO_LONG)
        self._at = end
        return value

    def _decoded(self) -> tuple[Any, int]:
        """The value here, and its end, for which more is read as needed."""
        size = _CHUNK
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except json.JSONDecodeError:
                if self._ended or len(self._text) - self._at > MAX_RECORD:
                    raise
                self._more(size)
                size *= 2
            else:
                # A number may go on.
                if end < len(self._text) or self._text[end - 1] in '"]}' or not self._more():
                    return without_constants(value, self._text[self._at : end]), end

    def _end_of_broken(self) -> int:
        """The end of the value here, by its brackets. Raises _BrokenOff."""
        while True:
            if self._text[self._at] not in '[{"' and (scalar := _SCALAR.match(self._text, self._at)):
                return scalar.end()
            depth = 0
            for token in _TOKEN.finditer(self._text, self._at):
                depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
                if depth == 0 and token.end() < len(self._text):
                    return token.end()
            if len(self._text) - self._at > MAX_RECORD:
                raise _BrokenOff(_TOO_LONG)
            if not self._more():
                raise _BrokenOff(_ENDS)
