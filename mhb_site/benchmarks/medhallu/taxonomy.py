"""MedHallu's four categories of hallucination (Table 2), in our words, and a sample's facets."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.recipe import Term, check_codes

TERMS = read_declared(Term, __file__, "taxonomy.json")
TASKS = (("detection", _("Detection")),)
DIFFICULTIES = ("easy", "medium", "hard")
FACET_FIELDS = ("difficulty", "branches")  # the fields of a sample's content that `facets` reads


def facets(task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]) -> dict[str, list[str]]:  # noqa: ARG001
    """The difficulty, category and MeSH branches under which a sample is counted.

    `content` is documented in `recipe.sample`. A sample with unknown headings has no branch; one
    whose headings lie evenly in several branches counts under each.

    Raises:
        UnknownTerm: a code is not in `terms`.
    """
    known = {term.code: term for term in terms}
    check_codes(traps, known)
    return {
        "difficulty": [level for level in DIFFICULTIES if level == content.get("difficulty")],
        "category": [code for code in known if code in traps],
        "branch": list(content.get("branches", ())),
    }
