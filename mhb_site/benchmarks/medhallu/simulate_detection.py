"""MedHallu's simulated detectors: models under test whose true rates are known.

A detector knows only the prompt: whether the simulated generator planted the answer, and how hard
that is to detect. It takes any other answer for true, also a published hallucination; there it is
right only by chance. All randomness comes from `chance`, derived from the seed and the request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from generation.llm.simulator.script import Asked, PromptTable, chance, digest_of, pick
from mhb_site.benchmarks.medhallu import protocol
from mhb_site.benchmarks.medhallu.parsing import Reading
from mhb_site.benchmarks.medhallu.simulate_generation import planted_claim

TRUE, EASY, MEDIUM, HARD = "truth", "easy", "medium", "hard"


@dataclass(frozen=True, slots=True)
class Skill:
    """The chances of a detector's decisions, with or without knowledge.

    `false_alarm`: it calls a true answer hallucinated. `caught`: it calls a hallucinated one
    hallucinated, by difficulty. `doubt_right` and `doubt_wrong`: if offered, it says 'not sure'
    instead of a right or wrong decision.
    """

    false_alarm: float
    caught: Mapping[str, float]
    doubt_right: float
    doubt_wrong: float

    def right(self, kind: str) -> float:
        """The chance of a right decision on an answer of this kind."""
        if kind == TRUE:
            return 1 - self.false_alarm
        return self.caught[kind]


@dataclass(frozen=True, slots=True)
class Detector:
    """The skills without and with knowledge, and the share of replies without a clear decision."""

    plain: Skill
    knowledge: Skill
    malformed: float


# As in the paper: knowledge helps all models, large models doubt often and gain by it, and hard
# answers are missed most. Models tuned to medicine ('reckless') answer nearly everything and gain
# little.
DETECTORS: Mapping[str, Detector] = {
    "sim-careful": Detector(
        Skill(0.16, {EASY: 0.86, MEDIUM: 0.76, HARD: 0.60}, 0.12, 0.50),
        Skill(0.07, {EASY: 0.95, MEDIUM: 0.91, HARD: 0.83}, 0.04, 0.35),
        0.01,
    ),
    "sim-average": Detector(
        Skill(0.28, {EASY: 0.68, MEDIUM: 0.56, HARD: 0.40}, 0.25, 0.60),
        Skill(0.15, {EASY: 0.86, MEDIUM: 0.80, HARD: 0.68}, 0.10, 0.40),
        0.02,
    ),
    "sim-reckless": Detector(
        Skill(0.40, {EASY: 0.50, MEDIUM: 0.38, HARD: 0.24}, 0.01, 0.02),
        Skill(0.32, {EASY: 0.64, MEDIUM: 0.54, HARD: 0.40}, 0.01, 0.02),
        0.05,
    ),
}


def perceived_kind(question: str, answer: str) -> str:
    """What a detector takes an answer for: TRUE, or the difficulty of a planted hallucination."""
    planted = planted_claim(question, answer)
    if planted is None:
        return TRUE
    return planted[1]


# ------------------------------------------------------------------------------------------ replies

_REPLIES = {
    Reading.FACTUAL: ("0", "0", "0", "0.", "Answer: 0", "0 (factual)"),
    Reading.HALLUCINATED: ("1", "1", "1", "1.", "Answer: 1", "1 (hallucinated)"),
    Reading.UNSURE: ("2", "2", "2.", "Not sure", "2 (not sure)"),
}
_UNCLEAR_REPLIES = (
    "0 or 1",
    "It depends on how one reads the question.",
    "The answer seems plausible, yet parts of it go beyond the evidence.",
    "I cannot assess this answer.",
    "3",
)


def _detect(variant: str, asked: Asked) -> str:
    model, blocks, seed = asked.model, asked.data, asked.seed
    request_hash = digest_of(blocks["QUESTION"], blocks["ANSWER"])
    replies: Sequence[str] = _UNCLEAR_REPLIES
    if chance(seed, "malformed", model, variant, request_hash) >= DETECTORS[model].malformed:
        kind = perceived_kind(blocks["QUESTION"], blocks["ANSWER"])
        replies = _REPLIES[_reading(model, variant, kind, request_hash, seed)]
    return pick(replies, seed, "how", model, variant, request_hash)


def _reading(model: str, variant: str, kind: str, request_hash: str, seed: int) -> Reading:
    """The detector's decision.

    All variants use the same draw: whatever is detected without knowledge is also detected with it.
    """
    detector = DETECTORS[model]
    if variant in protocol.HAS_KNOWLEDGE:
        skill = detector.knowledge
    else:
        skill = detector.plain
    right = chance(seed, "sees", model, request_hash) < skill.right(kind)
    if right:
        doubt_chance = skill.doubt_right
    else:
        doubt_chance = skill.doubt_wrong
    if variant in protocol.MAY_BE_UNSURE and chance(seed, "doubts", model, request_hash) < doubt_chance:
        return Reading.UNSURE
    if right == (kind == TRUE):
        return Reading.FACTUAL
    return Reading.HALLUCINATED


SCRIPT = PromptTable(
    {prompt.heading: (DETECTORS, partial(_detect, variant)) for variant, prompt in protocol.DETECT.items()}
)
