"""The review form of MedHal: is the statement's label right, and if not, why?"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import SAMPLED_FOR_REVIEW
from review.forms.design import folder_form
from review.rules.blocks import Block, Table, Text
from review.rules.case_spec import CaseSpec
from review.rules.state_machine import Policy

# A statement is not generated again: a rejected one and its pair are left out of releases.
FORM = folder_form(__package__)
LABELS = {"factual": _("factual"), "non-factual": _("non-factual")}
MAX_CONTEXT = 60_000  # characters of a context; longer than anyone can read, it would only fill the audit trail


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one statement. `content` is as `recipe.sample` documents it."""
    is_sampled = sample.provenance.get("review") == SAMPLED_FOR_REVIEW
    policy = Policy(primary=is_sampled, secondary=is_sampled and sample.provenance.get("reviewers") != "one")
    # A case that nobody reviews has no context: a million copies of contexts would be stored.
    shown = tuple(_blocks(sample.content, with_context=is_sampled))
    return CaseSpec.of(sample, "medhal", lineage, version, blocks=shown, form=FORM, policy=policy)


def _blocks(content: Mapping[str, Any], *, with_context: bool) -> Sequence[Block]:
    blocks: list[Block] = []
    if with_context and content["context"]:
        blocks.append(Text(_("Context"), str(content["context"])[:MAX_CONTEXT]))
    blocks.append(Text(_("Statement"), content["statement"], tone="question"))
    rows = ((LABELS[content["label"]], content["explanation"]),)
    blocks.append(Table(_("Label"), (_("Label"), _("Explanation")), rows))
    return blocks
