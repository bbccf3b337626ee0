"""Similarity of texts, and texts that give their trap away."""

import random

import pytest

from generation.recipes.text_similarity import (
    BANDS,
    LIKENESS_THRESHOLD,
    fingerprint,
    likeness,
    longest_leak,
    rouge,
    rouge_names,
)

pytestmark = pytest.mark.plain
KINDS = ("rouge1", "rouge2", "rougeL")
WORDS = [f"word{n}" for n in range(4_000)]


def text(seed: int, length: int = 300) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


def shingles(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + 4]) for at in range(len(words) - 3)}


def test_case_spacing_and_punctuation_make_no_difference() -> None:
    assert fingerprint("He took  5 mg, twice!") == fingerprint("he took 5 MG twice")
    assert fingerprint("He took 5 mg").digest != fingerprint("He took 6 mg").digest
    assert fingerprint("咳嗽三天。") == fingerprint("咳嗽 三天")


def test_signs_and_decimals_make_two_texts_that_are_alike() -> None:
    one, other = fingerprint("The T-score was −2.5 at the hip."), fingerprint("The T-score was 2.5 at the hip.")
    assert one.digest != other.digest
    assert likeness(one.signature, other.signature) == 1.0


def test_the_fingerprint_never_changes() -> None:
    """Stored fingerprints are compared with new ones; other hash functions invalidate them."""
    result = fingerprint("The patient was admitted with fever and left on day five.")
    assert result.signature[:8].hex() == "022cde34eb126736"
    assert result.bands[0] == 4980635239872970027


@pytest.mark.parametrize("changed", [0, 5, 20, 60, 150, 300])
def test_likeness_estimates_the_share_of_common_shingles(changed: int) -> None:
    estimates, truths = [], []
    for seed in range(20):
        one = text(seed)
        other = [*text(1_000 + seed, changed), *one[changed:]]
        common = shingles(one) & shingles(other)
        truths.append(len(common) / len(shingles(one) | shingles(other)))
        estimates.append(likeness(fingerprint(" ".join(one)).signature, fingerprint(" ".join(other)).signature))
    assert abs(sum(estimates) - sum(truths)) / 20 < 0.04  # three standard errors of the mean of 20


def test_similar_texts_share_a_band_and_different_texts_do_not() -> None:
    similar = different = 0
    for seed in range(200):
        one = text(seed)
        similar_text = [*text(5_000 + seed, 10), *one[10:]]
        bands = set(fingerprint(" ".join(one)).bands)
        assert len(bands) == BANDS
        similar += bool(bands & set(fingerprint(" ".join(similar_text)).bands))
        different += bool(bands & set(fingerprint(" ".join(text(9_000 + seed))).bands))
    assert (similar, different) == (200, 0)


def test_short_and_empty_texts_have_fingerprints_too() -> None:
    assert likeness(fingerprint("").signature, fingerprint("...").signature) == 1.0
    assert likeness(fingerprint("fever").signature, fingerprint("cough").signature) < LIKENESS_THRESHOLD


CRITERION = "The response must state that 'Cephalorin' is not a known medicine."


@pytest.mark.parametrize(
    ("described", "shown", "source", "leaked"),
    [
        (CRITERION, f"I wonder. {CRITERION} Is that so?", "", True),
        (CRITERION, "How much Cephalorin is right? Is it a known medicine?", "", False),
        (CRITERION, "The response must state that it is not so.", "", False),
        ("Does not exist.", "It does not exist.", "", False),  # too short to be significant
        (CRITERION, CRITERION.upper(), "", True),
        (CRITERION, f"{CRITERION}", f"As was said: {CRITERION}", False),  # quoted from the source
        ("回答必须指出该药物并不存在且没有剂量。", "医生说，回答必须指出该药物并不存在且没有剂量，对吗？", "", True),
        ("回答必须指出该药物并不存在且没有剂量。", "这个药物的剂量是多少？", "", False),
    ],
)
def test_a_leak_is_a_long_run_of_words_of_the_description(
    described: str, shown: str, source: str, leaked: bool
) -> None:
    assert (longest_leak(described, shown, source=source, min_share=0.85) is not None) == leaked


def test_a_leak_names_the_words_and_their_share_of_the_description() -> None:
    leak = longest_leak("one two three four five six seven eight", "ONE, two three four five six.", min_share=0.75)
    assert leak is not None
    assert (leak.words, leak.share) == ("one two three four five six", 0.75)
    assert (
        longest_leak("one two three four five six seven eight", "one two three four five six", min_share=0.76) is None
    )


def test_rouge_matches_values_worked_out_by_hand() -> None:
    # In common: 3 words of 3 and 6; 1 word pair of 2 and 5; longest common subsequence: the cat
    # sat.
    expected = {"rouge1": round(6 / 9, 6), "rouge2": round(2 / 7, 6), "rougeL": round(6 / 9, 6)}
    scores = rouge("The cat sat.", "the cat on the mat sat", KINDS)
    assert scores == {**expected, **{f"{kind}_words": number for kind, number in expected.items()}}
    assert list(scores) == rouge_names(KINDS)


def test_rouge_counts_shared_repetitions_and_rouge_l_respects_the_order() -> None:
    assert rouge("a a a", "a a b", KINDS)["rouge1"] == round(4 / 6, 6)
    scores = rouge("b a", "a b", KINDS)
    assert (scores["rouge1"], scores["rouge2"], scores["rougeL"]) == (1.0, 0.0, 0.5)
    assert set(rouge("", "a", KINDS).values()) == {0.0}


@pytest.mark.parametrize(
    ("candidate", "truth", "published", "own"),
    [
        ("50 µg", "50 g", 1.0, 0.5),
        ("α-thalassaemia", "β-thalassaemia", 1.0, 0.5),
        ("T-score −2.5", "T-score 2.5", 1.0, round(4 / 6, 6)),
        ("无骨折", "无骨折", 0.0, 1.0),
        ("无发热 3 天", "有发热 3 天", 1.0, 0.8),
    ],
)
def test_published_rouge_drops_what_is_not_latin_and_ours_does_not(
    candidate: str, truth: str, published: float, own: float
) -> None:
    scores = rouge(candidate, truth, ("rouge1",))
    assert (scores["rouge1"], scores["rouge1_words"]) == (published, own)
