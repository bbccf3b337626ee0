"""Nothing but what a statement says tells whether it is factual: a classifier that sees only
lengths, spaces, punctuation and positions finds nothing, in any task."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from generation.llm.fencing import read_data
from generation.recipes.recipe import NewSample
from mhb_site.benchmarks.medhal import pair_steps
from mhb_site.benchmarks.medhal.tasks.surface import match_surface, same_spacing
from tests.benchmarks.medhal.helpers import (
    ARTICLE,
    CONTRADICTION,
    MCQ,
    NOTE,
    PREMISE,
    Models,
    OtherValues,
    draft,
    honest_models,
    make_samples,
)

pytestmark = pytest.mark.plain
WORDS = [
    *("made-up", "fever", "drug", "adults", "trial", "lowered", "raised", "most", "within", "weeks", "harm", "seen"),
    *(
        "cells",
        "tissue",
        "dose",
        "study",
        "effect",
        "risk",
        "group",
        "small",
        "large",
        "early",
        "late",
        "mean",
        "level",
    ),
    *("protein", "response", "patients", "treated", "control", "baseline", "outcome", "observed", "healthy", "blood"),
]


def words(chance: random.Random, count: int) -> str:
    """Words in the style of SumPubMed, where numbers were taken out and left their spaces."""
    chosen = [chance.choice(WORDS) for _ in range(count)]
    return "".join(
        word + chance.choice((" ", " ", " ", "  <dig>  ", " ,  ", " (p =  <dig> ) ")) for word in chosen
    ).strip()


def articles(chance: random.Random) -> Mapping[str, Any]:
    lines = [f"{words(chance, chance.randint(8, 30))}." for _ in range(chance.randint(4, 9))]
    return {**ARTICLE, "abstract": " ".join(lines), "shorter_abstract": "\n".join(lines)}


def questions(chance: random.Random) -> Mapping[str, Any]:
    options = {letter: " ".join(chance.sample(WORDS, chance.randint(1, 6))) for letter in "ABCD"}
    return {**MCQ, "question": f"What is {words(chance, 6)}?", "options": options, "answer": chance.choice("ABCD")}


def notes(chance: random.Random) -> Mapping[str, Any]:
    value = " ".join(chance.sample(WORDS, chance.randint(2, 4)))
    extraction = {"category": "symptoms", "concept": "time", "value": value, "reference": ""}
    return {**NOTE, "extractions": [extraction]}


def premises(chance: random.Random) -> Mapping[str, Any]:
    return {
        **PREMISE,
        "premise": f"{words(chance, 9)}.",
        "hypothesis": " ".join(chance.sample(WORDS, chance.randint(2, 6))),
    }


def features(text: str) -> list[float]:
    sentences = re.split(r"(?<=[.!?])\s", text)
    return [
        *(len(text), len(text.split()), len(sentences), max(map(len, sentences)), min(map(len, sentences))),
        *(len(re.findall(pattern, text)) for pattern in (r"\s\s", r" [,.]", r"\n", r"[^\x00-\x7f]", r"[A-Z]", r"\d")),
        *(text.count(sign) for sign in ",.;:()-'\"<"),
        *(text[:1].isupper(), text[-1:].isalnum(), text.rfind("  ") / len(text), text.rfind(",") / len(text)),
    ]


def accuracy(samples: Sequence[NewSample]) -> float:
    """The share of labels that a linear classifier gets right on records that are new to it."""
    matrix = np.array([[1.0, *features(sample.content["statement"])] for sample in samples])
    matrix[:, 1:] = (matrix[:, 1:] - matrix[:, 1:].mean(0)) / (matrix[:, 1:].std(0) + 1e-9)
    labels = np.array([1.0 if sample.content["label"] == "factual" else -1.0 for sample in samples])
    fold = np.array([int(sample.content["inner_id"]) % 5 for sample in samples])
    right = 0
    for part in range(5):
        train, test = fold != part, fold == part
        inverse = np.linalg.inv(matrix[train].T @ matrix[train] + 10 * np.eye(matrix.shape[1]))
        right += int(np.sum(np.sign(matrix[test] @ (inverse @ matrix[train].T @ labels[train])) == labels[test]))
    return right / len(samples)


def rewriting(reply: Callable[[str], str]) -> Models:
    """Honest models whose generator alters one word of a sentence and writes as `reply` does."""
    models = honest_models()
    honest = models.reply_to
    chance = random.Random(3)

    def reply_to(role: str, messages: Any) -> str:
        data = read_data(messages[-1].text)
        if "REWRITTEN" in data:
            return "NO"
        if role != "generator" or "SENTENCE" not in data:
            return honest(role, messages)
        parts = data["SENTENCE"].split()
        place = chance.randrange(len(parts))
        parts[place] = chance.choice([word for word in WORDS if word != parts[place]])
        return reply(" ".join(parts))

    models.reply_to = reply_to
    return models


def samples_of(make: Callable[[random.Random], Mapping[str, Any]], models: Models, count: int = 300) -> list[NewSample]:
    chance = random.Random(7)
    result: list[NewSample] = []
    for number in range(count):
        first = draft(make(chance), str(number), filter=False, summaries="one")
        value = " ".join(chance.sample(WORDS, chance.randint(2, 4)))
        wrong = {**CONTRADICTION, "hypothesis": " ".join(chance.sample(WORDS, chance.randint(2, 6)))}
        joined = {"mednli": (wrong,)} if first.record.content["kind"].startswith("nli") else {}
        first = replace(
            first,
            record=replace(first.record, joined=joined),
            other_values=OtherValues({"symptoms/time": value}),
        )
        result += make_samples(first, models)
    return result


@pytest.mark.parametrize("make", [articles, questions, notes, premises])
def test_a_classifier_of_surface_features_finds_nothing(make: Callable[[random.Random], Mapping[str, Any]]) -> None:
    models = rewriting(lambda text: f"“{text.replace(' ,', ',').capitalize()}”")
    assert abs(accuracy(samples_of(make, models)) - 0.5) < 0.07


def test_the_classifier_finds_what_models_do_to_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_steps, "match_surface", lambda altered, _original: " ".join(altered.split()))
    monkeypatch.setattr(pair_steps, "same_spacing", lambda _altered, _original: True)
    assert accuracy(samples_of(articles, rewriting(lambda text: text))) > 0.8


@pytest.mark.parametrize(
    ("original", "reply", "expected"),
    [
        ("the drug  lowered it , in  <dig> men.", "The drug raised it, in <dig> men", "the drug  raised it , in  <dig> men."),
        ("a “made-up” drug – it's new.", "a \"made-up\" drug - it’s old.", "a “made-up” drug – it's old."),
        ("p =  <dig>  (low) was seen;", "p = <dig> (high) was seen.", "p =  <dig>  (high) was seen;"),
        ("IL-6 fell in adults.", '"IL-6 rose in adults."', "IL-6 rose in adults."),
        ("no\u2009harm was seen.", "much harm was seen.", "much\u2009harm was seen."),
    ],
)  # fmt: skip
def test_an_altered_sentence_has_the_surface_of_the_original(original: str, reply: str, expected: str) -> None:
    altered = match_surface(reply, original)
    assert altered == expected
    assert same_spacing(altered, original)


def test_lost_spaces_are_noticed() -> None:
    assert not same_spacing("the drug raised it.", "the drug  raised  it.")
