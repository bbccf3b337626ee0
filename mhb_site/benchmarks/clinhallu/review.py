"""The review form of ClinHallu. Ours: in the paper, people check only the judges."""

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from generation.recipes.review_sampling import review_policy
from mhb_site.benchmarks.clinhallu.judging import true_answer
from mhb_site.benchmarks.clinhallu.trace_text import STAGE_LABELS
from review.forms.design import folder_form
from review.rules.blocks import Block, Image, Images, Picture, Table, Text
from review.rules.case_spec import CaseSpec

# `corrections` looks for the first words of these labels in the reasons of a rejection.
FORM = folder_form(__package__)


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `recipe.sample` documents it."""
    shown = tuple(blocks(sample.content))
    return CaseSpec.of(
        sample, "clinhallu", lineage, version, blocks=shown, form=FORM, policy=review_policy(sample.provenance)
    )


def blocks(content: Any) -> Sequence[Block]:
    """The blocks of a case: images, question, options, answer, and the reference trace's stages."""
    trace = content["trace"]
    stages = [Text(label, trace[stage]) for stage, label in STAGE_LABELS.items()]
    return [*question_blocks(content), *stages, Text(_("Answer of the trace"), trace["answer"])]


def question_blocks(content: Any) -> Sequence[Block]:
    """Images, question, options, and the true answer."""
    shown: list[Block] = [images(content), Text(_("Question"), content["question"], tone="question")]
    if content["options"]:
        rows = tuple((letter, text) for letter, text in content["options"])
        shown.append(Table(_("Options"), (_("Letter"), _("Option")), rows))
    return [*shown, Text(_("True answer"), true_answer(content))]


def images(content: Any) -> Images | Image:
    """The images, with the question as alternative text: a description would answer it.

    The practice case has its own, which is not stored.
    """
    if "picture" in content:
        return Image(_("Image"), content["picture"], content["question"])
    title = _("Image")
    if len(content["images"]) > 1:
        title = _("Images")
    return Images(title, tuple(Picture(sha256, content["question"]) for sha256 in content["images"]))
