"""Places on a page that an app above may fill: the page knows the place, the app registers what it shows there."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

Context = Callable[[Any], Mapping[str, Any]]
_panels: dict[str, list[tuple[str, Context]]] = defaultdict(list)


def register(place: str, template: str, context: Context) -> None:
    """Show `template` at `place`; `context` reads what it needs from the page's object. For `AppConfig.ready`, which tests that
    isolate an app call twice."""
    if (template, context) not in _panels[place]:
        _panels[place].append((template, context))


def panels_of(place: str, shown: object) -> list[tuple[str, Mapping[str, Any]]]:
    """The templates at a place, each with its context, in the order they were registered."""
    return [(template, context(shown)) for template, context in _panels[place]]
