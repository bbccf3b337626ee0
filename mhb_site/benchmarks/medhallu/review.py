"""The review form of MedHallu. Ours: the paper has no review by physicians."""

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from mhb_site.benchmarks.medhallu.taxonomy import TERMS
from review.rules.blocks import Block, Diff, Table, Text, Turn
from review.rules.case_spec import CaseSpec
from review.rules.questions import Choice, Form, HighlightLabel, Question, Reason
from review.rules.state_machine import Policy

QUESTIONS = (
    Question(
        "wrong",
        _("Is the hallucinated answer wrong?"),
        _(
            "Is it definitely and verifiably wrong as an answer to this question? You may use the true "
            "answer and the passages as a source. Cite the source that shows the error, and quote the "
            "relevant passage. The answer is not wrong if it is true in other words, if it follows from "
            "the true answer, or if experts disagree."
        ),
        (Choice("yes", _("Yes, wrong"), evidence=True), Choice("no", _("No, or not certain"), blocks=True)),
    ),
    Question(
        "plausible",
        _("Is it plausible?"),
        _(
            "Judge as someone who has not seen the true answer. 1: nonsense, or the answer gives itself "
            "away. 2: a careful reader may doubt it. 3: a quick reader would take it for the true answer."
        ),
        (
            Choice("1", _("1, obvious"), blocks=True),
            Choice("2", _("2, acceptable")),
            Choice("3", _("3, plausible")),
        ),
    ),
    Question(
        "category",
        _("Does its category fit?"),
        _(
            "Is it wrong in the way that its category describes? If several categories fit, the given one "
            "must be among them."
        ),
        (Choice("fits", _("Fits")), Choice("does-not-fit", _("Does not fit"), blocks=True)),
    ),
)

# An admin's form may reword these questions but not drop them: released samples make these claims.
LOCKED = {
    "wrong": _("a released sample claims that its answer is wrong, and its evidence comes from it."),
    "category": _("released samples and reports are counted by category."),
}

# Reasons for rejection. A published sample cannot be rewritten, so any rejection discards it.
_REASONS = (
    ("not-wrong", _("The answer is not wrong"), True),
    ("implausible", _("The answer is not plausible"), True),
    ("category", _("The category does not fit"), True),
    ("wording", _("Wording or length gives the answer away"), True),
    ("disagreement", _("Medical experts genuinely disagree"), False),
    ("source", _("The question or its true answer is unsuitable"), False),
)
LABELS = (HighlightLabel("false", _("False claim")), HighlightLabel("hint", _("Hint")))
DISSENTS = (
    Reason("misread", _("The first reviewer misread the answer or the passages"), reducible=True),
    Reason("evidence", _("The evidence supports the sample"), reducible=True),
    Reason("disagreement", _("Medical experts genuinely disagree"), reducible=False),
)


def policy(sample: NewSample) -> Policy:
    """The review policy by the sample's settings: one or two physicians, or none."""
    if sample.made.get("review") == "not sampled":
        return Policy(primary=False, secondary=False)
    return Policy(secondary=sample.made.get("reviewers") == "two")


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `recipe.sample` documents it."""
    published = sample.made.get("origin") == "published"
    return CaseSpec(
        benchmark="medhallu",
        lineage=lineage,
        version=version,
        title=sample.title,
        task=sample.task,
        blocks=tuple(_blocks(sample.content)),
        form=Form(
            QUESTIONS,
            # No rubrics: the only one is the same for all samples.
            reasons=tuple(Reason(code, label, again and not published) for code, label, again in _REASONS),
            dissents=DISSENTS,
            labels=LABELS,
        ),
        policy=policy(sample),
        language=sample.language,
        specialty=sample.specialty,
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
