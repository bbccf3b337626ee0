"""MedHallu's four categories of hallucination (Table 2), in our words, and a sample's facets."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Term, check_codes

TERMS: tuple[Term, ...] = (
    Term(
        "MQ",
        _("Misinterpretation of the question"),
        definition=_(
            "The answer addresses a different question from the one asked, such as another population, outcome, "
            "comparison or point in time, and presents this as the answer."
        ),
    ),
    Term(
        "II",
        _("Incomplete information"),
        definition=_(
            "Something decisive is left out, such as a condition, an exception or half of the finding, so that the rest is "
            "misleading. Nothing is invented."
        ),
    ),
    Term(
        "MP",
        _("Mechanism and pathway misattribution"),
        definition=_(
            "The observation is attributed to a wrong cause: a mechanism, pathway, pathogen or drug "
            "action that does not produce it."
        ),
    ),
    Term(
        "MF",
        _("Methodological and evidence fabrication"),
        definition=_(
            "A study, method, number or source is made up, or is credited with a result that it did not produce."
        ),
    ),
)
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
