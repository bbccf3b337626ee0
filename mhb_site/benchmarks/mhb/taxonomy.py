"""MHB's taxonomy of hallucination traps (Table 1: 5 clusters, 14 subtypes), in our own words."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Term, check_codes

TERMS: tuple[Term, ...] = (
    Term("A", _("Factual Discrepancy"), definition=_("Content that is demonstrably false.")),
    Term(
        "A1",
        _("Non-existent Entity"),
        "A",
        _("A drug, disease, test, device or scale that does not exist is treated as real."),
    ),
    Term(
        "A2",
        _("Input Contradiction"),
        "A",
        _("A statement contradicts a fact stated in the conversation or report itself."),
    ),
    Term(
        "A3",
        _("Incorrect Factual Claim"),
        "A",
        _(
            "An established clinical fact is misstated, such as an indication, a mechanism, a risk or a "
            "property of a test."
        ),
    ),
    Term(
        "A4",
        _("Memory Distortion"),
        "A",
        _("Real medical knowledge is recalled incorrectly, especially a number: a dose, an interval or a threshold."),
    ),
    Term(
        "A5",
        _("Research Fabrication"),
        "A",
        _("A clinical study is made up, or a real study is credited with findings that it did not report."),
    ),
    Term("B", _("Cognitive Inconsistency"), definition=_("Connections that are not logically sound.")),
    Term(
        "B1",
        _("Bias Reinforcement"),
        "B",
        _("A clinical judgment is based on age, sex, origin, income or culture, although these cannot support it."),
    ),
    Term(
        "B2",
        _("Amalgamation Error"),
        "B",
        _(
            "Unrelated medical concepts, or information about different people, are merged into one "
            "account that makes no sense."
        ),
    ),
    Term(
        "B3",
        _("Multimodal Integration Failure"),
        "B",
        _(
            "Text, numbers, images or recordings are combined incorrectly, or something is relied on that "
            "was never provided."
        ),
    ),
    Term(
        "C", _("Diagnostic Reasoning"), definition=_("Clinical reasoning that leads to a wrong or unsafe conclusion.")
    ),
    Term(
        "C1",
        _("Illogical Inference"),
        "C",
        _("A conclusion about diagnosis or treatment does not follow, or skips a step that it needs."),
    ),
    Term(
        "C2",
        _("Unsafe Recommendation"),
        "C",
        _("A recommended action is dangerous, premature or unsuitable for this patient."),
    ),
    Term(
        "C3",
        _("Diagnostic Misinterpretation"),
        "C",
        _("A sign, symptom or test result is misinterpreted, and a wrong diagnosis follows."),
    ),
    Term("D", _("Procedural Error"), definition=_("Workflows, procedures or sources that are made up.")),
    Term(
        "D1",
        _("Procedural Invention"),
        "D",
        _("A step in a procedure or clinical workflow, or an event during it, is made up."),
    ),
    Term(
        "D2",
        _("Source Fabrication"),
        "D",
        _("A guideline, publication or authority that does not exist is cited to make a claim credible."),
    ),
    Term("E", _("Temporal Obsolescence"), definition=_("Knowledge that was once standard but no longer is.")),
    Term(
        "E1",
        _("Outdated Knowledge"),
        "E",
        _("A treatment, test or guideline that has been abandoned or superseded is presented as current."),
    ),
)

FACET_FIELDS = ()  # the fields of a sample's content that `facets` reads


MULTIMODAL = "B3"  # only for records with an image


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
