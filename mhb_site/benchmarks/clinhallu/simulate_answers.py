"""ClinHallu's simulated models under test, with known error rates in each stage, and their judge.

A model recognises an image by its SHA-256, and a right visual recognition names it. A wrong stage
is one of the sentences in `WRONG_STAGES`, known to the judge and to the model that continues from
it. The true answer is in no prompt: it comes from `LABELS`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from generation.common.medical_text import is_same_text
from generation.llm.simulator.script import Asked, PromptTable, chance
from mhb_site.benchmarks.clinhallu import judging, protocol
from mhb_site.benchmarks.clinhallu.trace_text import HEADERS, KNOWLEDGE, REASONING, VISUAL

JUDGE = "sim-judge"
Label = tuple[str, str]  # (question, SHA-256 of its first image)
LABELS: dict[Label, str] = {}  # true answers, known to models that see the image; filled by tests and the demo
WRONG_STAGES: Mapping[str, str] = {
    VISUAL: "The finding lies on the side opposite to its true place.",
    KNOWLEDGE: "By a common misconception, this finding excludes the disease.",
    REASONING: "Therefore the opposite of what was found must hold.",
}
WRONG_ANSWER = "none of what was asked for"


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """The chances that a model errs in each stage of its own, and that a reply has no headers."""

    visual: float
    knowledge: float
    reasoning: float
    malformed: float = 0.0


ERROR_RATES: Mapping[str, ErrorRates] = {
    "sim-careful": ErrorRates(0.20, 0.08, 0.04),
    "sim-average": ErrorRates(0.45, 0.20, 0.08),
    "sim-reckless": ErrorRates(0.60, 0.45, 0.20, 0.08),
}


def _answer(asked: Asked) -> str:
    model, data, seed = asked.model, asked.data, asked.seed
    rates, images = ERROR_RATES[model], [image.sha256 for image in asked.turn.images]
    given = {VISUAL: data.get("VISUAL"), KNOWLEDGE: data.get("KNOWLEDGE")}
    draw = (model, data["QUESTION"], *images, *(stage for stage, text in given.items() if text))
    if given[VISUAL] is not None:  # draw again for each text that the model continues
        draw = (*draw, given[VISUAL])
    if chance(seed, "malformed", *draw) < rates.malformed:
        return "I would have to see the patient before I could say anything about this."
    stages, right = [], True
    for stage, header in HEADERS.items():
        text = given.get(stage)
        if text is not None:
            right &= WRONG_STAGES[stage] not in text
            continue
        text = correct_stage(stage, images)
        if chance(seed, stage, *draw) < getattr(rates, stage):
            text, right = WRONG_STAGES[stage], False
        stages.append(f"{header}\n{text}")
    answer = WRONG_ANSWER
    if right:
        answer = LABELS.get(label_key(data["QUESTION"], images), "yes")
    return "\n\n".join(stages) + f"\n[Answer] {answer}"


def label_key(question: str, images: Sequence[str]) -> Label:
    """The key in `LABELS` of a question about these images: it names the first one."""
    if images:
        return question, images[0]
    return question, ""


def film(sha256: str) -> str:
    """How simulated models name an image, so that others can check whether they were sent it."""
    return f"film {int(sha256[:8], 16) % 10**6:06}"


def correct_stage(stage: str, images: Sequence[str]) -> str:
    if stage == VISUAL:
        return f"Seen: {', '.join(map(film, images))}, without anything else of note."
    if stage == KNOWLEDGE:
        return "This is how the textbooks have it."
    return "Findings and knowledge lead to this answer."


def _judge(task: str, asked: Asked) -> dict[str, Any]:
    data, images = asked.data, asked.turn.images
    if task == judging.ANSWER:
        is_right = is_same_text(data["PREDICTED"], data["TRUTH"])
        return {"answer_reasoning": "Compared word for word.", "answer_correct": int(is_right)}
    candidate = data["CANDIDATE"]
    is_wrong = WRONG_STAGES[task] in candidate
    reason = "As the reference says."
    if task == VISUAL:
        reason = "As the image shows."
        if candidate != data["REFERENCE"]:  # the judge sees the images, too
            is_wrong |= not all(film(image.sha256) in candidate for image in images) or not images
    return {"reason": reason, "hallucinated": int(is_wrong)}


_JUDGED = {judging.ANSWER: judging.JUDGE_ANSWER, **judging.JUDGE_STAGE}
SCRIPT = PromptTable(
    {prompt.heading: (ERROR_RATES, _answer) for prompt in protocol.QUESTIONS.values()}
    | {prompt.heading: ((JUDGE,), partial(_judge, task)) for task, prompt in _JUDGED.items()}
)
