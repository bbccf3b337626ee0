"""One author for both answers: the generator rewords the true one under the instruction of the other.

Ours: the paper keeps the true answer as people wrote it, beside one that a model wrote, and whoever
knows how models write can tell them apart without reading the question (`generation.probes`).
Physicians confirm that the rewording says the same.
"""

from collections.abc import Sequence
from functools import partial

from generation.common.medical_text import is_same_text
from generation.llm.errors import BrokenReply
from generation.recipes.recipe import Draft, Dropped, Models, ReplyShape
from mhb_site.benchmarks.medhallu import presets
from mhb_site.benchmarks.medhallu.candidates import (
    SETS,
    case_data,
    giveaway_in,
    length_fault,
    rules,
    temperature_of,
)

SOURCE, REWORDED = "source", "reworded"  # values of the setting `truth`


class Rewording(ReplyShape):
    """The true answer in other words."""

    answer: str


def is_reworded(draft: Draft) -> bool:
    """Whether the true answer of this draft is reworded."""
    return bool(presets.settings(draft)["truth"] == REWORDED)


def check_rewording(rewording: Rewording, *, truth: str, question: str, share: float | None) -> None:
    """Raises BrokenReply with all faults, in sentences for the generator."""
    faults = []
    if not rewording.answer.strip():
        faults.append("The answer is empty.")
    elif is_same_text(rewording.answer, truth):
        faults.append("The answer is the true answer word for word: it has to be in your own words.")
    elif share is not None and (fault := length_fault(rewording.answer, truth, share)):
        faults.append(fault)
    if giveaway := giveaway_in(rewording.answer, truth, question):
        faults.append(f"The answer tells that it is a test ({giveaway!r}); nothing in it may say so.")
    BrokenReply.refuse(faults)


async def reword(draft: Draft, models: Models) -> Sequence[Draft]:
    """Reword the true answer; all later steps take the rewording for the true answer.

    Raises Dropped if no usable rewording comes: without one, the pair would have two authors.
    """
    settings, content = presets.settings(draft), draft.record.content
    original = draft.extended(truth="")
    request = SETS[draft.prompts]["reword"].request(
        {**case_data(original), "rejected": draft.rejected("truth", "truth_source")},
        rules(original),
        temperature=temperature_of(draft, 0),
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
    )
    share = settings["length"]
    check = partial(check_rewording, truth=content["answer"], question=content["question"], share=share)
    try:
        rewording = await models.ask_structured("generator", request, Rewording, check=check)
    except BrokenReply as error:
        raise Dropped(f"The true answer could not be reworded: {error.detail}") from error
    return [draft.extended(truth=rewording.answer.strip())]
