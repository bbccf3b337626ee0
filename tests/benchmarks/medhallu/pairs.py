"""Released samples of our own: a question with a true answer and a hallucinated one."""

from typing import Any

from evaluation.protocol import Ask, Rubric, Sample
from mhb_site.benchmarks.medhallu import protocol
from mhb_site.benchmarks.medhallu.simulate_generation import LEVEL_WORDS

RUBRIC = Rubric("R1", "Says whether the answer shown is hallucinated.", ("MQ",))
TRUTH = "Walking after meals lowered glucose in the women of this study."


def sample(number: int, difficulty: str = "easy", **changes: Any) -> Sample:
    """Sample `number`, whose hallucinated answer is marked as the simulated generator marks it."""
    content = {
        "question": f"Does walking after meals lower glucose in group {number}?",
        "knowledge": ["Forty women walked for ten minutes after each meal.", "Glucose fell by 0.6 mmol/L."],
        "truth": f"{TRUTH} ({number})",
        "hallucinated": f"Walking raised insulin, {LEVEL_WORDS[difficulty]}. ({number})",
        "justification": "The study measured glucose.",
        "category": "MQ",
        "difficulty": difficulty,
        "tries": 1,
        "fallback": False,
        "flags": [],
        "pmid": str(number),
        "mesh": ["Walking"],
        "branches": ["G"],
        **changes,
    }
    return Sample(f"medhallu-detection-{number:06}", protocol.TASK, content)


def asked(one: Sample, seed: int = 0) -> dict[str, Ask]:
    """The questions about a sample, by variant."""
    return {ask.variant: ask for ask in protocol.ask(one, seed)}


def verdict(one: Sample, variant: str, response: str, seed: int = 0) -> str:
    """What a reply to this variant of the question comes to."""
    return protocol.read(one, RUBRIC, variant, asked(one, seed)[variant].about, response).verdict
