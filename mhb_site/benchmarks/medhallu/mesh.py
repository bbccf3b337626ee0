"""In which top-level branches of MeSH an article lies: the letters under which the paper counts ('C' Diseases)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

# NLM's check tags: headings that an indexer ticks for every article they apply to, whatever it is about (whose sex and ages,
# whether pregnant, which animals, when). Four ages are four numbers of M, so that they outvote the disease that an article is
# about: left in, 'Named Groups' would be the branch of many a clinical study, and it is none of the paper's five. Species and
# ages as "Principles of MEDLINE Subject Indexing" and the indexers' course of NLM name them.
CHECK_TAGS = frozenset(
    {
        "humans", "human", "animals", "animal", "male", "female", "pregnancy",
        "infant, newborn", "infant", "child, preschool", "child", "adolescent", "young adult", "adult", "middle aged",
        "aged", "aged, 80 and over",
        "cats", "cattle", "chick embryo", "cricetinae", "dogs", "guinea pigs", "mice", "rabbits", "rats",
        "history, ancient", "history, medieval", "history, early modern 1451-1600", "history, modern 1601-",
        *(f"history, {century}th century" for century in range(15, 21)), "history, 21st century",
        "in vitro", "in vitro techniques",
    }
)  # fmt: skip


def branches(headings: Iterable[str], terms: Iterable[Mapping[str, Any]]) -> list[str]:
    """The letter that most tree numbers of the article's headings begin with; several where they are equally frequent.

    headings: the article's, by name. terms: records of the vocabulary, ``{"name", "trees": ["C14.280"]}``, of these and maybe
    of other headings; each heading counts once. A heading that is not among them, or has no place in the tree, counts nothing;
    nor does one of `CHECK_TAGS`, so that an article with no other heading has no branch.

    The paper does not say how a tie was broken. An arbitrary letter would move samples between branches, so that all count.
    """
    wanted = {_folded(name) for name in headings} - CHECK_TAGS
    trees = {_folded(term["name"]): term["trees"] for term in terms}
    letters = Counter(tree[0] for name in wanted & trees.keys() for tree in trees[name] if tree)
    most = max(letters.values(), default=0)
    return sorted(letter for letter, count in letters.items() if count == most)


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
