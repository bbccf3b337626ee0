"""How deeply JSON nests, told from its bytes before anything is built of them.

A parser that keeps the path to where it is needs memory that grows with the square of the depth, and code that walks what was
parsed runs out of stack. So all JSON from outside is read through here.
"""

import copy
import json
from itertools import accumulate
from typing import Any

MAX_DEPTH = 100  # arrays and objects inside one another; what the site itself writes has some ten

_STEPS = bytes.maketrans(b"[{]}", b"\x02\x02\x00\x00")  # one more than the change in depth
_OTHERS = bytes(set(range(256)) - set(b"[{]}"))
_BLOCK = 8 * 1024  # bytes looked at at once


class TooDeep(ValueError):
    """The JSON is nested too deeply."""

    def __init__(self) -> None:
        super().__init__(f"arrays and objects are nested more than {MAX_DEPTH} deep")


class Nesting:
    """Follows JSON that comes in pieces; what is not JSON is left to the parser to refuse."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last piece ended on a backslash

    def feed(self, piece: bytes) -> None:
        """Read on. Raises TooDeep."""
        for start in range(0, len(piece), _BLOCK):
            self._feed(piece[start : start + _BLOCK])

    def shallow(self, piece: bytes) -> bytes:
        """As much of a piece as nests no deeper than it may; that much has been read on."""
        at, size = 0, len(piece)
        while size and at < len(piece):
            trial = copy.copy(self)
            try:
                trial.feed(piece[at : at + size])
            except TooDeep:
                size //= 2
            else:
                self.__dict__ = trial.__dict__
                at += size
        return piece[:at]

    def _feed(self, block: bytes) -> None:
        block = block[self._escaped :].replace(b"\\\\", b"")
        self._escaped = block.endswith(b"\\")
        parts = block.replace(b'\\"', b"").split(b'"')  # text and string by turns
        outside = b"".join(parts[self._in_string :: 2]).translate(_STEPS, _OTHERS)
        self._in_string ^= len(parts) % 2 == 0
        depths = list(accumulate(outside, lambda depth, step: depth + step - 1, initial=self._depth))
        if max(depths) > MAX_DEPTH:
            raise TooDeep
        self._depth = depths[-1]


def check(text: str | bytes) -> None:
    """Raise TooDeep for JSON that nests more than `MAX_DEPTH` deep."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        Nesting().feed(data)


def loads(text: str, **options: Any) -> Any:
    """`json.loads` of JSON from outside. Raises ValueError (TooDeep, JSONDecodeError) and nothing else."""
    check(text)
    return json.loads(text, **options)
