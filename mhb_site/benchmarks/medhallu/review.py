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
from review.rules.questions import Choice, Question, Reason

# No rubrics: the only one is the same for all samples.
FORM = folder_form(__package__)
# A published sample cannot be rewritten, so any rejection discards it.
PUBLISHED_FORM = replace(FORM, reasons=tuple(replace(reason, reducible=False) for reason in FORM.reasons))


# Asked of samples whose true answer the generator reworded: the pair is worthless if it no longer
# says the same.
SAME_MEANING = Question(
    key="same",
    label=_("Does the reworded true answer say the same?"),
    choices=(
        Choice("yes", _("Yes, the same")),
        Choice("no", _("No, or not certain"), blocks=True),
    ),
    help=_(
        "Compare it with the true answer in the words of the article. It must claim nothing more, nothing less, and with the"
        " same certainty."
    ),
    shows=(_("The reworded true answer, with its differences from the article's"),),
)
REWORDED_FORM = replace(
    FORM,
    questions=(SAME_MEANING, *FORM.questions),
    reasons=(Reason("truth-changed", _("The reworded true answer says something else"), reducible=True), *FORM.reasons),
)


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `recipe.sample` documents it."""
    form = FORM
    if sample.provenance.get("origin") == "published":
        form = PUBLISHED_FORM
    if "truth_source" in sample.content:
        form = REWORDED_FORM
    shown = tuple(_blocks(sample.content))
    return CaseSpec.of(
        sample, "medhallu", lineage, version, blocks=shown, form=form, policy=review_policy(sample.provenance)
    )


def _blocks(content: Any) -> Sequence[Block]:
    labels = {term.code: term.label for term in TERMS}
    category = content["category"]
    return (
        Text(_("Question"), content["question"], tone="question"),
        *_true_answer(content),
        *(Text(_("Article passage"), passage) for passage in content["knowledge"]),
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


def _true_answer(content: Any) -> Sequence[Block]:
    if "truth_source" not in content:
        return (Text(_("The true answer"), content["truth"]),)
    return (
        Text(_("The true answer, in the words of the article"), content["truth_source"]),
        Diff(
            _("The reworded true answer, with its differences from the article's"),
            (Turn(_("Answer"), content["truth_source"]),),
            (Turn(_("Answer"), content["truth"]),),
        ),
    )
