"""How untrusted text goes into a prompt: as one line of JSON between ``<<<NAME`` and ``NAME>>>``."""

import json
from typing import Any


def as_data(value: Any) -> str:
    """One line of JSON that cannot close its block: the delimiters' brackets are escaped within it."""
    line = json.dumps(value, ensure_ascii=False)
    # Angle brackets occur inside JSON strings only, where the escape means the same character.
    return line.replace("<<<", "<\\u003c<").replace(">>>", ">\\u003e>")
