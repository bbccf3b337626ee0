"""BLEU and ROUGE of a model's explanation against the true one, by sacrebleu and rouge-score.

The libraries are loaded on first use: rouge-score takes seconds to import.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from generation.recipes.text_similarity import OURS, rouge, rouge_scorers

BLEU, ROUGE_1, ROUGE_2 = "bleu", "rouge1", "rouge2"
ROUGE_1_WORDS, ROUGE_2_WORDS = f"{ROUGE_1}{OURS}", f"{ROUGE_2}{OURS}"


@cache
def prepare() -> Callable[..., Any]:
    """Load both libraries; returns the function of sentence BLEU."""
    import sacrebleu

    rouge_scorers((ROUGE_1, ROUGE_2))
    return sacrebleu.sentence_bleu


def scores(explanation: str, reference: str) -> dict[str, float]:
    """Sentence BLEU (exponential smoothing, effective order), and `rouge` of n-grams 1 and 2."""
    bleu = prepare()(explanation, [reference]).score / 100
    return {BLEU: min(1.0, max(0.0, float(bleu))), **rouge(explanation, reference, (ROUGE_1, ROUGE_2))}
