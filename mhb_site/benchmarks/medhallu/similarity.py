"""How near candidates are to the true answer: cosine and Euclidean distance of their vectors, and ROUGE.

The vectors are an embedding model's where one is bound, else TF-IDF over the answers of this one question. ROUGE is written out
here: Lin 2004, F-measure of n-grams (1, 2) and of the longest common subsequence, without stemming.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from generation.recipes.recipe import Models

EMBEDDINGS, TF_IDF = "embeddings", "tf-idf"

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")


def tokens(text: str) -> list[str]:
    """Words and numbers in small letters; of Chinese, characters."""
    return _TOKEN.findall(text.casefold())


async def vectors(models: Models, texts: Sequence[str]) -> tuple[str, NDArray[np.float64]]:
    """How they were made, and one row a text."""
    if models.has("embedder"):
        return EMBEDDINGS, np.asarray(await models.embed("embedder", texts), dtype=np.float64)
    return TF_IDF, tf_idf(texts)


def tf_idf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Rows of length 1 (0 for a text without a word), with the smoothed idf ln((1 + n) / (1 + df)) + 1."""
    counted = [Counter(tokens(text)) for text in texts]
    words = {word: at for at, word in enumerate(sorted(set().union(*counted)))}
    rows = np.zeros((len(texts), len(words)))
    for row, counts in zip(rows, counted, strict=True):
        for word, count in counts.items():
            row[words[word]] = count
    frequency = (rows > 0).sum(axis=0)
    rows *= np.log((1 + len(texts)) / (1 + frequency)) + 1
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def cosine(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """From -1 to 1; 0 where one of the two has no length."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return round(float(one @ other) / lengths, 6) if lengths else 0.0


def euclidean(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return round(float(np.linalg.norm(one - other)), 6)


def rouge(made: str, truth: str) -> dict[str, float]:
    """{rouge1, rouge2, rougeL}, each from 0 to 1."""
    one, other = tokens(made), tokens(truth)
    return {
        "rouge1": _overlap(one, other, 1),
        "rouge2": _overlap(one, other, 2),
        "rougeL": _f_measure(_common_subsequence(one, other), len(one), len(other)),
    }


def _overlap(one: Sequence[str], other: Sequence[str], size: int) -> float:
    grams, others = (
        Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1)) for words in (one, other)
    )
    return _f_measure((grams & others).total(), grams.total(), others.total())


def _f_measure(hits: int, one: int, other: int) -> float:
    return round(2 * hits / (one + other), 6) if one and other else 0.0


def _common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest one."""
    best = [0] * (len(other) + 1)
    for word in one:
        before = 0
        for at, match in enumerate(other, 1):
            before, best[at] = best[at], before + 1 if word == match else max(best[at], best[at - 1])
    return best[-1]
