"""Cached parsing of small JSON values that are repeated in most rows of a table."""

import json
from functools import lru_cache
from typing import Any

_parsed = lru_cache(maxsize=4096)(json.loads)


def parsed(text: str) -> list[Any]:
    """Parse the list in a JSON column that was read as text.

    Most rows have one of a few values, each of which is parsed only once.
    """
    return list(_parsed(text))
