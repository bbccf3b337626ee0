"""Released samples for tests: a question with a true answer and a hallucinated one."""

from typing import Any

from evaluation.protocol import Ask, Rubric, Sample
from mhb_site.benchmarks.medhallu import protocol
from mhb_site.benchmarks.medhallu.simulate_generation import CLAIMS, LEVEL_WORDS

RUBRIC = Rubric("R1", "Says whether the answer shown is hallucinated.", ("MQ",))
TRUTH = "Walking after meals lowered glucose in the women of this study."


def sample(number: int, difficulty: str = "easy", **fields: Any) -> Sample:
    """Return a sample whose hallucinated answer has the mark of the simulated generator."""
    question = f"Does walking after meals lower glucose in group {number}?"
    claim = CLAIMS[0].about(question, is_false=True)
    content = {
        "question": question,
        "knowledge": ["Forty women walked for ten minutes after each meal.", "Glucose fell by 0.6 mmol/L."],
        "truth": f"{TRUTH} ({number})",
        "hallucinated": f"Walking raised insulin ({number}), {claim} {LEVEL_WORDS[difficulty]}.",
        "justification": "The study measured glucose.",
        "category": "MQ",
        "difficulty": difficulty,
        "tries": 1,
        "fallback": False,
        "flags": [],
        "pmid": str(number),
        "mesh": ["Walking"],
        "branches": ["G"],
        **fields,
    }
    return Sample(f"medhallu-detection-{number:06}", protocol.TASK, content)


def asks_by_variant(evaluated: Sample, seed: int = 0) -> dict[str, Ask]:
    """Return the questions about a sample, by variant."""
    return {ask.variant: ask for ask in protocol.ask(evaluated, seed)}


def verdict(evaluated: Sample, variant: str, response: str, seed: int = 0) -> str:
    """Return the verdict on a reply to this variant of the question."""
    return protocol.read(evaluated, RUBRIC, variant, asks_by_variant(evaluated, seed)[variant].about, response).verdict
