"""TF-IDF, cosine and Euclidean distance against values worked out by hand."""

import asyncio
import math

import numpy as np
import pytest

from mhb_site.benchmarks.medhallu.similarity import cosine, euclidean, tf_idf, vectors
from tests.benchmarks.medhallu.helpers import FakeModels

pytestmark = pytest.mark.plain


def test_tf_idf_matches_values_worked_out_by_hand():
    rows = tf_idf(["a b", "a c"])
    idf = math.log(3 / 2) + 1  # idf of b and c, each in one of two texts; that of a, in both, is 1
    length = math.hypot(1, idf)
    assert np.allclose(rows, [[1 / length, idf / length, 0], [1 / length, 0, idf / length]])
    assert cosine(rows[0], rows[1]) == pytest.approx(1 / length**2, abs=1e-6)
    assert euclidean(rows[0], rows[1]) == pytest.approx(math.sqrt(2) * idf / length, abs=1e-6)


def test_a_text_without_words_is_similar_to_nothing():
    rows = tf_idf(["...", "a"])
    assert cosine(rows[0], rows[1]) == 0
    assert not np.isnan(rows).any()


def test_vectors_come_from_the_embedder_or_else_from_tf_idf():
    models = FakeModels(bound=frozenset({"embedder"}), vectors={"x": [3.0, 4.0], "y": [0.0, 1.0]})
    method, rows = asyncio.run(vectors(models, ["x", "y"]))
    assert (method, rows.tolist()) == ("embeddings", [[3, 4], [0, 1]])
    assert cosine(rows[0], rows[1]) == 0.8
    assert euclidean(rows[0], rows[1]) == round(math.hypot(3, 3), 6)
    assert asyncio.run(vectors(FakeModels(), ["x", "y"]))[0] == "tf-idf"
