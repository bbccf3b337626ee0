"""Check a run: python verify_run.py [FOLDER]

FOLDER (by default the one this file lies in) is an unpacked bundle of a run of MHB. Needs Python 3.9 or newer and nothing else;
asks no network. Says what is wrong, one line each, and exits with 1 if anything is; with 2 if there is nothing to check.

It takes the checksum of every file anew, looks for files that no checksum names, and counts every number of numbers.json again
from the verdicts in judgments.jsonl and the outcomes in responses.jsonl: numerators, denominators, what was left out, rates,
and the intervals whose method it knows. It says which numbers it did not compute again.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UNJUDGED = "unjudged"
COMBINED = "combined"
FAULTS_TOLD = 200
Z = 1.959963984540054  # the normal distribution's 97.5th percentile

Cell = tuple[str, str, str, str]  # model, data set, facet, value


def interval_of(method: str, numerator: int, denominator: int) -> list[float] | None:
    """The interval of a rate by a method that needs nothing but its counts; None where this program cannot compute it."""
    if method != "wilson" or not denominator:
        return None
    share, n, z2 = numerator / denominator, denominator, Z * Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return [max(0.0, centre - half), min(1.0, centre + half)]


def lines(path: Path) -> Iterator[Any]:
    """The objects of a file of JSON Lines."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


class Counted:
    """The numbers of a bundle, counted from its rows. `faults`: rows that cannot be."""

    def __init__(self, folder: Path) -> None:
        self.run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        self.faults: list[str] = []
        self.verdicts: dict[Cell, Counter[str]] = defaultdict(Counter)
        self.outcomes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.without: Counter[str] = Counter()
        protocol = self.run["protocol"]
        self._datasets = {(one["task"], one["variant"]): one["name"] for one in protocol["datasets"]}
        self._pooled = protocol["pooled"] and len(self._datasets) > 1
        self._facets = protocol["facets"]
        self._tasks: dict[str, str] = {}
        self._rubrics: dict[tuple[str, str], dict[str, list[str]]] = {}
        for sample in lines(folder / "samples.jsonl"):
            self._tasks[sample["sample"]] = sample["task"]
            for rubric in sample["rubrics"]:
                self._rubrics[sample["sample"], rubric["key"]] = rubric["facets"]
        self._answers: set[tuple[str, str, str, int]] = set()
        for row in lines(folder / "responses.jsonl"):
            self._response(row)
        self._judged: set[tuple[str, str, str, int, str]] = set()
        for row in lines(folder / "judgments.jsonl"):
            self._judgment(row)

    def _places(self, row: dict[str, Any]) -> list[str]:
        name = self._datasets.get((self._tasks.get(row["sample"], ""), row["variant"]))
        return [] if name is None else [name, COMBINED] if self._pooled else [name]

    def _response(self, row: dict[str, Any]) -> None:
        answer = (row["model"], row["sample"], row["variant"], row["repeat"])
        if row["sample"] not in self._tasks:
            self.faults.append(f"responses.jsonl: {row['sample']}: not a sample of the release")
        if answer in self._answers:
            self.faults.append(f"responses.jsonl: {' '.join(map(str, answer))}: twice")
        self._answers.add(answer)
        for place in self._places(row):
            self.outcomes[row["model"], place][row["outcome"]] += 1

    def _judgment(self, row: dict[str, Any]) -> None:
        answer = (row["model"], row["sample"], row["variant"], row["repeat"])
        name = f"judgments.jsonl: {' '.join(map(str, answer))} {row['rubric']}"
        facets = self._rubrics.get((row["sample"], row["rubric"]))
        if facets is None:
            self.faults.append(f"{name}: not a rubric of the release")
            return
        if answer not in self._answers:
            self.faults.append(f"{name}: no such response")
        if (*answer, row["rubric"]) in self._judged:
            self.faults.append(f"{name}: twice")
        self._judged.add((*answer, row["rubric"]))
        verdict = row["verdict"] or UNJUDGED
        for facet in self._facets:
            self.without[facet] += not facets.get(facet)
        for place in self._places(row):
            self.verdicts[row["model"], place, "", ""][verdict] += 1
            for facet in self._facets:
                for value in facets.get(facet, []):
                    self.verdicts[row["model"], place, facet, value][verdict] += 1

    def rate(self, rate: dict[str, Any], cell: Cell) -> dict[str, Any]:
        """A rate of a cell, as numbers.json has it, without its interval."""
        verdicts, within = self.verdicts.get(cell, Counter()), rate["scope"] or list(rate["counted"])
        numerator = sum(rate["hits"].get(verdict, 0) * n for verdict, n in verdicts.items())
        denominator = sum(rate["counted"].get(verdict, 0) * n for verdict, n in verdicts.items())
        return {
            "numerator": numerator,
            "denominator": denominator,
            "excluded": sum(n for verdict, n in verdicts.items() if verdict not in within),
            "value": numerator / denominator if denominator else None,
        }


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) < 1e-9
    return bool(one == other)


