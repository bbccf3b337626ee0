"""MHB's taxonomy of hallucination traps (the paper's Table 1: five clusters, 14 subtypes), in our own words."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import Term

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
        _("Something is asserted that contradicts a fact stated in the conversation or report itself."),
    ),
    Term(
        "A3",
        _("Incorrect Factual Claim"),
        "A",
        _("An established clinical fact is misstated: an indication, a mechanism, a risk, a property of a test."),
    ),
    Term(
        "A4",
        _("Memory Distortion"),
        "A",
        _("Something real is recalled wrongly, above all a figure: a dose, an interval, a threshold."),
    ),
    Term(
        "A5",
        _("Research Fabrication"),
        "A",
        _("A clinical study is made up, or a real one is credited with findings that it does not have."),
    ),
    Term("B", _("Cognitive Inconsistency"), definition=_("Connections that do not hold together.")),
    Term(
        "B1",
        _("Bias Reinforcement"),
        "B",
        _("Age, sex, origin, income or culture is made to carry a clinical judgment that it cannot carry."),
    ),
    Term(
        "B2",
        _("Amalgamation Error"),
        "B",
        _("Unrelated concepts, or the data of different people, are merged into one account that makes no sense."),
    ),
    Term(
        "B3",
        _("Multimodal Integration Failure"),
        "B",
        _("Text, figures, images or recordings are combined wrongly, or one is relied on that was never there."),
    ),
    Term("C", _("Diagnostic Reasoning"), definition=_("Clinical reasoning that leads to a wrong or unsafe end.")),
    Term(
        "C1",
        _("Illogical Inference"),
        "C",
        _("A conclusion on diagnosis or treatment is drawn that does not follow, or skips what it would need."),
    ),
    Term(
        "C2",
        _("Unsafe Recommendation"),
        "C",
        _("A step is recommended that is dangerous, premature or unsuitable for this patient."),
    ),
    Term(
        "C3",
        _("Diagnostic Misinterpretation"),
        "C",
        _("A sign, symptom or test result is taken to mean what it does not mean, and a wrong diagnosis follows."),
    ),
    Term("D", _("Procedural Error"), definition=_("Workflows, procedures or sources that were made up.")),
    Term(
        "D1",
        _("Procedural Invention"),
        "D",
        _("A step of a procedure or clinical workflow, or an event in its course, is invented."),
    ),
    Term(
        "D2",
        _("Source Fabrication"),
        "D",
        _("A guideline, publication or authority that does not exist is cited to make a claim credible."),
    ),
    Term("E", _("Temporal Obsolescence"), definition=_("Knowledge that was once standard and no longer is.")),
    Term(
        "E1",
        _("Outdated Knowledge"),
        "E",
        _("A treatment, test or guideline is presented as current that has been abandoned or superseded."),
    ),
)


class UnknownTrap(LookupError):
    """This trap type is not in the taxonomy."""

    permanent = True

    def __init__(self, code: str, known: Iterable[str]) -> None:
        super().__init__(f"{(self.__doc__ or '').strip()} {code!r}; known: {', '.join(known)}.")


def subtypes(terms: Iterable[Term]) -> dict[str, Term]:
    """The terms that a trap can be of, by code: those with a parent. A cluster alone says too little to plant."""
    return {term.code: term for term in terms if term.parent}


def facets(
    task: str,  # noqa: ARG001
    traps: list[str],
    terms: tuple[Term, ...],
    content: Mapping[str, Any],  # noqa: ARG001
) -> dict[str, list[str]]:
    """Under which clusters and subtypes one rubric tied to `traps` is counted, each once, in the taxonomy's order.

    The data set (dialogue, report) is not among them: it is the sample's task.

    Raises:
        UnknownTrap: a code that is none of the subtypes in `terms`.
    """
    known = subtypes(terms)
    for code in traps:
        if code not in known:
            raise UnknownTrap(code, known)
    chosen = [term for code, term in known.items() if code in traps]
    return {"cluster": list(dict.fromkeys(term.parent for term in chosen)), "subtype": [term.code for term in chosen]}
