"""ClinHallu's three stages of reasoning, in our own words, and the facets of a sample."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.common.declared import read_declared
from generation.recipes.recipe import Term, check_codes

TERMS = read_declared(Term, __file__, "taxonomy.json")
TASKS = (
    ("vqa-rad", "VQA-RAD"),
    ("pathvqa", "PathVQA"),
    ("medframeqa", "MedFrameQA"),
    ("medxpertqa", "MedXpertQA"),
)
CODE_OF = {"visual": "V", "knowledge": "K", "reasoning": "R"}
# The fields of a sample's content that `facets` reads.
FACET_FIELDS = ("question_type", "body_system", "split", "images")


def facets(task: str, traps: list[str], terms: tuple[Term, ...], content: Mapping[str, Any]) -> dict[str, list[str]]:  # noqa: ARG001
    """The question type, body system, split and number of images of a sample.

    Its data set is not a facet: it is the sample's task.

    Raises:
        UnknownTerm: a code is not in `terms`.
    """
    check_codes(traps, [term.code for term in terms])
    # Reports show these names as they are: each data set has its own body systems, so values have no
    # labels.
    fields = {"question_type": "question_type", _("body system"): "body_system", _("split"): "split"}
    values: dict[str, list[str]] = {}
    for name, field in fields.items():
        values[name] = []
        if content.get(field):
            values[name].append(str(content[field]))
    values["images"] = ["one"]
    if len(content.get("images", ())) > 1:
        values["images"] = ["several"]
    return values
