"""Reading a model's reply: JSON out of text, reasoning apart from the answer, vectors. What comes is untrusted."""

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

# NUL and lone surrogates are legal in a JSON string, but neither PostgreSQL nor UTF-8 can hold them.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def extract_json(text: str) -> dict[str, Any]:
    """The one JSON object in a reply: bare, in a code fence, or with prose around it.

    Everything before the first and after the last brace counts as prose. So two objects, a list of objects or an object
    that was cut off are refused rather than guessed at.

    Raises:
        BrokenReply: with a reason that can be shown to the model.
    """
    if len(text) > MAX_CHARS:
        raise BrokenReply(f"The reply is longer than {MAX_CHARS} characters.")
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        raise BrokenReply("The reply holds no complete JSON object.")
    try:
        value = json.loads(
            text[start : end + 1], object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise BrokenReply(f"The reply is not one valid JSON object: {error.msg} (character {error.pos}).") from None
    except RecursionError:
        raise BrokenReply("The JSON is nested too deeply.") from None
    except ValueError:  # an integer of thousands of digits
        raise BrokenReply("The JSON holds a number that is too large.") from None
    before, after = text[:start].rstrip(), text[end + 1 :].lstrip()
    if before.endswith(("[", ",", '"')) or after.startswith(("]", ",", '"')):
        raise BrokenReply("The JSON object is part of a list or a string; it must stand alone.")
    _check(value, depth=1)
    return value  # type: ignore[no-any-return]  # it starts with a brace


def split_reasoning(text: str) -> tuple[str, str]:
    """(answer, reasoning) of a reply that may begin with a ``<think>`` block; an unclosed block is all reasoning.

    The opening tag may be missing: the chat template of DeepSeek-R1 puts it into the prompt, and the reply begins behind it.
    What begins as a JSON object is taken for the answer, whatever it quotes.
    """
    stripped = text.lstrip()
    if not stripped.startswith("<think>"):
        before, closing, _answer = stripped.partition("</think>")
        if not closing or "<think>" in before or before.startswith("{"):
            return text, ""
    reasoning, _, answer = stripped.removeprefix("<think>").partition("</think>")
    return answer.lstrip(), reasoning.strip()


def storable(text: str) -> str:
    """The text with the characters that no database or file can hold replaced by U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def vectors_text(vectors: Sequence[Sequence[float]]) -> str:
    """Vectors as the ledger keeps them: a JSON list of one base64 string each, of little-endian 32-bit floats.

    Raises BrokenReply: they are not `checked_vectors`.
    """
    checked_vectors(vectors, len(vectors))
    try:
        raw = [struct.pack(f"<{len(vector)}f", *vector) for vector in vectors]
    except (OverflowError, struct.error):
        raise BrokenReply("A vector holds a number beyond 32-bit floats.") from None
    return json.dumps([base64.b64encode(each).decode() for each in raw])


def vectors_of(text: str, count: int) -> tuple[tuple[float, ...], ...]:
    """The vectors that `vectors_text` wrote. Raises BrokenReply where they are not so many, or none at all."""
    try:
        raw = [base64.b64decode(each, validate=True) for each in json.loads(text)]
        found = tuple(struct.unpack(f"<{len(each) // 4}f", each) for each in raw)
    except (ValueError, TypeError, RecursionError, binascii.Error, struct.error):
        raise BrokenReply("The reply holds no vectors.") from None
    checked_vectors(found, count)
    return found


def checked_vectors(vectors: Any, count: int) -> None:
    """Raises BrokenReply unless these are `count` vectors of finite numbers, all of one length above 0."""
    if len(vectors) != count:
        raise BrokenReply(f"{len(vectors)} vectors came for {count} texts.")
    for vector in vectors:
        if not isinstance(vector, list | tuple) or not vector or len(vector) != len(vectors[0]):
            raise BrokenReply("The vectors are not all of one length.")
        if not all(type(value) in (int, float) and _is_finite(value) for value in vector):
            raise BrokenReply("A vector holds something that is no finite number.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise BrokenReply("The JSON object names a key twice.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise BrokenReply(f"{name} is not a JSON value.")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise BrokenReply("The JSON holds a number that is too large.")
    return value


def _check(value: Any, *, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BrokenReply("The JSON is nested too deeply.")
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            raise BrokenReply("The JSON holds a character that cannot be stored (NUL or half of a surrogate pair).")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(key, depth=depth)
            _check(item, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth=depth + 1)
