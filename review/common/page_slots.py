"""Slots: named places on a page where apps of a higher layer can register templates of theirs."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from review import registrations

Context = Callable[[Any], Mapping[str, Any]]
_slots: dict[str, list[tuple[str, Context]]] = defaultdict(list)


def register(place: str, template: str, context: Context) -> None:
    """Show `template` at `place`; `context` derives its context from the page's object.

    Call it in `registered.py`.
    """
    _slots[place].append((template, context))


def templates_in(place: str, page_object: object) -> list[tuple[str, Mapping[str, Any]]]:
    """The templates at a place, each with its context, in the order of registration."""
    registrations.load()
    return [(template, context(page_object)) for template, context in _slots[place]]
