"""The review form of MedHallu. Ours: the paper has no review by physicians."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import review_policy
from mhb_site.benchmarks.medhallu.taxonomy import TERMS
from review.forms.design import folder_form
from review.rules.blocks import Block, Diff, Table, Text, Turn
from review.rules.case_spec import CaseSpec

# No rubrics: the only one is the same for all samples.
FORM = folder_form(__package__)
# A published sample cannot be rewritten, so any rejection discards it.
PUBLISHED_FORM = replace(FORM, reasons=tuple(replace(reason, reducible=False) for reason in FORM.reasons))


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `recipe.sample` documents it."""
    form = PUBLISHED_FORM if sample.provenance.get("origin") == "published" else FORM
    shown = tuple(_blocks(sample.content))
    return CaseSpec.of(
        sample, "medhallu", lineage, version, blocks=shown, form=form, policy=review_policy(sample.provenance)
    )


def _blocks(content: Any) -> Sequence[Block]:
    labels = {term.code: term.label for term in TERMS}
    category = content["category"]
    return (
        Text(_("Question"), content["question"], tone="question"),
        *(Text(_("Article passage"), passage) for passage in content["knowledge"]),
        Text(_("The true answer"), content["truth"]),
        Diff(
            _("The hallucinated answer, with its differences from the true answer"),
            (Turn(_("Answer"), content["truth"]),),
            (Turn(_("Answer"), content["hallucinated"]),),
        ),
        Table(
            _("Error in the hallucinated answer"),
            (_("Code"), _("Category"), _("Justification")),
            ((category, labels.get(category, ""), content["justification"]),),
            tone="trap",
        ),
    )
