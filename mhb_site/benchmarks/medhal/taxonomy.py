"""The facets of MedHal's statements: their source and the length of their context. No traps."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Term

TERMS: tuple[Term, ...] = ()
TASKS = (
    ("qa", _("Question answering")),
    ("ie", _("Information extraction")),
    ("nli", _("Natural language inference")),
    ("summarization", _("Summarization")),
    ("mednli", _("MedNLI test set")),
    ("mimic-di", "Hallucinations-MIMIC-DI"),
)
SOURCES = (
    ("medmcqa", "MedMCQA"),
    ("medqa", "MedQA"),
    ("mednli", "MedNLI"),
    ("acn", _("Augmented clinical notes")),
    ("sumpubmed", "SumPubMed"),
    ("mimic-di", "Hallucinations-MIMIC-DI"),
)
LENGTHS = (
    ("none", _("No context")),
    ("short", _("Below 1,000 characters")),
    ("medium", _("1,000 to 9,999 characters")),
    ("long", _("10,000 to 29,999 characters")),
    ("longest", _("30,000 characters and more")),
)
_LENGTH_LIMITS = ((1, "none"), (1_000, "short"), (10_000, "medium"), (30_000, "long"))
# `length` is stored in the content, so that counting a million samples does not read their
# contexts.
FACET_FIELDS = ("source", _("label"), "length")


def length_of(context: str) -> str:
    """The length class of a context, stored as `content["length"]` of a sample."""
    for limit, name in _LENGTH_LIMITS:
        if len(context) < limit:
            return name
    return "longest"


def facets(task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]) -> dict[str, list[str]]:  # noqa: ARG001
    """The source, label and length class of a statement; unknown ones are left out."""
    return {name: [content[name]] for name in FACET_FIELDS if content.get(name)}
