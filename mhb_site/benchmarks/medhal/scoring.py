"""How close a model's explanation comes to the true one: BLEU and ROUGE, by sacrebleu and rouge-score.

The libraries are loaded late: rouge-score takes seconds to import.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

BLEU, ROUGE_1, ROUGE_2 = "bleu", "rouge1", "rouge2"


@cache
def prepare() -> tuple[Callable[..., Any], Any]:
    """Load both libraries: the function of sentence BLEU, and the scorer of ROUGE."""
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    return sacrebleu.sentence_bleu, RougeScorer([ROUGE_1, ROUGE_2], use_stemmer=False)


def scores(said: str, true: str) -> dict[str, float]:
    """BLEU of one explanation (exponential smoothing, effective order) and F of ROUGE-1 and ROUGE-2, from 0 to 1."""
    bleu, rouge = prepare()
    found = rouge.score(true, said)
    numbers = {BLEU: bleu(said, [true]).score / 100, **{name: found[name].fmeasure for name in (ROUGE_1, ROUGE_2)}}
    return {name: min(1.0, max(0.0, float(number))) for name, number in numbers.items()}