def number_faults(folder: Path) -> tuple[list[str], Counter[str], int]:
    """What is wrong with the numbers; which were not computed again, by why; and how many were."""
    found, told = Counted(folder), json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
    faults, skipped, checked = list(found.faults), Counter[str](), 0
    rates = {rate["name"]: rate for rate in found.run["protocol"]["rates"]}
    stated: set[Cell] = set()
    for row in told["rows"]:
        cell = (row["model"], row["dataset"], row["facet"], row["value"])
        place = "numbers.json: " + ", ".join(part for part in cell if part)
        stated.add(cell)
        verdicts = {verdict: n for verdict, n in found.verdicts.get(cell, Counter()).items() if n}
        if verdicts != {verdict: n for verdict, n in row["verdicts"].items() if n}:
            faults.append(f"{place}: the verdicts are {verdicts}, not {row['verdicts']}")
        if row["rates"].keys() != rates.keys():
            faults.append(f"{place}: not the rates of run.json")
            continue
        for name, stated_rate in row["rates"].items():
            counted = found.rate(rates[name], cell)
            for what, value in counted.items():
                checked += 1
                if not _close(stated_rate.get(what), value):
                    faults.append(f"{place}, {name}: {what} is {value}, not {stated_rate.get(what)}")
            interval = stated_rate.get("interval")
            if not interval:
                continue
            again = interval_of(interval["method"], counted["numerator"], counted["denominator"])
            if again is None:
                skipped[f"intervals by {interval['method']}"] += 1
            elif not (_close(interval["low"], again[0]) and _close(interval["high"], again[1])):
                faults.append(f"{place}, {name}: the interval is {again}, not {[interval['low'], interval['high']]}")
            else:
                checked += 2
    faults += [
        "numbers.json: " + ", ".join(part for part in cell if part) + ": missing"
        for cell in sorted(found.verdicts.keys() - stated)
        if cell[0]
    ]
    outcomes = {f"{model}, {place}": dict(counts) for (model, place), counts in found.outcomes.items()}
    for name in sorted(outcomes.keys() | told["outcomes"].keys()):
        checked += 1
        if outcomes.get(name) != told["outcomes"].get(name):
            faults.append(f"numbers.json: outcomes of {name}: {outcomes.get(name)}, not {told['outcomes'].get(name)}")
    for facet, n in told["without"].items():
        checked += 1
        if found.without[facet] != n:
            faults.append(f"numbers.json: without {facet}: {found.without[facet]}, not {n}")
    return faults, skipped, checked


def _sha256(path: Path) -> str:
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def file_faults(folder: Path) -> list[str]:
    """Files that were altered, removed or added."""
    faults, listed = [], set()
    for line in (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        listed.add(name)
        path = folder / name
        if not path.is_file():
            faults.append(f"{name}: missing")
        elif _sha256(path) != expected:
            faults.append(f"{name}: altered")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in listed and name != "SHA256SUMS" and "__pycache__" not in path.parts:
            faults.append(f"{name}: not part of the bundle")
    return faults


def check(folder: Path) -> dict[str, Any]:
    """What is wrong (`faults`), how many numbers were computed again (`checked`), and which were not (`not_recomputed`).

    Raises OSError, ValueError, KeyError, TypeError, AttributeError where there is no bundle to read.
    """
    faults = file_faults(folder)
    try:
        wrong, skipped, checked = number_faults(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if not faults:
            raise
        return {
            "faults": [*faults, f"the numbers cannot be read ({type(error).__name__})"],
            "checked": 0,
            "not_recomputed": {},
        }
    return {"faults": faults + wrong, "checked": checked, "not_recomputed": dict(sorted(skipped.items()))}


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`; the exit code."""
    folder = Path(arguments[0] if arguments else Path(__file__).parent)
    try:
        found = check(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.stderr.write(f"There is no run to check in {folder}: {type(error).__name__} {error}\n")
        return 2
    faults = found["faults"]
    for fault in faults[:FAULTS_TOLD]:
        sys.stdout.write(fault + "\n")
    for why, n in found["not_recomputed"].items():
        sys.stdout.write(f"not computed again: {n} {why}\n")
    sys.stdout.write(
        f"{len(faults)} faults\n" if faults else f"Nothing is altered; {found['checked']} numbers agree.\n"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
