"""MedMistake's categories (the 29 that the paper names) and the facets of a sample."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.recipe import Term
from review.rules.blocks import Level

# The paper names the levels and does not define them. Prompts and review form share these words.
RISKS = (
    Level("low", _("Low"), _("discomfort or delay, without harm")),
    Level("medium", _("Medium"), _("harm that passes, or that needs treatment or another visit")),
    Level("high", _("High"), _("lasting harm, or admission to hospital")),
    Level("critical", _("Critical"), _("death, or permanent severe disability")),
)
# The names are the paper's, the definitions ours; a code is the name with hyphens.
TERMS = read_declared(Term, __file__, "taxonomy.json")
TASKS = (("single-shot", _("Single-shot scenario")),)
NAMES = tuple(term.label for term in TERMS)
FACET_FIELDS = ("mistake", "doctor", "targets", "replicated")


def code_of(name: str) -> str:
    """The code of a category: its name in lower case, with hyphens."""
    return name.strip().casefold().replace(" ", "-")


def facets(task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]) -> dict[str, list[str]]:  # noqa: ARG001
    """The facets of a sample.

    They are the category, the risk as rated by the model (the physicians' rating is the severity),
    the model that made the mistake, the targets by which the scenario was chosen, and whether any
    of them repeated the mistake.
    """
    replicated = "no"
    if content.get("replicated"):
        replicated = "yes"
    return {
        "category": list(traps),
        "risk": _present([content["mistake"].get("risk", "")]),
        "doctor": _present([content.get("doctor", "")]),
        "target": _present(content.get("targets", ())),
        "replicated": [replicated],
    }


def _present(values: Iterable[str]) -> list[str]:
    return [value[:100] for value in values if value]
