"""Checks how deeply JSON is nested, from its bytes, before anything is parsed.

A parser that keeps the path to its position needs memory that grows with the square of the depth,
and code that walks the parsed value runs out of stack. So all external JSON is checked here first.
"""

import json
from itertools import accumulate
from typing import Any

MAX_DEPTH = 100  # of arrays and objects; JSON written by the site has about ten levels

_STEPS = bytes.maketrans(b"[{]}", b"\x02\x02\x00\x00")  # the change in depth, plus one
_OTHERS = bytes(set(range(256)) - set(b"[{]}"))
_BLOCK = 8 * 1024  # bytes examined at once


class TooDeep(ValueError):
    """The JSON is nested too deeply."""

    def __init__(self) -> None:
        super().__init__(f"arrays and objects are nested more than {MAX_DEPTH} deep")


class Nesting:
    """Tracks the depth of JSON that arrives in pieces. Invalid JSON is left to the parser."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last piece ended with a backslash

    def feed(self, piece: bytes) -> None:
        """Read the next piece. Raises TooDeep."""
        for start in range(0, len(piece), _BLOCK):
            self._feed(piece[start : start + _BLOCK])

    def _feed(self, block: bytes) -> None:
        block = block[self._escaped :].replace(b"\\\\", b"")
        self._escaped = block.endswith(b"\\")
        parts = block.replace(b'\\"', b"").split(b'"')  # alternately outside and inside of strings
        outside = b"".join(parts[self._in_string :: 2]).translate(_STEPS, _OTHERS)
        self._in_string ^= len(parts) % 2 == 0
        depths = list(accumulate(outside, lambda depth, step: depth + step - 1, initial=self._depth))
        if max(depths) > MAX_DEPTH:
            raise TooDeep
        self._depth = depths[-1]


def check(text: str | bytes) -> None:
    """Raise TooDeep if the JSON is nested more than `MAX_DEPTH` levels deep."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        Nesting().feed(data)


def loads(text: str, **options: Any) -> Any:
    """`json.loads` for external JSON. Raises only ValueError (TooDeep, JSONDecodeError)."""
    check(text)
    return json.loads(text, **options)
