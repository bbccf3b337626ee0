"""BLEU and ROUGE of a model's explanation against the true one, by sacrebleu and rouge-score.

The libraries are loaded on first use: rouge-score takes seconds to import.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

BLEU, ROUGE_1, ROUGE_2 = "bleu", "rouge1", "rouge2"


@cache
def prepare() -> tuple[Callable[..., Any], Any]:
    """Load both libraries; returns the function of sentence BLEU and the ROUGE scorer."""
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    return sacrebleu.sentence_bleu, RougeScorer([ROUGE_1, ROUGE_2], use_stemmer=False)


def scores(explanation: str, reference: str) -> dict[str, float]:
    """Sentence BLEU (exponential smoothing, effective order) and the F of ROUGE-1 and ROUGE-2."""
    bleu, rouge = prepare()
    rouge_scores = rouge.score(reference, explanation)
    values = {
        BLEU: bleu(explanation, [reference]).score / 100,
        **{name: rouge_scores[name].fmeasure for name in (ROUGE_1, ROUGE_2)},
    }
    return {name: min(1.0, max(0.0, float(number))) for name, number in values.items()}
