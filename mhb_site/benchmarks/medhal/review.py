"""The review form of MedHal (MHL-8): is the statement's label right, and if not, why?"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import SAMPLED_FOR_REVIEW
from review.rules.blocks import Block, Table, Text
from review.rules.case_spec import CaseSpec
from review.rules.questions import Choice, Form, Question, Reason
from review.rules.state_machine import Policy

QUESTIONS = (
    Question(
        "label",
        _("Is the label right?"),
        _(
            "A statement is factual if the context supports every piece of information in it; without a context, if all of it "
            "is established medical knowledge. It is not factual as soon as one piece is wrong, or is not in the context."
        ),
        (Choice("yes", _("Yes, the label is right")), Choice("no", _("No, the label is wrong"), blocks=True)),
    ),
    Question(
        "statement",
        _("Is it a statement that can be judged?"),
        _("It says one thing clearly, and the statement or its context contains everything needed to judge it."),
        (Choice("yes", _("Yes")), Choice("no", _("No, unclear or incomplete"), blocks=True)),
    ),
)

# An admin's form may reword this question but not drop it: released samples make this claim.
LOCKED = {
    "label": _("a released statement claims that its label is right, and the share of valid statements is based on it.")
}

# Reasons for rejection. A statement is not generated again: its pair is left out of releases.
REASONS = (
    Reason("supported", _("Called non-factual, but the context supports it or it is true"), reducible=False),
    Reason("unsupported", _("Called factual, but the context does not support it or it is false"), reducible=False),
    Reason("overgeneral", _("Called factual, but it claims more than the context does"), reducible=False),
    Reason("unclear", _("The statement is unclear, or says more than one thing"), reducible=False),
    Reason("context", _("The context lacks information needed to judge it"), reducible=False),
)
DISSENTS = (
    Reason("misread", _("The first reviewer misread the statement or the context"), reducible=False),
    Reason("knowledge", _("Medical knowledge supports the label"), reducible=False),
    Reason("disagreement", _("Medical experts genuinely disagree"), reducible=False),
)
LABELS = {"factual": _("factual"), "non-factual": _("non-factual")}
MAX_CONTEXT = 60_000  # characters of a context; longer than anyone can read, it would only fill the audit trail


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one statement. `content` is as `recipe.sample` documents it."""
    is_sampled = sample.made.get("review") == SAMPLED_FOR_REVIEW
    return CaseSpec(
        benchmark="medhal",
        lineage=lineage,
        version=version,
        title=sample.title,
        task=sample.task,
        # A case that nobody reviews has no context: a million copies of contexts would be stored.
        blocks=tuple(_blocks(sample.content, with_context=is_sampled)),
        form=Form(QUESTIONS, reasons=REASONS, dissents=DISSENTS),
        policy=Policy(primary=is_sampled, secondary=is_sampled and sample.made.get("reviewers") != "one"),
        language=sample.language,
        specialty=sample.specialty,
    )


def _blocks(content: Mapping[str, Any], *, with_context: bool) -> Sequence[Block]:
    blocks: list[Block] = []
    if with_context and content["context"]:
        blocks.append(Text(_("Context"), str(content["context"])[:MAX_CONTEXT]))
    blocks.append(Text(_("Statement"), content["statement"], tone="question"))
    rows = ((LABELS[content["label"]], content["explanation"]),)
    blocks.append(Table(_("Label"), (_("Label"), _("Explanation")), rows))
    return blocks
