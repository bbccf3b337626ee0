"""Similarity of candidates to the true answer: cosine and Euclidean distance of vectors.

The vectors come from an embedding model if one is bound, else from TF-IDF over the answers to the
one question.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from generation.common.medical_text import words
from generation.recipes.recipe import Models

EMBEDDINGS, TF_IDF = "embeddings", "tf-idf"


async def vectors(models: Models, texts: Sequence[str]) -> tuple[str, NDArray[np.float64]]:
    """The method (`EMBEDDINGS` or `TF_IDF`), and one row per text."""
    if models.has("embedder"):
        return EMBEDDINGS, np.asarray(await models.embed("embedder", texts), dtype=np.float64)
    return TF_IDF, tf_idf(texts)


def tf_idf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Unit rows (zero for a text without words), with smoothed idf ln((1 + n) / (1 + df)) + 1."""
    word_counts = [Counter(words(text)) for text in texts]
    columns = {word: index for index, word in enumerate(sorted(set().union(*word_counts)))}
    rows = np.zeros((len(texts), len(columns)))
    for row, counts in zip(rows, word_counts, strict=True):
        for word, count in counts.items():
            row[columns[word]] = count
    document_frequency = (rows > 0).sum(axis=0)
    rows *= np.log((1 + len(texts)) / (1 + document_frequency)) + 1
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths == 0, 1, lengths)


def cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The cosine similarity, from -1 to 1; 0 if one of the vectors is zero."""
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    if lengths:
        return round(float(first @ second) / lengths, 6)
    return 0.0


def euclidean(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return round(float(np.linalg.norm(first - second)), 6)
