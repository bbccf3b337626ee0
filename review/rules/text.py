"""Text that came in from outside: what neither PostgreSQL nor UTF-8 can hold."""

import re
from collections.abc import Mapping
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def is_storable(value: Any) -> bool:
    """Whether a text, or whatever JSON can hold, is free of NUL and of halves of surrogate pairs, keys included."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if _UNSTORABLE.search(each):
                return False
        elif isinstance(each, Mapping):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, (list, tuple)):
            left += each
    return True
