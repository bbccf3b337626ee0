"""The facets of HealthBench's criteria: their points and the theme of the conversation."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Term

TERMS: tuple[Term, ...] = ()
TASKS = (("dialogue", _("Dialogue")),)
FACET_FIELDS = ("themes",)
THEME = "theme:"


def facets(task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]) -> dict[str, list[str]]:  # noqa: ARG001
    """The points of a criterion, stored as its only trap, and the themes of its conversation."""
    return {"points": list(traps), "theme": list(content.get("themes", ()))}


def points_of(value: float) -> str:
    """Points as a facet value."""
    if value == int(value):
        return str(int(value))
    return f"{value:.9f}".rstrip("0")


def themes_of(tags: list[str]) -> list[str]:
    """The themes among a conversation's tags."""
    return [tag.removeprefix(THEME) for tag in tags if tag.startswith(THEME)]
