"""Check a release: python verify_release.py [FOLDER]

FOLDER (by default the folder of this file) is an unpacked export of MHB. Needs Python 3.9 or newer
and nothing else, and no network. Prints each fault on a line, and exits with 1 if there are any;
with 2 if there is nothing to check.

It recomputes the checksum of every file, looks for files without a checksum, compares the samples
with the checksum that the release was frozen with (JSON Lines only), recomputes the agreement in
agreement.json from ratings.csv, and runs verify_trail.py on the audit trail.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

COLUMNS = ["sample_id", "version", "rater", "role", "answer", "simulated", "rubric", "polarity", "question", "value"]
PAIRS = {"reviewers": ("primary", "secondary"), "adjudicators": ("adjudicator-1", "adjudicator-2")}
BLIND = "blind"
REPLICATES = 200
SEED = 2008
DIGITS = 6
ENOUGH = 0.95  # share of the replicates that must be defined for an interval


def title(about: dict[str, Any]) -> str:
    """What a site calls a release, by its croissant.json."""
    return f"release {about['name']} {about['version']}"


Pair = tuple[str, str]
# First rater, second rater, and their answers; identical cases are counted as one kind.
Kind = tuple[str, str, tuple[Pair, ...]]


class Agreement:
    """Agreement between raters. Takes the blind answers sample by sample; `lines` are the figures.

    Intervals resample raters and cases at once (Owen 2007, The pigeonhole bootstrap, Ann. Appl.
    Stat. 1(2)): a case counts as often as it was drawn, times how often each of its two raters was
    drawn.
    """

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, str], Counter[Kind]] = defaultdict(Counter)

    def add(self, rows: Iterable[dict[str, str]]) -> None:
        """Add the rows of one sample."""
        answers: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        raters: dict[str, str] = {}
        for row in rows:
            if row["answer"] == BLIND:
                raters[row["role"]] = row["rater"]
                answers[row["role"], row["question"]][row["rubric"]] = row["value"]
        for pair, (first, second) in PAIRS.items():
            for question in sorted({question for role, question in answers if role == first}):
                one, other = answers[first, question], answers.get((second, question), {})
                both = tuple((one[key], other[key]) for key in sorted(one) if one[key] and other.get(key))
                if both:
                    self.kinds[pair, question][raters[first], raters[second], both] += 1

    def lines(self) -> list[dict[str, Any]]:
        """One line for each pair of roles and question, in a fixed order."""
        return [self._line(pair, question) for pair, question in sorted(self.kinds)]

    def _line(self, pair: str, question: str) -> dict[str, Any]:
        kinds = sorted(self.kinds[pair, question].items())
        raters = sorted({rater for (one, other, _both), _n in kinds for rater in (one, other)})
        rng = random.Random(f"{SEED} {pair} {question}")
        replicates: dict[str, list[float]] = {"raw": [], "kappa": [], "ac1": []}
        for _ in range(REPLICATES):
            table: Counter[Pair] = Counter()
            while not table:  # with few raters, a draw may leave no pair
                weight = Counter(rng.choices(raters, k=len(raters)))
                for (one, other, both), n in kinds:
                    rater_weight = weight[one] * weight[other]
                    if rater_weight and (cases := _poisson(rng, n)):
                        for answer_pair in both:
                            table[answer_pair] += rater_weight * cases
            for name, value in figures(table).items():
                if value is not None:
                    replicates[name].append(value)
        table = Counter()
        for (_one, _other, both), n in kinds:
            for answer_pair in both:
                table[answer_pair] += n
        line: dict[str, Any] = {
            "pair": pair,
            "question": question,
            "cases": sum(n for _kind, n in kinds),
            "answers": sum(table.values()),
            "raters": len(raters),
        }
        for name, value in figures(table).items():
            line[name] = None if value is None else round(value, DIGITS)
            line[f"{name}_interval"] = _interval(replicates[name]) if value is not None else None
        return line


def figures(table: Counter[Pair]) -> dict[str, float | None]:
    """Raw agreement, Cohen's kappa and Gwet's AC1; None where one is undefined."""
    n = sum(table.values())
    if not n:
        return {"raw": None, "kappa": None, "ac1": None}
    categories = sorted({one for answer_pair in table for one in answer_pair})
    raw = sum(count for (one, other), count in table.items() if one == other) / n
    first: Counter[str] = Counter()
    second: Counter[str] = Counter()
    for (one, other), count in table.items():
        first[one] += count
        second[other] += count
    expected = sum(first[one] * second[one] for one in categories) / n**2
    shares = [(first[one] + second[one]) / (2 * n) for one in categories]
    spread = sum(share * (1 - share) for share in shares) / (len(shares) - 1) if len(shares) > 1 else None
    return {
        "raw": raw,
        "kappa": (raw - expected) / (1 - expected) if 1 - expected > 1e-12 else None,
        "ac1": (raw - spread) / (1 - spread) if spread is not None and 1 - spread > 1e-12 else None,
    }


def _interval(values: list[float]) -> list[float] | None:
    if len(values) < ENOUGH * REPLICATES:
        return None
    ordered = sorted(values)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.025, 0.975))
    return [round(low, DIGITS), round(high, DIGITS)]


def _poisson(rng: random.Random, mean: int) -> int:
    """How often `mean` identical cases are drawn."""
    if mean > 30:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    count, limit, product = 0, math.exp(-mean), rng.random()
    while product > limit:
        count += 1
        product *= rng.random()
    return count


def by_sample(rows: Iterable[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    """Group consecutive rows by sample."""
    group: list[dict[str, str]] = []
    for row in rows:
        if group and row["sample_id"] != group[0]["sample_id"]:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _sha256(path: Path) -> str:
    content = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            content.update(block)
    return content.hexdigest()


def faults_of(folder: Path) -> list[str]:
    """The faults of a release, as sentences.

    Raises OSError, ValueError, KeyError if there is no release to read.
    """
    faults = []
    listed = {}
    for line in (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        listed[name] = expected
        path = folder / name
        if not path.is_file():
            faults.append(f"{name}: missing")
        elif _sha256(path) != expected:
            faults.append(f"{name}: altered")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    restored_file = manifest.get("by_reference", {})
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name in listed or name == "SHA256SUMS" or "__pycache__" in path.parts:
            continue
        if name != restored_file.get("path"):
            faults.append(f"{name}: not part of the release")
        elif _sha256(path) != restored_file["sha256"]:
            faults.append(f"{name}: altered")
    frozen, samples = manifest.get("sha256"), folder / "samples.jsonl"
    if frozen and samples.is_file() and _sha256(samples) != frozen:
        faults.append("samples.jsonl: not the samples that were frozen")
    faults += _agreement_faults(folder)
    return faults + _trail_faults(folder)


def _agreement_faults(folder: Path) -> list[str]:
    ratings, agreement_file = folder / "ratings.csv", folder / "agreement.json"
    if not (ratings.is_file() and agreement_file.is_file()):
        return []
    agreement = Agreement()
    with ratings.open(encoding="utf-8-sig", newline="") as file:
        for group in by_sample(csv.DictReader(file)):
            agreement.add(group)
    stated = {(line["pair"], line["question"]): line for line in json.loads(agreement_file.read_text(encoding="utf-8"))}
    lines = {(line["pair"], line["question"]): line for line in agreement.lines()}
    return [
        f"agreement.json: {pair}, {question}: not what ratings.csv gives"
        for pair, question in sorted(stated.keys() | lines.keys())
        if stated.get((pair, question)) != lines.get((pair, question))
    ]


def _trail_faults(folder: Path) -> list[str]:
    program = folder / "verify_trail.py"
    if not program.is_file() or not (folder / "audit.jsonl").is_file():
        return []
    spec = importlib.util.spec_from_file_location("verify_trail", program)
    if spec is None or spec.loader is None:
        return []
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    checker = module.Checker(folder)
    try:
        checker.trail()
        checker.data()
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        return [f"audit.jsonl: cannot be read ({type(error).__name__})"]
    return [f"audit.jsonl: {fault}" for fault in checker.faults]


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`; return the exit code."""
    folder = Path(arguments[0] if arguments else Path(__file__).parent)
    try:
        faults = faults_of(folder)
    except (OSError, ValueError, KeyError, csv.Error) as error:
        sys.stderr.write(f"There is no release to check in {folder}: {type(error).__name__} {error}\n")
        return 2
    for fault in faults:
        sys.stdout.write(fault + "\n")
    sys.stdout.write(f"{len(faults)} faults\n" if faults else "Nothing is altered or missing.\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv[1:]))
