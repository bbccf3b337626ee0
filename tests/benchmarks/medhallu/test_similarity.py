"""TF-IDF, cosine, Euclidean distance and ROUGE against values worked out by hand."""

import asyncio
import math

import numpy as np
import pytest

from mhb_site.benchmarks.medhallu.similarity import cosine, euclidean, rouge, tf_idf, tokens, vectors
from tests.benchmarks.medhallu.helpers import Fake

pytestmark = pytest.mark.plain


def test_tf_idf_by_hand():
    rows = tf_idf(["a b", "a c"])
    rare = math.log(3 / 2) + 1  # of b and c, in one of two texts; of a, in both, it is 1
    length = math.hypot(1, rare)
    assert np.allclose(rows, [[1 / length, rare / length, 0], [1 / length, 0, rare / length]])
    assert cosine(rows[0], rows[1]) == pytest.approx(1 / length**2, abs=1e-6)
    assert euclidean(rows[0], rows[1]) == pytest.approx(math.sqrt(2) * rare / length, abs=1e-6)


def test_a_text_without_words_is_near_nothing():
    rows = tf_idf(["...", "a"])
    assert cosine(rows[0], rows[1]) == 0
    assert not np.isnan(rows).any()


def test_rouge_by_hand():
    # One: the cat sat; other: the cat on the mat sat. In common: 3 of 3 and 6 words; 1 of 2 and 5 pairs; the cat sat.
    found = rouge("The cat sat.", "the cat on the mat sat")
    assert found == {"rouge1": round(6 / 9, 6), "rouge2": round(2 / 7, 6), "rougeL": round(6 / 9, 6)}


def test_rouge_counts_a_repeated_word_as_often_as_both_have_it_and_l_keeps_the_order():
    assert rouge("a a a", "a a b")["rouge1"] == round(4 / 6, 6)
    assert rouge("b a", "a b") == {"rouge1": 1.0, "rouge2": 0.0, "rougeL": 0.5}
    assert rouge("", "a") == {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}


def test_words_numbers_and_chinese():
    assert tokens("IL-6 rose 2.5-fold; 血糖") == ["il", "6", "rose", "2", "5", "fold", "血", "糖"]


def test_vectors_are_the_embedders_where_there_is_one():
    models = Fake(bound=frozenset({"embedder"}), vectors={"x": [3.0, 4.0], "y": [0.0, 1.0]})
    how, rows = asyncio.run(vectors(models, ["x", "y"]))
    assert (how, rows.tolist()) == ("embeddings", [[3, 4], [0, 1]])
    assert cosine(rows[0], rows[1]) == 0.8
    assert euclidean(rows[0], rows[1]) == round(math.hypot(3, 3), 6)
    assert asyncio.run(vectors(Fake(), ["x", "y"]))[0] == "tf-idf"
