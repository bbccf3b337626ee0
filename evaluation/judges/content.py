"""Validation cases: what a judge was given of an answer and the criteria, as physicians see it.

A case never shows the model, the judge or the verdict.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from django.utils.translation import gettext_noop as _

from evaluation.judges.numbers.validation import MET, NOT_MET, UNCLEAR
from generation.llm.types import DIGEST_PREFIX, STORED_IMAGE, Message
from review.rules.blocks import Block, Dialogue, Image, Images, Picture, Text, Turn
from review.rules.case_spec import CaseSpec
from review.rules.questions import Choice, Form, Question
from review.rules.state_machine import Policy

CHOICES = (Choice(MET, _("Met")), Choice(NOT_MET, _("Not met")), Choice(UNCLEAR, _("Cannot tell")))
SPEAKERS = {"user": _("User"), "assistant": _("Assistant"), "system": _("Instructions")}
# Two physicians answer independently. If they differ, a third decides without seeing their answers.
POLICY = Policy(
    secondary_confirms=False, inadequate_rejects=False, discussion=False, adjudicators_blind=True, third_decides=True
)
KEY_PREFIX = "criterion-"  # of question keys; the primary key of the rubric follows
ANSWER_LABEL = _("The answer to judge")
INLINE_IMAGES = ("data:image/png;base64,", "data:image/jpeg;base64,")


@dataclass(frozen=True, slots=True)
class CaseContent:
    """A response with its question and criteria.

    `criteria`: (primary key of the rubric, its text), in the order of the release.
    `about`: the text alternative of images; default: the title.
    """

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
    judged_page: Sequence[Block] = ()  # what the judge was given, in the benchmark's own blocks
    senior_decides: bool = False  # the third physician is a senior one


def case_spec(content: CaseContent, lineage: str) -> CaseSpec:
    """The validation case of one response."""
    return CaseSpec(
        benchmark=content.benchmark,
        lineage=lineage,
        version=1,
        title=content.title,
        task=content.task,
        blocks=tuple(content.judged_page) or _question_and_answer(content),
        form=Form(tuple(_questions(content.criteria)), asks_verdict=False),
        policy=replace(POLICY, senior_decides=content.senior_decides),
        language=content.language,
        specialty=content.specialty,
        simulated=content.simulated,
    )


def _question_and_answer(content: CaseContent) -> tuple[Block, ...]:
    asked = _question_blocks(content.asked, content.about or content.title)
    return (*asked, Text(ANSWER_LABEL, content.text))


def rubric_pk(key: str) -> int:
    """The primary key of the rubric behind the question with this key."""
    return int(key.removeprefix(KEY_PREFIX))


def _questions(criteria: Iterable[tuple[int, str]]) -> Iterator[Question]:
    """A question for each criterion; the first says how to decide."""
    help_text = _(
        "Decide as the judge had to: by the rule, if the page has one, and by what the answer says. Choose Cannot tell if "
        "the answer or the criterion leaves it open."
    )
    for pk, text in criteria:
        yield Question(f"{KEY_PREFIX}{pk}", _("Criterion"), help_text, CHOICES, asks=text)
        help_text = ""


def stored_images(messages: Sequence[Message], about: str) -> Images | None:
    """A block of the stored images in the messages; `about` is their text alternative."""
    pictures = []
    for url in dict.fromkeys(_image_urls(messages)):
        if STORED_IMAGE.fullmatch(url):
            pictures.append(Picture(url.removeprefix(DIGEST_PREFIX), about))
    if not pictures:
        return None
    return Images(_("Images"), tuple(pictures))


def _image_urls(messages: Sequence[Message]) -> list[str]:
    urls: list[str] = []
    for message in messages:
        urls += [image.url for image in message.images]
    return urls


def _question_blocks(messages: Sequence[Message], about: str) -> list[Block]:
    image_blocks: list[Block] = []
    for url in _image_urls(messages):
        if url.startswith(INLINE_IMAGES):
            image_blocks.append(Image(_("Image"), url, _("An image that the model was shown")))
    if stored := stored_images(messages, about):
        image_blocks.append(stored)
    if len(messages) == 1:
        return [Text(_("What the model was asked"), messages[0].text), *image_blocks]
    turns = [Turn(SPEAKERS[message.role], message.text) for message in messages]
    return [Dialogue(_("The conversation"), tuple(turns)), *image_blocks]
