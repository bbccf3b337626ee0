"""What a physician sees and is asked about one ClinHallu sample. Ours: in the paper, people check the judges alone."""

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
# The first words of the labels are those that `corrections.LABELS` looks for in the reasons of a rejection.
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

# What a released sample claims: an admin's form may reword these questions, and not leave them out.
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
    """A sampled one is put before two physicians, or one; others before none."""
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
    """Images, question, options and answer, and the stages of the reference trace."""
    trace, question = content["trace"], content["question"]
    shown: list[Block] = [images(content), Text(_("Question"), question, tone="question")]
    if content["options"]:
        rows = tuple((letter, text) for letter, text in content["options"])
        shown.append(Table(_("Options"), (_("Letter"), _("Option")), rows))
    shown += [
        Text(_("True answer"), true_answer(content)),
        Text(_("Visual recognition"), trace["visual"]),
        Text(_("Knowledge recall"), trace["knowledge"]),
        Text(_("Reasoning"), trace["reasoning"]),
        Text(_("Answer of the trace"), trace["answer"]),
    ]
    return shown


def images(content: Any) -> Images:
    """The images of a sample, each with the question as its text alternative: what they show is what is asked."""
    many = len(content["images"]) > 1
    return Images(
        _("Images") if many else _("Image"),
        tuple(Picture(sha256, content["question"]) for sha256 in content["images"]),
    )
