"""MHB's taxonomy of hallucination traps (Table 1: 5 clusters, 14 subtypes), in our own words."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.recipe import Term, check_codes

TERMS = read_declared(Term, __file__, "taxonomy.json")
TASKS = (("dialogue", _("Dialogue")), ("report", _("Case report")))
FACET_FIELDS = ()  # the fields of a sample's content that `facets` reads
MULTIMODAL = "B3"  # only for records with an image or structured data


def subtypes(terms: Iterable[Term]) -> dict[str, Term]:
    """The terms that a trap can have, by code: those with a parent.

    A cluster by itself is too general to plant.
    """
    return {term.code: term for term in terms if term.parent}


def facets(
    task: str,  # noqa: ARG001
    traps: list[str],
    terms: tuple[Term, ...],
    content: Mapping[str, Any],  # noqa: ARG001
) -> dict[str, list[str]]:
    """The clusters and subtypes under which a rubric with these traps is counted.

    Each is listed once, in the taxonomy's order. The data set (dialogue, report) is not a facet: it
    is the sample's task.

    Raises:
        UnknownTerm: a code is not a subtype in `terms`.
    """
    known = subtypes(terms)
    check_codes(traps, known)
    chosen = [term for code, term in known.items() if code in traps]
    return {"cluster": list(dict.fromkeys(term.parent for term in chosen)), "subtype": [term.code for term in chosen]}
