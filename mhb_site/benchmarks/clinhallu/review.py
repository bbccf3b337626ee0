"""The review form of ClinHallu. Ours: in the paper, people check only the judges."""

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import NewSample
from mhb_site.benchmarks.clinhallu.judging import true_answer
from review.rules.blocks import Block, Images, Picture, Table, Text
from review.rules.case_spec import CaseSpec
from review.rules.questions import Choice, Form, HighlightLabel, Question, Reason
from review.rules.state_machine import Policy

_STAGE_CHOICES = (
    Choice("supported", _("Supported")),
    Choice("unsupported", _("Not supported"), blocks=True),
)
# `corrections.LABELS` looks for the first words of these labels in the reasons of a rejection.
QUESTIONS = (
    Question(
        "visual",
        _("Visual recognition"),
        _(
            "Does the image show everything that the visual recognition states? If not, highlight where, and say what is "
            "wrong. If you know the right text of the whole stage, write it after “Corrected:”. It becomes the next version."
        ),
        _STAGE_CHOICES,
    ),
    Question(
        "knowledge",
        _("Knowledge recall"),
        _(
            "Is the recalled knowledge true, and does the question need it? If not, highlight where, and say what is wrong. "
            "You can write the right text of the whole stage after “Corrected:”."
        ),
        _STAGE_CHOICES,
    ),
    Question(
        "reasoning",
        _("Reasoning"),
        _(
            "Does the reasoning follow from findings and knowledge, without contradicting them? If not, highlight where, and "
            "say what is wrong. You can write the right text of the whole stage after “Corrected:”."
        ),
        _STAGE_CHOICES,
    ),
    Question(
        "answer",
        _("Answer"),
        _("Is the true answer of the data set right for this image, and is the answer of the trace the same?"),
        (Choice("right", _("Right")), Choice("wrong", _("Wrong, or not certain"), blocks=True)),
    ),
)

# An admin's form may reword these questions but not drop them: released samples make these claims.
LOCKED = {
    "visual": _("a released sample claims that its visual recognition is supported."),
    "knowledge": _("a released sample claims that its knowledge is true."),
    "reasoning": _("a released sample claims that its reasoning is sound."),
    "answer": _("accuracy is measured against the answer."),
}
REASONS = (
    Reason("stage", _("A stage of the trace is not supported"), reducible=True),
    Reason("answer", _("The true answer is wrong or disputed"), reducible=False),
    Reason("image", _("The image cannot be judged or does not fit the question"), reducible=False),
    Reason("question", _("The question is unsuitable"), reducible=False),
)
DISSENTS = (
    Reason("misread", _("The first reviewer misread the image or the trace"), reducible=True),
    Reason("evidence", _("The image supports the trace"), reducible=True),
    Reason("disagreement", _("Medical experts genuinely disagree"), reducible=False),
)
LABELS = (HighlightLabel("unsupported", _("Not supported")),)


def policy(sample: NewSample) -> Policy:
    """The review policy: two physicians or one for a sample drawn for review, else none."""
    if sample.made.get("review") == "not sampled":
        return Policy(primary=False, secondary=False)
    return Policy(secondary=sample.made.get("reviewers") != "one")


def case(sample: NewSample, lineage: str, version: int) -> CaseSpec:
    """The case for one version of a sample. `content` is as `recipe.sample` documents it."""
    return CaseSpec(
        benchmark="clinhallu",
        lineage=lineage,
        version=version,
        title=sample.title,
        task=sample.task,
        blocks=tuple(blocks(sample.content)),
        form=Form(QUESTIONS, reasons=REASONS, dissents=DISSENTS, labels=LABELS),
        policy=policy(sample),
        language=sample.language,
        specialty=sample.specialty,
    )


def blocks(content: Any) -> Sequence[Block]:
    """The blocks of a case: images, question, options, answer, and the reference trace's stages."""
    trace, question = content["trace"], content["question"]
    case_blocks: list[Block] = [images(content), Text(_("Question"), question, tone="question")]
    if content["options"]:
        rows = tuple((letter, text) for letter, text in content["options"])
        case_blocks.append(Table(_("Options"), (_("Letter"), _("Option")), rows))
    case_blocks += [
        Text(_("True answer"), true_answer(content)),
        Text(_("Visual recognition"), trace["visual"]),
        Text(_("Knowledge recall"), trace["knowledge"]),
        Text(_("Reasoning"), trace["reasoning"]),
        Text(_("Answer of the trace"), trace["answer"]),
    ]
    return case_blocks


def images(content: Any) -> Images:
    """The images, with the question as alternative text: a description would answer it."""
    many = len(content["images"]) > 1
    return Images(
        _("Images") if many else _("Image"),
        tuple(Picture(sha256, content["question"]) for sha256 in content["images"]),
    )
