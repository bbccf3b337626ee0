"""Small JSON values that a table repeats in most of its rows."""

import json
from functools import lru_cache
from typing import Any

_parsed = lru_cache(maxsize=4096)(json.loads)


def parsed(text: str) -> list[Any]:
    """The list in a JSON column that was read as text: most rows have one of a few, and each of those is parsed once."""
    return list(_parsed(text))
