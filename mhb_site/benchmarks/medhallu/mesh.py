"""In which top-level branches of MeSH an article lies: the letters under which the paper counts ('C' Diseases)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def branches(headings: Iterable[str], terms: Iterable[Mapping[str, Any]]) -> list[str]:
    """The letter that most tree numbers of the article's headings begin with; several where they are equally frequent.

    headings: the article's, by name. terms: records of the vocabulary, ``{"name", "trees": ["C14.280"]}``, of these and maybe
    of other headings; each heading counts once. A heading that is not among them, or has no place in the tree, counts nothing.

    The paper does not say how a tie was broken. An arbitrary letter would move samples between branches, so that all count.
    """
    wanted = {_folded(name) for name in headings}
    trees = {_folded(term["name"]): term["trees"] for term in terms}
    letters = Counter(tree[0] for name in wanted & trees.keys() for tree in trees[name] if tree)
    most = max(letters.values(), default=0)
    return sorted(letter for letter, count in letters.items() if count == most)


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
