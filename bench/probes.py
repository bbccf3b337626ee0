"""How often probes find a leak, and one that is not there; what they take beside scikit-learn.

python -m bench.probes worlds [SEEDS [NAME...]]  no leak, leaks of AUC .65, near-duplicates
python -m bench.probes size [ANSWERS]            wall time and memory, in two processes of their own
python -m bench.probes published FILE            MedHallu's published rows
"""

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import probe_worlds as worlds
from generation.probes.measuring import ProbeCase, measure
from generation.recipes.labelled import LabelledAnswers


def share_told(name: str, world: Callable[[int], list[ProbeCase]], seeds: int) -> None:
    """Print in how many worlds a probe tells, and mean accuracies."""
    told, words, best = 0, 0.0, 0.0
    for seed in range(seeds):
        report = measure(world(seed))
        told += bool(report.tells)
        accuracies = {probe.name: probe.accuracy for probe in report.probes if probe.accuracy is not None}
        words += accuracies["words"]
        best += max(accuracies.values())
    print(
        f"{name:<22} told in {told} of {seeds} ({told / seeds:.1%}); words {words / seeds:.3f}, best {best / seeds:.3f}"
    )


WORLDS: dict[str, Callable[[int], list[ProbeCase]]] = {
    "no-leak": worlds.no_leak,
    "length": worlds.leak_by_length,
    "words": worlds.leak_by_words,
    "overlap": worlds.leak_by_overlap,
    "position": worlds.leak_by_position,
    "duplicates": worlds.duplicates,
}


def run_worlds(seeds: int, names: list[str]) -> None:
    for name in names or list(WORLDS):
        share_told(name, WORLDS[name], seeds)


def large(answers: int) -> list[ProbeCase]:
    """Pairs of some 40 words of a vocabulary of 30,000 with Zipf's frequencies."""
    generator = random.Random(20_000)
    vocabulary = [f"word{number}" for number in range(30_000)]
    weights = [1 / (rank + 2) for rank in range(len(vocabulary))]
    cases = []
    for number in range(answers // 2):
        texts = [" ".join(generator.choices(vocabulary, weights, k=generator.randint(25, 55))) for _answer in range(2)]
        question = " ".join(generator.choices(vocabulary, weights, k=15))
        answers_here = LabelledAnswers(
            (texts[0], texts[1] + " due to" * (number % 3 == 0)), (True, False), question=question
        )
        cases.append(ProbeCase(str(number), str(number), answers_here))
    return cases


def by_hand(cases: list[ProbeCase]) -> float:
    """The words of the answers as scikit-learn's documentation does it, with shuffled labels."""
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    texts = [answer for case in cases for answer in case.labelled.answers]
    wrong = np.array([not right for case in cases for right in case.labelled.right])
    groups = np.repeat(np.arange(len(cases)), 2)
    flips = np.repeat(np.random.default_rng(0).random(len(cases)) < 0.5, 2)
    accuracies = []
    for labels in (wrong, wrong ^ flips):
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
        model = make_pipeline(words, LogisticRegression(C=10, max_iter=300, tol=1e-3))
        accuracies.append((cross_val_predict(model, texts, labels, groups=groups, cv=GroupKFold(5)) == labels).mean())
    return float(accuracies[0])


def run_one(which: str, answers: int) -> None:
    import sklearn.feature_extraction.text
    import sklearn.linear_model
    import sklearn.model_selection  # noqa: F401

    cases = large(answers)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    if which == "hand":
        accuracy = by_hand(cases)
    else:
        accuracy = next(probe.accuracy or 0 for probe in measure(cases).probes if probe.name == "words")
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "accuracy": accuracy, "MB": peak / 1024, "more MB": (peak - before) / 1024}))


def run_size(answers: int) -> None:
    results: dict[str, dict[str, Any]] = {}
    for which in ("hand", "probes"):
        command = [sys.executable, "-m", "bench.probes", "one", which, str(answers)]
        results[which] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(which, results[which])
    print(f"ratio {results['probes']['seconds'] / results['hand']['seconds']:.2f}")


def run_published(path: Path) -> None:
    cases = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n")):
        if not line:
            continue
        row = json.loads(line)
        answers = LabelledAnswers(
            (row["Ground Truth"], row["Hallucinated Answer"]),
            (True, False),
            question=row["Question"],
            contexts={"source": "\n".join(row["Knowledge"])},
            facets={"difficulty": row["Difficulty Level"]},
        )
        cases.append(ProbeCase(str(number), str(number), answers))
    report = measure(cases)
    for probe in report.probes:
        print(
            f"{probe.name:<18} accuracy {probe.accuracy} ({probe.low}, {probe.high}) F1 {probe.f1} shuffled {probe.shuffled}"
        )
        for group in report.groups:
            if group.probe == probe.name and group.value == "hard":
                print(f"{'':<18} hard: F1 {group.f1} of {group.n}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["worlds", seeds, *names]:
            run_worlds(int(seeds), names)
        case ["worlds"]:
            run_worlds(200, [])
        case ["size", *answers]:
            run_size(int(answers[0]) if answers else 20_000)
        case ["one", which, answers]:
            run_one(which, int(answers))
        case ["published", path]:
            run_published(Path(path))
        case _:
            print(__doc__)
