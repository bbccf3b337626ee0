"""Reads pickles of plain values.

A pickle is a program. All of its instructions are looked at before one is run: only those are
allowed that build lists, objects with texts as keys, texts and numbers, so nothing can be called.
A text may be used again, but no list or object: the value is as large as it looks, and has no loop.
"""

import io
import pickle
import pickletools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from generation.sources.importers.base import LimitsExceeded, WrongFormat
from review.rules.json_nesting import MAX_DEPTH

MAX_PICKLE = 64 * 2**20  # bytes: its values are held in memory
MAX_VALUES = 4_000_000  # instructions; each makes at most one value
MAX_TEXT = 256 * 2**20  # characters of all texts, each counted as often as it occurs
_BITS = 64  # of a whole number

_PLAIN = (
    "PROTO FRAME STOP MARK UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8 STRING SHORT_BINSTRING BINSTRING INT BININT"
    " BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT NONE NEWTRUE NEWFALSE EMPTY_LIST EMPTY_DICT EMPTY_TUPLE LIST DICT TUPLE"
    " TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS MEMOIZE PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET"
)
_ALLOWED = frozenset(_PLAIN.split())
_RUNS_CODE = "The pickle contains more than lists, texts and numbers. It could run code, so it is not read."


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise WrongFormat(_RUNS_CODE)


def load_plain(path: Path) -> Any:
    """Load a pickle of nothing but lists, tuples, objects, texts and numbers.

    Raises WrongFormat, LimitsExceeded.
    """
    if path.stat().st_size > MAX_PICKLE:
        raise LimitsExceeded(f"The pickle is larger than {MAX_PICKLE:,} bytes.")
    # From memory: of a file, it would make room for whatever length an instruction states.
    data = path.read_bytes()
    try:
        for count, (instruction, argument, _position) in enumerate(pickletools.genops(data)):
            if instruction.name not in _ALLOWED:
                raise WrongFormat(_RUNS_CODE)
            # Room is made up to the number that a text is remembered under.
            place = 0
            if isinstance(argument, int) and instruction.name.endswith("PUT"):
                place = argument
            if max(count, place) > MAX_VALUES:
                raise LimitsExceeded(f"The pickle has more than {MAX_VALUES:,} values.")
        value = _Unpickler(io.BytesIO(data), encoding="latin-1").load()
    except (pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError, OverflowError, EOFError):
        # The library's message quotes the file.
        raise WrongFormat("The pickle cannot be read: it is damaged or not complete.") from None
    _check(value)
    return value


def _check(value: Any) -> None:
    """Raise WrongFormat or LimitsExceeded unless a value is plain, and as large as it looks."""
    level, seen, characters = [value], set(), 0
    for _depth in range(MAX_DEPTH + 1):
        inside: list[Any] = []
        for part in level:
            if isinstance(part, str):
                characters += len(part)
            elif isinstance(part, int) and part.bit_length() > _BITS:
                raise WrongFormat(f"The pickle contains a number of more than {_BITS} bits.")
            elif isinstance(part, dict | list | tuple) and part:
                if id(part) in seen:
                    raise WrongFormat("The pickle uses a list or an object twice, so it could unfold without end.")
                seen.add(id(part))
                if isinstance(part, dict) and not all(isinstance(key, str) for key in part):
                    raise WrongFormat("An object in the pickle has a key that is not a text.")
                inside += part
                if isinstance(part, dict):
                    inside += part.values()
        if characters > MAX_TEXT:
            raise LimitsExceeded(f"The texts of the pickle have more than {MAX_TEXT:,} characters.")
        if not inside:
            return
        level = inside
    raise WrongFormat(f"Lists and objects in the pickle are nested more than {MAX_DEPTH} deep.")


def pickled_records(path: Path) -> Iterator[tuple[str, Any]]:
    """(position, record) of each record of a list. Raises WrongFormat, LimitsExceeded."""
    records = load_plain(path)
    if not isinstance(records, list | tuple):
        raise WrongFormat("The pickle is not a list of records.")
    for number, record in enumerate(records, 1):
        yield f"record {number}", record
