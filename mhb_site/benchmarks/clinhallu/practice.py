"""The practice case of the tour: reference traces, an example of each stage, and a drawn sample."""

import io
from dataclasses import replace
from functools import cache

from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_noop as _

from generation.llm.types import data_url
from generation.recipes.recipe import NewSample
from mhb_site.benchmarks.clinhallu import review
from mhb_site.benchmarks.clinhallu.taxonomy import TERMS
from review.calibration.practice import Kind, Practice
from review.rules.blocks import Image
from review.rules.questions import Answer, Answers

EXAMPLES = {
    "V": _("“There is a bright spot in the left field.” The image shows it in the right one."),
    "K": _("“Fluid is dark in T2-weighted images.” It is bright."),
    "R": _("“Both fields are clear, so the answer is yes.” The question asks for a spot."),
}


def practice() -> Practice:
    """The practice page, in the reader's language, with its case."""
    question = gettext("Is there a bright spot in the image?")
    spec = review.case(_sample(question), "practice", 1)
    shown = Image(_("Image"), _image(), question)  # not stored: sent with the page
    return Practice(
        about=(
            gettext(
                "A reference trace shows how a model reasons about an image, in three stages: what it sees, what it "
                "knows, and how both lead to the answer. Other models are measured against it."
            ),
            gettext(
                "You check that each stage is correct on its own: a right answer does not excuse a wrong observation."
            ),
        ),
        kinds=tuple(
            Kind(term.code, gettext(term.label), "", gettext(term.definition), gettext(EXAMPLES[term.code]))
            for term in TERMS
        ),
        spec=replace(spec, blocks=(shown, *spec.blocks[1:])),
        expected=Answers(
            questions={
                "visual": Answer("unsupported"),
                "knowledge": Answer("supported"),
                "reasoning": Answer("supported"),
                "answer": Answer("right"),
            },
            verdict="reject",
        ),
        why={
            "question.visual": gettext(
                "The spot is on the right side of the image, not on the left. In a real case you highlight the words, and may "
                "write the right text after “Corrected:”."
            ),
            "question.knowledge": gettext("It is true regardless of what the image shows."),
            "question.reasoning": gettext(
                "It follows from what is stated before. The error lies in the stage before it."
            ),
            "question.answer": gettext("There is a bright spot, so the answer is yes."),
            "verdict": gettext("A stage that is not supported rules out approval."),
        },
    )


@cache
def _image() -> str:
    """A drawn image with a bright spot on its right side, as a data URL."""
    from PIL import Image as Pillow
    from PIL import ImageDraw

    image = Pillow.new("L", (240, 200), 20)
    pen = ImageDraw.Draw(image)
    pen.ellipse((10, 20, 230, 180), fill=140)
    for left in (40, 140):
        pen.ellipse((left, 60, left + 60, 150), fill=90)
    pen.ellipse((160, 90, 186, 116), fill=235)
    out = io.BytesIO()
    image.save(out, "PNG")
    return data_url("image/png", out.getvalue())


def _sample(question: str) -> NewSample:
    return NewSample(
        task="vqa-rad",
        title=question,
        language=get_language() or "en",
        content={
            "question": question,
            "options": [],
            "answer": gettext("yes"),
            "letter": "",
            "images": ["0" * 64],
            "trace": {
                "visual": gettext(
                    "A schematic body with two darker fields. A bright spot lies in the field on the left."
                ),
                "knowledge": gettext("A bright spot is an area that is clearly lighter than its surroundings."),
                "reasoning": gettext(
                    "One of the fields has an area that is clearly lighter, so there is a bright spot."
                ),
                "answer": gettext("yes"),
            },
        },
        made={"reviewers": "one"},
    )
