"""Recomputes the figures on scores; used by verify_run.py if a bundle has scores.jsonl.

Recomputes means, counts, percentiles and 95 % intervals of numbers.json from
scores.jsonl, judgments.jsonl and responses.jsonl by the rules of run.json. The scores themselves,
which libraries computed from texts, are not recomputed; they are reported as such.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # in a bundle, which has the package
    sys.path.insert(0, str(Path(__file__).parent))
from evaluation.statistics.intervals import mean_interval

SHARES = {"p5": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}
COMBINED, OPEN = "combined", "open"
CountedVerdict = Callable[[dict[str, Any], str, dict[str, str]], str]  # as in verify_verdicts


def _lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The percentile by linear interpolation between the two nearest values."""
    position = share * (len(ordered) - 1)
    index = int(position)
    above = ordered[min(index + 1, len(ordered) - 1)]
    return ordered[index] + (above - ordered[index]) * (position - index)


def measure(scores: Sequence[tuple[str, float]], judged: int, rule: dict[str, Any], minimum: int) -> dict[str, Any]:
    """The figures of one score, in the form of numbers.json. `scores`: (cluster, number)."""
    n = len(scores)
    result: dict[str, Any] = {"n": n, "without": judged - n, "mean": None, "low": None, "high": None, "sd": None}
    result.update({"clusters": 0, **dict.fromkeys(SHARES)})
    if not n:
        return result
    ordered = sorted(number for _cluster, number in scores)
    mean = math.fsum(ordered) / n
    clusters: dict[str, list[float]] = defaultdict(list)
    for cluster, number in scores:
        clusters[cluster].append(number)
    result.update({"mean": mean, "clusters": len(clusters), **{k: percentile(ordered, v) for k, v in SHARES.items()}})
    if n > 1:
        result["sd"] = math.sqrt(math.fsum((number - mean) ** 2 for number in ordered) / (n - 1))
    sums = [math.fsum(numbers) for numbers in clusters.values()]
    limits = (rule["low"], rule["high"])
    sizes = [len(numbers) for numbers in clusters.values()]
    _, result["low"], result["high"], _ = mean_interval(sums, sizes, minimum=minimum, limits=limits)
    return result


class Scores:
    """The scores of a bundle by cell: model, data set, facet and value.

    `judged`: the number of judgments with a verdict in each cell.
    """

    def __init__(self, folder: Path, counted_verdict: CountedVerdict) -> None:
        self.run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        self.rules = {rule["name"]: rule for rule in self.run["protocol"]["scores"]}
        self.cells: dict[tuple[str, str, str, str, str], list[tuple[str, float]]] = defaultdict(list)
        self.judged: dict[tuple[str, str, str, str], int] = defaultdict(int)
        self.faults: list[str] = []
        protocol, outcomes = self.run["protocol"], self.run["plan"]["outcomes"]
        datasets = {(dataset["task"], dataset["variant"]): dataset["name"] for dataset in protocol["datasets"]}
        samples = {sample["sample"]: sample for sample in _lines(folder / "samples.jsonl")}
        facets = {
            (key, rubric["key"]): rubric["facets"] for key, sample in samples.items() for rubric in sample["rubrics"]
        }
        outcome_of = {self._answer(row): row["outcome"] for row in _lines(folder / "responses.jsonl")}
        numbers = {(*self._answer(row), row["rubric"]): row["scores"] for row in _lines(folder / "scores.jsonl")}
        for row in _lines(folder / "judgments.jsonl"):
            answer, rubric = self._answer(row), row["rubric"]
            scores = numbers.pop((*answer, rubric), {})
            sample, verdict = samples[row["sample"]], counted_verdict(row, outcome_of[answer], outcomes)
            dataset = datasets.get((sample["task"], row["variant"]))
            if not verdict or dataset is None or outcome_of[answer] == OPEN or sample["arm"] == "control":
                continue
            facet_values = facets[row["sample"], rubric]
            for place in (dataset, COMBINED) if protocol["pooled"] and len(datasets) > 1 else (dataset,):
                for cell in [
                    ("", ""),
                    *((name, value) for name in protocol["facets"] for value in facet_values.get(name, [])),
                ]:
                    self.judged[(row["model"], place, *cell)] += 1
                    for name, number in scores.items():
                        self.cells[(row["model"], place, *cell, name)].append((sample["cluster"], number))
        self.faults += [f"scores.jsonl: {' '.join(map(str, key))}: no such judgment" for key in numbers]

    @staticmethod
    def _answer(row: dict[str, Any]) -> tuple[str, str, str, int]:
        return row["model"], row["sample"], row["variant"], row["repeat"]


def check(folder: Path, counted_verdict: CountedVerdict) -> dict[str, Any]:
    """The faults of the scores of a bundle, and how many numbers were recomputed."""
    bundle = Scores(folder, counted_verdict)
    faults, checked, stated = list(bundle.faults), 0, set()
    for row in json.loads((folder / "numbers.json").read_text(encoding="utf-8"))["scores"]:
        cell = (row["model"], row["dataset"], row["facet"], row["value"])
        stated.add(cell)
        for name, rule in bundle.rules.items():
            counted = measure(bundle.cells[(*cell, name)], bundle.judged[cell], rule, bundle.run["plan"]["minimum"])
            for figure, value in counted.items():
                checked += 1
                given = row["scores"].get(name, {}).get(figure, "missing")
                is_number = None not in (value, given) and given != "missing"
                if not (abs(value - given) < 1e-7 if is_number else value == given):
                    place = ", ".join(filter(None, (*cell, name)))
                    faults.append(f"numbers.json: {place}: {figure} is {value}, not {given}")
    unstated = sorted(bundle.judged.keys() - stated)
    faults += [f"numbers.json: scores of {', '.join(filter(None, cell))}: missing" for cell in unstated]
    skipped = {"scores of texts, which libraries computed": sum(map(len, bundle.cells.values()))}
    return {"faults": faults, "checked": checked, "not_recomputed": skipped}
