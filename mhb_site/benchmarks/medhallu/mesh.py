"""The top-level MeSH branches of an article: the letters in the paper's counts ('C' Diseases)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

# NLM's check tags: headings that an indexer adds to every article they apply to, whatever its
# subject (sex, ages, pregnancy, animals, period). Four ages are four tree numbers in M, which
# outvote the disease that an article is about: if they counted, 'Named Groups' would be the branch
# of many clinical studies, and it is not one of the paper's five. Species and ages follow
# "Principles of MEDLINE Subject Indexing" and NLM's course for indexers.
CHECK_TAGS = frozenset(
    {
        "humans", "human", "animals", "animal", "male", "female", "pregnancy",
        "infant, newborn", "infant", "child, preschool", "child", "adolescent", "young adult", "adult", "middle aged",
        "aged", "aged, 80 and over",
        "cats", "cattle", "chick embryo", "cricetinae", "dogs", "guinea pigs", "mice", "rabbits", "rats",
        "history, ancient", "history, medieval", "history, early modern 1451-1600", "history, modern 1601-",
        "history, 15th century", "history, 16th century", "history, 17th century", "history, 18th century",
        "history, 19th century", "history, 20th century", "history, 21st century",
        "in vitro", "in vitro techniques",
    }
)  # fmt: skip


def branches(headings: Iterable[str], terms: Iterable[Mapping[str, Any]]) -> list[str]:
    """The letter with which most tree numbers of the article's headings begin; several in a tie.

    `headings` are the article's, by name. `terms` are records of the vocabulary, ``{"name",
    "trees": ["C14.280"]}``, of these and possibly other headings. Each heading counts once.
    Headings that are not among the terms, have no place in the tree or are `CHECK_TAGS` do not
    count, so an article with no other heading has no branch.

    The paper does not say how ties were broken. An arbitrary letter would move samples between
    branches, so all of them count.
    """
    names = {_normalised(name) for name in headings} - CHECK_TAGS
    trees = {_normalised(term["name"]): term["trees"] for term in terms}
    letters: Counter[str] = Counter()
    for name in names & trees.keys():
        letters.update(tree[0] for tree in trees[name] if tree)
    max_count = max(letters.values(), default=0)
    return sorted(letter for letter, count in letters.items() if count == max_count)


def _normalised(name: str) -> str:
    return " ".join(name.split()).casefold()
