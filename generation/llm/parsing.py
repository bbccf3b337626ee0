"""Parsing of untrusted replies: JSON within text, vectors."""

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Sequence
from typing import Any, NoReturn

from generation.llm.errors import BrokenReply

MAX_CHARS = 200_000
MAX_DEPTH = 32

# NUL and lone surrogates are legal in a JSON string, but neither PostgreSQL nor UTF-8 can hold
# them.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_BLANKS = re.compile(r"\s{20,}+")
_BACKSLASH = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')


def extract_json(text: str) -> dict[str, Any]:
    """Extract the single JSON object of a reply: bare, in a code fence, or surrounded by prose.

    Everything before the first and after the last brace counts as prose. Two objects, a list of
    objects or a truncated object are refused rather than guessed. Raw control characters inside
    strings, and backslashes that escape nothing, stand for themselves.

    Raises:
        BrokenReply: with a reason that can be shown to the model.
    """
    if len(text) > MAX_CHARS:
        raise BrokenReply(f"The reply is longer than {MAX_CHARS} characters.")
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise BrokenReply("The reply contains no complete JSON object.")
    try:
        value = json.loads(
            _BACKSLASH.sub(lambda mark: mark[1] or "\\\\", text[start : end + 1]),
            strict=False,
            object_pairs_hook=reject_duplicate_keys,
            parse_constant=_reject_constant,
            parse_float=_parse_finite,
        )
    except json.JSONDecodeError as error:
        raise BrokenReply(f"The reply is not one valid JSON object: {error.msg} (character {error.pos}).") from None
    except RecursionError:
        raise BrokenReply("The JSON is nested too deeply.") from None
    except ValueError:  # an integer of thousands of digits
        raise BrokenReply("The JSON contains a number that is too large.") from None
    before, after = text[:start].rstrip(), text[end + 1 :].lstrip()
    if before.endswith(("[", ",", '"')) or after.startswith(("]", ",", '"')):
        raise BrokenReply("The JSON object is part of a list or a string; it must stand alone.")
    _check_value(value, depth=1)
    return value  # type: ignore[no-any-return]  # the text starts with a brace


def readable(text: str) -> str:
    """A reply for code that looks for something in it: long runs of white space made short.

    Models that fail repeat line breaks by the thousand. Raises BrokenReply if the rest is too long.
    """
    text = _BLANKS.sub(_shortened, text)
    if len(text) > MAX_CHARS:
        raise BrokenReply(f"The reply is longer than {MAX_CHARS} characters.")
    return text


def _shortened(blank: re.Match[str]) -> str:
    """A long run of white space as a space, a line break, or an empty line."""
    breaks = blank[0].count("\n")
    return "\n" * min(breaks, 2) or " "


def storable(text: str) -> str:
    """Replace characters that no database or file can hold by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def format_vectors(vectors: Sequence[Sequence[float]]) -> str:
    """Encode vectors for the ledger: a JSON list of base64 strings of little-endian 32-bit floats.

    Raises BrokenReply as `check_vectors` does, or for numbers beyond 32-bit floats.
    """
    check_vectors(vectors, len(vectors))
    try:
        raw = [struct.pack(f"<{len(vector)}f", *vector) for vector in vectors]
    except (OverflowError, struct.error):
        raise BrokenReply("A vector contains a number beyond 32-bit floats.") from None
    return json.dumps([base64.b64encode(data).decode() for data in raw])


def parse_vectors(text: str, count: int) -> tuple[tuple[float, ...], ...]:
    """Decode `count` vectors written by `format_vectors`. Raises BrokenReply for anything else."""
    try:
        raw = [base64.b64decode(item, validate=True) for item in json.loads(text)]
        vectors = tuple(struct.unpack(f"<{len(data) // 4}f", data) for data in raw)
    except (ValueError, TypeError, RecursionError, binascii.Error, struct.error):
        raise BrokenReply("The reply contains no vectors.") from None
    check_vectors(vectors, count)
    return vectors


def check_vectors(vectors: Any, count: int) -> None:
    """Raise BrokenReply unless these are `count` equally long vectors of finite numbers."""
    if len(vectors) != count:
        raise BrokenReply(f"{len(vectors)} vectors were returned for {count} texts.")
    for vector in vectors:
        if not isinstance(vector, list | tuple) or not vector or len(vector) != len(vectors[0]):
            raise BrokenReply("The vectors do not all have the same length.")
        if not all(type(value) in (int, float) and _is_finite(value) for value in vector):
            raise BrokenReply("A vector contains a value that is not a finite number.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The `object_pairs_hook` of JSON that must mean one thing. Raises BrokenReply."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise BrokenReply("The JSON object contains a key twice.")
    return value


def _reject_constant(name: str) -> NoReturn:
    raise BrokenReply(f"{name} is not a JSON value.")


def _parse_finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise BrokenReply("The JSON contains a number that is too large.")
    return value


def _check_value(value: Any, *, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BrokenReply("The JSON is nested too deeply.")
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            raise BrokenReply("The JSON contains a character that cannot be stored (NUL or half of a surrogate pair).")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_value(key, depth=depth)
            _check_value(item, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_value(item, depth=depth + 1)
