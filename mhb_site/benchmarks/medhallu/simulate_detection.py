"""MedHallu's simulated detectors: models under test whose true rates are known.

A detector knows of an answer only what stands in the prompt: whether it is one that the simulated generator planted, and how
hard that is to see. Any other answer it takes for true, a published hallucination too: there it is right by chance only,
and `true_f1` says so ("unmarked"). Every dice is thrown by `chance`, from the seed and from what is asked.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from generation.llm.fencing import read_data
from generation.llm.simulator.script import chance
from generation.llm.types import Message
from mhb_site.benchmarks.medhallu import protocol
from mhb_site.benchmarks.medhallu.parsing import Reading
from mhb_site.benchmarks.medhallu.simulate_generation import PLANTED

TRUE, EASY, MEDIUM, HARD, UNMARKED = "truth", "easy", "medium", "hard", "unmarked"


@dataclass(frozen=True, slots=True)
class Eye:
    """How a detector sees, with or without knowledge; all are chances.

    false_alarm: that it would call a true answer hallucinated. caught: a hallucinated one, by difficulty. doubt_right,
    doubt_wrong: that it says 'not sure', where that is offered, instead of what would have been right, or wrong.
    """

    false_alarm: float
    caught: Mapping[str, float]
    doubt_right: float
    doubt_wrong: float

    def right(self, kind: str) -> float:
        """The chance that it would be right about what it takes for a true answer, or for a hallucinated one so hard to see."""
        return 1 - self.false_alarm if kind == TRUE else self.caught[kind]


@dataclass(frozen=True, slots=True)
class Detector:
    """Both ways of seeing, and the share of its replies that say no one thing."""

    plain: Eye
    knowledge: Eye
    malformed: float


# As in the paper: knowledge helps all, large models doubt a lot and gain by it, hard ones are missed most; those tuned to
# medicine ('reckless') answer nearly everything, and gain little.
DETECTORS: Mapping[str, Detector] = {
    "sim-careful": Detector(
        Eye(0.16, {EASY: 0.86, MEDIUM: 0.76, HARD: 0.60}, 0.12, 0.50),
        Eye(0.07, {EASY: 0.95, MEDIUM: 0.91, HARD: 0.83}, 0.04, 0.35),
        0.01,
    ),
    "sim-average": Detector(
        Eye(0.28, {EASY: 0.68, MEDIUM: 0.56, HARD: 0.40}, 0.25, 0.60),
        Eye(0.15, {EASY: 0.86, MEDIUM: 0.80, HARD: 0.68}, 0.10, 0.40),
        0.02,
    ),
    "sim-reckless": Detector(
        Eye(0.40, {EASY: 0.50, MEDIUM: 0.38, HARD: 0.24}, 0.01, 0.02),
        Eye(0.32, {EASY: 0.64, MEDIUM: 0.54, HARD: 0.40}, 0.01, 0.02),
        0.05,
    ),
}


def kind_of(answer: str) -> str:
    """What a detector takes an answer for: TRUE, or a hallucinated one of this difficulty."""
    return next((difficulty for difficulty, words in PLANTED.items() if words in answer), TRUE)


# ---------------------------------------------------------------------------------------------------------- true rates


def expected(model: str, variant: str, shown: Iterable[str]) -> dict[str, float]:
    """How many verdicts of each kind a run gives on average; `shown`: for each sample TRUE, its difficulty, or UNMARKED."""
    detector = DETECTORS[model]
    found: dict[str, float] = dict.fromkeys(protocol.VERDICTS.values(), 0.0)
    for what, times in Counter(shown).items():
        truth = protocol.TRUTH if what == TRUE else protocol.HALLUCINATED
        for reading, share in _shares(detector, variant, TRUE if what == UNMARKED else what).items():
            found[protocol.VERDICTS[truth, reading]] += times * share
    return found


def _shares(detector: Detector, variant: str, kind: str) -> dict[Reading, float]:
    """The chances of all that can be read out of a reply on an answer that the detector takes for one of this kind."""
    eye = _eye(detector, variant)
    right, may_doubt = eye.right(kind), variant in protocol.MAY_BE_UNSURE
    doubts = {"right": eye.doubt_right * may_doubt, "wrong": eye.doubt_wrong * may_doubt}
    says_right, says_wrong = right * (1 - doubts["right"]), (1 - right) * (1 - doubts["wrong"])
    factual, hallucinated = (says_right, says_wrong) if kind == TRUE else (says_wrong, says_right)
    formed = {
        Reading.FACTUAL: factual,
        Reading.HALLUCINATED: hallucinated,
        Reading.UNSURE: right * doubts["right"] + (1 - right) * doubts["wrong"],
    }
    return {
        Reading.UNPARSED: detector.malformed,
        **{reading: share * (1 - detector.malformed) for reading, share in formed.items()},
    }


def true_f1(model: str, variant: str, shown: Iterable[str]) -> float:
    """F1 as it is built into a detector, over answers of these kinds: 2 TP / (2 TP + FP + FN), each as expected."""
    return _rate("f1", expected(model, variant, shown))


def true_response_rate(model: str, variant: str, shown: Iterable[str]) -> float:
    """The share of decisions among all replies as it is built into a detector."""
    return _rate("response_rate", expected(model, variant, shown))


def _rate(name: str, verdicts: Mapping[str, float]) -> float:
    rate = next(rate for rate in protocol.RATES if rate.name == name)
    return _weighed(rate.hits, verdicts) / _weighed(rate.counted, verdicts)


def _weighed(weights: Mapping[str, int], verdicts: Mapping[str, float]) -> float:
    return sum(weight * verdicts[verdict] for verdict, weight in weights.items())


def _eye(detector: Detector, variant: str) -> Eye:
    return detector.knowledge if variant in protocol.HAS_KNOWLEDGE else detector.plain


# ------------------------------------------------------------------------------------------------------------- replies

_SAYS = {
    Reading.FACTUAL: ("0", "0", "0", "0.", "Answer: 0", "0 (factual)"),
    Reading.HALLUCINATED: ("1", "1", "1", "1.", "Answer: 1", "1 (hallucinated)"),
    Reading.UNSURE: ("2", "2", "2.", "Not sure", "2 (not sure)"),
}
_SAYS_NO_ONE_THING = (
    "0 or 1",
    "It depends on how one reads the question.",
    "The answer seems plausible, yet parts of it go beyond the evidence.",
    "I cannot assess this answer.",
    "3",
)
_VARIANTS = {prompt.turns[0][1].partition("\n")[0]: variant for variant, prompt in protocol.DETECT.items()}


def reply(model: str, messages: Sequence[Message], seed: int) -> str | None:
    """What a detector answers to one of the detection prompts, known by its first line; None: not ours."""
    variant = _VARIANTS.get(messages[0].text.partition("\n")[0])
    if variant is None or model not in DETECTORS:
        return None
    data = read_data(messages[0].text)
    asked = hashlib.sha256(f"{data['QUESTION']}\x1f{data['ANSWER']}".encode("utf-8", "surrogatepass")).hexdigest()
    detector = DETECTORS[model]
    if chance(seed, "malformed", model, variant, asked) < detector.malformed:
        return _pick(_SAYS_NO_ONE_THING, seed, "how", model, variant, asked)
    return _pick(_SAYS[_reading(model, variant, data["ANSWER"], asked, seed)], seed, "how", model, variant, asked)


def _reading(model: str, variant: str, answer: str, asked: str, seed: int) -> Reading:
    """What the detector decides. One dice for all variants: who sees something without knowledge sees it with it too."""
    eye = _eye(DETECTORS[model], variant)
    kind = kind_of(answer)
    right = chance(seed, "sees", model, asked) < eye.right(kind)
    doubt = eye.doubt_right if right else eye.doubt_wrong
    if variant in protocol.MAY_BE_UNSURE and chance(seed, "doubts", model, asked) < doubt:
        return Reading.UNSURE
    return Reading.FACTUAL if right == (kind == TRUE) else Reading.HALLUCINATED


def _pick(choices: Sequence[str], seed: int, *parts: str) -> str:
    return choices[int(chance(seed, *parts) * len(choices))]
