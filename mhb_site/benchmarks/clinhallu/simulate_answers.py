"""ClinHallu's simulated models under test and their judge: models that see, with a known share of errors in each stage.

A model 'sees' an image by its SHA-256: a right visual recognition names it. A wrong stage says one of the sentences in `SLIPS`,
which the judge knows, and so does the model that goes on from it. The true answer is in no prompt: `LABELS` has it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.clinhallu import judging, protocol
from mhb_site.benchmarks.clinhallu.trace_text import HEADERS, KNOWLEDGE, REASONING, VISUAL

JUDGE = "sim-judge"
Label = tuple[str, str]  # (question, SHA-256 of its first image)
LABELS: dict[Label, str] = {}  # the true answers that models which see know; tests and the demo fill it
SLIPS: Mapping[str, str] = {
    VISUAL: "The finding lies on the side opposite to its true place.",
    KNOWLEDGE: "By a common misconception, this finding excludes the disease.",
    REASONING: "Therefore the opposite of what was found must hold.",
}
WRONG_ANSWER = "none of what was asked for"


@dataclass(frozen=True, slots=True)
class Seer:
    """The chances that a model errs in a stage by itself, and that a reply has no headers."""

    visual: float
    knowledge: float
    reasoning: float
    malformed: float = 0.0

    def errs(self, stage: str) -> float:
        found: float = getattr(self, stage)
        return found


SEERS: Mapping[str, Seer] = {
    "sim-careful": Seer(0.20, 0.08, 0.04),
    "sim-average": Seer(0.45, 0.20, 0.08),
    "sim-reckless": Seer(0.60, 0.45, 0.20, 0.08),
}


def true_rates(model: str) -> dict[str, float]:
    """What a run measures of a model on average: a rate for each stage (missing ones count), and the accuracy by variant.

    An answer is right where no stage before it is wrong; what was replaced is right.
    """
    seer = SEERS[model]
    formed, v, k, r = 1 - seer.malformed, 1 - seer.visual, 1 - seer.knowledge, 1 - seer.reasoning
    return {
        "h_visual": 1 - formed * v,
        "h_knowledge": 1 - formed * k,
        "h_reasoning": 1 - formed * r,
        protocol.FREE: formed * v * k * r,
        protocol.REP_V: formed * k * r,
        protocol.REP_K: formed * formed * v * r,
        protocol.REP_VK: formed * r,
    }


def reply(model: str, messages: Sequence[Message], seed: int) -> str | None:
    """What a model says to one of the prompts here, known by its first line; None: not ours."""
    heading = messages[0].text.partition("\n")[0]
    if model == JUDGE and heading in _JUDGING:
        return json.dumps(_judged(_JUDGING[heading], read_data(messages[-1].text), messages[-1]))
    if model in SEERS and heading in _ASKING:
        return _answer(model, read_data(messages[-1].text), messages[-1], seed)
    return None


_ASKING = {prompt.turns[0][1].partition("\n")[0] for prompt in (protocol.TRACE, *protocol.CONTINUE.values())}
_JUDGING = {judging.JUDGE_ANSWER.turns[0][1].partition("\n")[0]: judging.ANSWER} | {
    prompt.turns[0][1].partition("\n")[0]: stage for stage, prompt in judging.JUDGE_STAGE.items()
}


def _answer(model: str, data: Mapping[str, Any], last: Message, seed: int) -> str:
    seer, images = SEERS[model], [image.sha256 for image in last.images]
    given = {VISUAL: data.get("VISUAL"), KNOWLEDGE: data.get("KNOWLEDGE")}
    dice = (model, data["QUESTION"], *images, *(stage for stage, text in given.items() if text))
    if given[VISUAL] is not None:  # how the model goes on is decided anew with each text that it goes on from
        dice = (*dice, given[VISUAL])
    if chance(seed, "malformed", *dice) < seer.malformed:
        return "I would have to see the patient before I could say anything about this."
    said, right = [], True
    for stage, header in HEADERS.items():
        text = given.get(stage)
        if text is not None:
            right &= SLIPS[stage] not in text
            continue
        slips = chance(seed, stage, *dice) < seer.errs(stage)
        right &= not slips
        said.append(f"{header}\n{SLIPS[stage] if slips else _right(stage, images)}")
    truth = LABELS.get((data["QUESTION"], images[0] if images else ""), "yes")
    return "\n\n".join(said) + f"\n[Answer] {truth if right else WRONG_ANSWER}"


def _right(stage: str, images: Sequence[str]) -> str:
    if stage == VISUAL:
        return f"Seen: {', '.join(sha256[:12] for sha256 in images)}, without anything else of note."
    if stage == KNOWLEDGE:
        return "This is how the textbooks have it."
    return "Findings and knowledge lead to this answer."


def _judged(what: str, data: Mapping[str, Any], last: Message) -> dict[str, Any]:
    if what == judging.ANSWER:
        right = data["PREDICTED"].casefold().strip(" .") == data["TRUTH"].casefold().strip(" .")
        return {"answer_reasoning": "Compared word for word.", "answer_correct": int(right)}
    candidate = data["CANDIDATE"]
    wrong = SLIPS[what] in candidate
    if what == VISUAL and candidate != data["REFERENCE"]:  # it sees, too
        wrong |= not all(image.sha256[:12] in candidate for image in last.images) or not last.images
    return {"reason": "As the image shows." if what == VISUAL else "As the reference says.", "hallucinated": int(wrong)}
