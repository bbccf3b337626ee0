"""Fencing of untrusted text in prompts: one line of JSON between ``<<<NAME`` and ``NAME>>>``."""

import json
import re
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would create an encoder per call
_LINE_ENDS = {mark: f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}  # JSON does not escape these
_BLOCK = re.compile(r"^<<<([A-Z]+)\n(.*)\n\1>>>$", re.MULTILINE)


def as_data(value: Any) -> str:
    """Encode a value as one line of JSON that cannot close its block.

    Brackets that could form a delimiter, and all characters that may count as a line end, are
    escaped.
    """
    line = _encode(value)
    if not line.isascii():
        for mark, escaped in _LINE_ENDS.items():
            line = line.replace(mark, escaped)
    if "<" not in line and ">" not in line:  # a search for one character is two hundred times faster than for three
        return line
    # Angle brackets occur only inside JSON strings, where the escape means the same character.
    return re.sub("<<(?=<)", r"<\\u003c", re.sub(">>(?=>)", r">\\u003e", line))


def read_data(text: str) -> dict[str, Any]:
    """Read the data blocks of a prompt, by name, for simulated models.

    Raises ValueError (no JSON).
    """
    return {name: json.loads(line) for name, line in _BLOCK.findall(text)}
