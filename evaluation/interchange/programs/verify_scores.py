"""Recomputes the figures on scores; used by verify_run.py if a bundle has scores.jsonl.

Needs only Python 3.9. Recomputes means, counts, percentiles and 95 % intervals of numbers.json from
scores.jsonl, judgments.jsonl and responses.jsonl by the rules of run.json. The scores themselves,
which libraries computed from texts, are not recomputed; they are reported as such.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

SHARES = {"p5": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}
MINIMUM_DF = 4.0
COMBINED, OPEN = "combined", "open"
CountedVerdict = Callable[[dict[str, Any], str, dict[str, str]], str]  # as in verify_verdicts


def _lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)) / a
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = lower
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        for term in (even, -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            lower, upper = 1 / (1 + term * lower or 1e-300), 1 + term / upper or 1e-300
            fraction *= upper * lower
        if abs(upper * lower - 1) < 1e-14:
            break
    return front * fraction


def t_quantile(df: float) -> float:
    """The 97.5th percentile of Student's t, by bisection."""
    low, high = 1.9, 1000.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        inside = beta(middle * middle / (df + middle * middle), 0.5, df / 2)
        low, high = (middle, high) if inside < 0.95 else (low, middle)
    return (low + high) / 2


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
    shares = [len(numbers) / n for numbers in clusters.values()]
    terms = [s * s / (1 - s) for s in shares if s < 1]
    freedom = 1 / (sum(s * s for s in shares) + sum(terms) ** 2 - sum(t * t for t in terms)) if len(clusters) > 1 else 0
    if len(clusters) >= minimum and freedom >= MINIMUM_DF:
        residuals = [math.fsum(number - mean for number in numbers) / n for numbers in clusters.values()]
        variance = math.fsum(e * e / (1 - s) for e, s in zip(residuals, shares))  # noqa: B905 -- Python 3.9 has no strict
        half = t_quantile(freedom) * math.sqrt(variance)
        result.update({"low": max(rule["low"], mean - half), "high": min(rule["high"], mean + half)})
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
