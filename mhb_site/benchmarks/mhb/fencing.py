"""How untrusted text goes into a prompt: as one line of JSON between ``<<<NAME`` and ``NAME>>>``."""

import json
from typing import Any


def as_data(value: Any) -> str:
    """One line of JSON that cannot close its block: the delimiters' brackets and all that may pass for a line's end are
    escaped within it."""
    line = json.dumps(value, ensure_ascii=False)
    for mark in "\x85\u2028\u2029":  # JSON leaves them as they are
        line = line.replace(mark, f"\\u{ord(mark):04x}")
    # Angle brackets occur inside JSON strings only, where the escape means the same character.
    return line.replace("<<<", "<\\u003c<").replace(">>>", ">\\u003e>")
