"""What readers of files say of a record, in the language of the person who looks at it.

A reason is stored as the English sentence that the reader wrote, as readers know neither Django nor
languages. It is recognised here by the template of `translated_reasons.json` that it is made from.
"""

import json
import re
from functools import cache
from pathlib import Path

from django.utils.translation import gettext

# The specific before the general. What stands for `reason` and `where` is translated, too.
TEMPLATES: list[str] = json.loads(Path(__file__).with_suffix(".json").read_bytes())
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_NESTED = frozenset({"reason", "where"})
_SHORT = frozenset({"number", "expected", "name"})  # not a sentence


def translated(reason: str) -> str:
    """A reason or a place in the active language; unchanged if nothing is known of it."""
    for template, parts in _templates():
        values = _values(parts, reason)
        if values is None:
            continue
        for name in _NESTED & values.keys():
            values[name] = translated(values[name])
        if values:
            return gettext(template) % values
        return gettext(template)
    head, colon, rest = reason.partition(": ")
    if colon:
        return f"{translated(head)}{colon}{translated(rest)}"
    return reason


@cache
def _templates() -> list[tuple[str, list[str]]]:
    return [(template, _PLACEHOLDER.split(template)) for template in TEMPLATES]


def _values(parts: list[str], text: str) -> dict[str, str] | None:
    """What stands for the placeholders of a template in a text; None if the text is not of it.

    parts: a literal, then names and literals in turn.
    """
    if len(parts) == 1:
        if text == parts[0]:
            return {}
        return None
    if not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return None
    values: dict[str, str] = {}
    at, end = len(parts[0]), len(text) - len(parts[-1])
    for name, literal in zip(parts[1:-2:2], parts[2:-1:2], strict=True):
        place = text.find(literal, at, end)
        if place < 0:
            return None
        values[name], at = text[at:place], place + len(literal)
    values[parts[-2]] = text[at:end]
    fits = at <= end and all(values.values()) and not any(": " in values.get(name, "") for name in _SHORT)
    if fits:
        return values
    return None
