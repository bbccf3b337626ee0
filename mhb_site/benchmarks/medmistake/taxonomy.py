"""MedMistake's categories (the 29 that the paper names), and the values by which its samples are counted."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Term
from mhb_site.benchmarks.medmistake.replicating import SAMPLE_FIELDS, sample_facets

NAMES: tuple[str, ...] = (
    _("adaptive dialogue"),
    _("alternative treatment options"),
    _("clinical reasoning"),
    _("communication"),
    _("contextual awareness"),
    _("differential diagnosis"),
    _("ethical practice"),
    _("final diagnosis"),
    _("first-line treatment recommendation"),
    _("interaction efficiency"),
    _("lifestyle influences"),
    _("lifestyle recommendation"),
    _("lifestyle tracking"),
    _("medical knowledge"),
    _("medication management"),
    _("medication safety"),
    _("medication selection"),
    _("medication-related communication"),
    _("model reliability"),
    _("non-pharmacologic advice"),
    _("operational competence"),
    _("patient care"),
    _("real-world impact"),
    _("review of symptoms"),
    _("screening eligibility"),
    _("symptom interpretation"),
    _("test interpretation"),
    _("test selection"),
    _("treatment contraindications"),
)


def code_of(name: str) -> str:
    """The code of a category: its name with hyphens."""
    return name.strip().casefold().replace(" ", "-")


TERMS: tuple[Term, ...] = tuple(Term(code_of(name), name) for name in NAMES)
FACET_FIELDS = SAMPLE_FIELDS


def facets(task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]) -> dict[str, list[str]]:  # noqa: ARG001
    """The category, the model's rating of the risk, the doctor's model, the targets, and whether one repeated the mistake."""
    return {"category": list(traps), **sample_facets(content)}
