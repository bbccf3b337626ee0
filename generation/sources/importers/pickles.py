"""Reads pickles of plain values.

A pickle is a program. This reads its instructions one by one and knows only those that build lists,
objects with texts as keys, texts and numbers; everything else is refused, so nothing can be called.
A text may be used again, but no list or object: the value is as large as it looks, and has no loop.
"""

import pickletools
from pathlib import Path
from typing import Any

from generation.sources.importers.base import LimitsExceeded, WrongFormat
from review.rules.json_nesting import MAX_DEPTH

MAX_PICKLE = 64 * 2**20  # bytes: its values are held in memory
MAX_VALUES = 4_000_000
MAX_TEXT = 256 * 2**20  # characters of all texts, each counted as often as it occurs
_BITS = 64  # of a whole number

_TEXTS = {"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "SHORT_BINSTRING", "BINSTRING"}
_NUMBERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_MARK = object()
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def load_plain(path: Path) -> Any:
    """Load a pickle of nothing but lists, objects, texts and numbers; tuples become lists.

    Raises WrongFormat, LimitsExceeded.
    """
    if path.stat().st_size > MAX_PICKLE:
        raise LimitsExceeded(f"The pickle is larger than {MAX_PICKLE:,} bytes.")
    builder = _Builder()
    try:
        # From memory: of a file, it would make room for whatever length an instruction states.
        for opcode, argument, _position in pickletools.genops(path.read_bytes()):
            builder.run(opcode.name, argument)
        return builder.result()
    except (ValueError, IndexError, KeyError, TypeError, OverflowError):
        # The library's message quotes the file.
        raise WrongFormat("The pickle cannot be read: it is damaged or not complete.") from None


class _Builder:
    """The machine that runs the instructions."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._values = self._characters = 0

    def result(self) -> Any:
        """The value, whose lists and objects are at most MAX_DEPTH in one another."""
        value = self._pop()
        if self._stack:
            raise ValueError
        level = [value]
        for _depth in range(MAX_DEPTH + 1):
            inside = [part.values() if isinstance(part, dict) else part for part in level if _is_container(part)]
            if not inside:
                return value
            level = [part for parts in inside for part in parts]
        raise WrongFormat(f"Lists and objects in the pickle are nested more than {MAX_DEPTH} deep.")

    def run(self, name: str, argument: Any) -> None:
        match name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MARK":
                self._push(_MARK)
            case _ if name in _TEXTS:
                if not isinstance(argument, str):
                    raise ValueError
                self._push(argument)
            case _ if name in _NUMBERS:
                if isinstance(argument, int) and argument.bit_length() > _BITS:
                    raise WrongFormat(f"The pickle contains a number of more than {_BITS} bits.")
                self._push(argument)
            case _ if name in _CONSTANTS:
                self._push(_CONSTANTS[name])
            case "EMPTY_LIST":
                self._push([])
            case "EMPTY_DICT":
                self._push({})
            case "LIST" | "TUPLE":
                self._push(self._since_mark())
            case "DICT":
                items = self._since_mark()
                self._push({})
                self._set(items)
            case _ if name in _TUPLES:
                self._push([self._pop() for _ in range(_TUPLES[name])][::-1])
            case "APPEND":
                item = self._pop()
                self._top(list).append(item)
            case "APPENDS":
                items = self._since_mark()
                self._top(list).extend(items)
            case "SETITEM":
                value, key = self._pop(), self._pop()
                self._set([key, value])
            case "SETITEMS":
                self._set(self._since_mark())
            case "MEMOIZE":
                self._remember(len(self._memo))
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._remember(argument)
            case "GET" | "BINGET" | "LONG_BINGET":
                value = self._memo[argument]
                if _is_container(value):
                    raise WrongFormat("The pickle uses a list or an object twice, so it could unfold without end.")
                self._push(value)
            case _:
                raise WrongFormat(
                    "The pickle contains more than lists, texts and numbers. It could run code, so it is not read."
                )

    def _push(self, value: Any) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise LimitsExceeded(f"The pickle has more than {MAX_VALUES:,} values.")
        self._characters += len(value) if isinstance(value, str) else 0
        if self._characters > MAX_TEXT:
            raise LimitsExceeded(f"The texts of the pickle have more than {MAX_TEXT:,} characters.")
        self._stack.append(value)

    def _remember(self, number: int) -> None:
        self._memo[number] = self._top(object)
        if len(self._memo) > MAX_VALUES:
            raise LimitsExceeded(f"The pickle has more than {MAX_VALUES:,} values.")

    def _top(self, kind: type) -> Any:
        value = self._stack[-1]
        if value is _MARK or not isinstance(value, kind):
            raise ValueError
        return value

    def _pop(self) -> Any:
        self._top(object)
        return self._stack.pop()

    def _since_mark(self) -> list[Any]:
        items = []
        while (value := self._stack.pop()) is not _MARK:
            items.append(value)
        return items[::-1]

    def _set(self, items: list[Any]) -> None:
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                raise WrongFormat("An object in the pickle has a key that is not a text.")
            target[key] = value


def _is_container(value: Any) -> bool:
    return isinstance(value, list | dict)
