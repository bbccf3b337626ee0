"""Checks of external text for characters that PostgreSQL or UTF-8 cannot represent."""

import re
from collections.abc import Mapping
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def has_more_values(value: Any, most: int) -> bool:
    """Whether a JSON value holds more than `most` values, keys included."""
    remaining, count = [value], 0
    while remaining and count + len(remaining) <= most:
        part = remaining.pop()
        count += 1
        if isinstance(part, Mapping):
            count += len(part)
            remaining += part.values()
        elif isinstance(part, list):
            remaining += part
    return count + len(remaining) > most


def is_storable(value: Any) -> bool:
    """Whether a JSON value, keys included, contains no NUL and no lone surrogates."""
    remaining = [value]
    while remaining:
        part = remaining.pop()
        if isinstance(part, str):
            if _UNSTORABLE.search(part):
                return False
        elif isinstance(part, Mapping):
            remaining += [*part.keys(), *part.values()]
        elif isinstance(part, (list, tuple)):
            remaining += part
    return True
