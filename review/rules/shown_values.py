"""Values of an item that JSON, tables and the API's serializers show, by the same list of names.

A list is a text of names, separated by spaces: `name` is a field or property; `name=path` is of
what the item contains, by the dotted path of attributes, keys or places in a tuple. A path alone
goes by its first name.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any


@cache
def entries(names: str) -> tuple[tuple[str, str], ...]:
    """(name, path) of each entry of a list."""
    parts = [entry.rpartition("=") for entry in names.split()]
    return tuple((name or path.partition(".")[0], path) for name, _equals, path in parts)


def shown(item: Any, names: str) -> dict[str, Any]:
    """The listed values of an item; None where a part of a path is missing."""
    return {name: _value(item, path) for name, path in entries(names)}


def _value(item: Any, path: str) -> Any:
    for part in path.split("."):
        if not item:
            return None
        key: Any = int(part) if part.isdigit() else part
        item = item[key] if isinstance(item, Mapping) or part.isdigit() else getattr(item, part)
    return item
