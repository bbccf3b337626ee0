"""Two traps without clusters."""

from collections.abc import Sequence
from typing import Any

from generation.recipes.recipe import Term

TERMS = (
    Term("S", "Sweet", definition="It is said to be sweet."),
    Term("B", "Bitter", definition="It is said to be bitter."),
)


def facets(_task: str, traps: list[str], _terms: Sequence[Term], *_rest: Any) -> dict[str, list[str]]:
    return {"taste": traps}
