"""A model's answer as a case for physicians: what was asked, the answer, and each criterion. No model, no judge, no verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_noop as _

from generation.llm.types import DIGEST, STORED, Message
from review.rules.blocks import Block, Dialogue, Image, Images, Picture, Text, Turn
from review.rules.case_spec import CaseSpec
from review.rules.questions import Choice, Form, Question
from review.rules.state_machine import Policy

MET, NOT_MET, UNCLEAR = "met", "not-met", "unclear"
CHOICES = (Choice(MET, _("Met")), Choice(NOT_MET, _("Not met")), Choice(UNCLEAR, _("Cannot tell")))
SPEAKERS = {"user": _("User"), "assistant": _("Assistant"), "system": _("Instructions")}
# Two answer independently, a third where they differ; the third has not seen what the two said.
POLICY = Policy(
    secondary_confirms=False, inadequate_rejects=False, discussion=False, adjudicators_blind=True, third_decides=True
)
PREFIX = "criterion-"  # of a question's key, before the rubric's number
SHOWN_IMAGES = ("data:image/png;base64,", "data:image/jpeg;base64,")


@dataclass(frozen=True, slots=True)
class Answered:
    """A response and what it answers. `criteria`: (number of the rubric, its text), in the order of the release. `about`: what
    its images are about."""

    benchmark: str
    task: str
    title: str
    language: str
    specialty: str
    asked: Sequence[Message]
    text: str
    criteria: Sequence[tuple[int, str]]
    simulated: bool
    about: str = ""


def case_spec(answered: Answered, lineage: str) -> CaseSpec:
    """The case of one response."""
    return CaseSpec(
        benchmark=answered.benchmark,
        lineage=lineage,
        version=1,
        title=answered.title,
        task=answered.task,
        blocks=(
            *_asked(answered.asked, answered.about or answered.title),
            Text(_("The answer to judge"), answered.text),
        ),
        form=Form(
            tuple(_question(pk, text, at) for at, (pk, text) in enumerate(answered.criteria)), asks_verdict=False
        ),
        policy=POLICY,
        language=answered.language,
        specialty=answered.specialty,
        simulated=answered.simulated,
    )


def rubric_of(key: str) -> int:
    """The number of the rubric that a question is about."""
    return int(key.removeprefix(PREFIX))


def _question(pk: int, text: str, at: int) -> Question:
    help_text = _(
        "Decide from the answer alone whether it meets the criterion as it is worded. Choose Cannot tell if the answer "
        "or the criterion leaves it open."
    )
    return Question(f"{PREFIX}{pk}", _("Criterion"), "" if at else help_text, CHOICES, asks=text)


def kept_images(messages: Sequence[Message], about: str) -> Images | None:
    """The kept images that a model was shown, in a block; `about`: their text alternative."""
    urls = dict.fromkeys(image.url for message in messages for image in message.images)
    pictures = tuple(Picture(url.removeprefix(DIGEST), about) for url in urls if STORED.fullmatch(url))
    return Images(_("Images"), pictures) if pictures else None


def _asked(messages: Sequence[Message], about: str) -> list[Block]:
    images = [image.url for message in messages for image in message.images]
    shown: list[Block] = [
        Image(_("Image"), url, _("An image that the model was shown")) for url in images if url.startswith(SHOWN_IMAGES)
    ]
    if kept := kept_images(messages, about):
        shown.append(kept)
    if len(messages) == 1:
        return [Text(_("What the model was asked"), messages[0].text), *shown]
    turns = tuple(Turn(SPEAKERS[message.role], message.text) for message in messages)
    return [Dialogue(_("The conversation"), turns), *shown]
