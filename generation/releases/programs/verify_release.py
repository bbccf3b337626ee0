"""Check a release: python verify_release.py [FOLDER]

FOLDER (by default the folder of this file) is an unpacked export of MHB. Needs Python 3.11, numpy
for the agreement, and no network. Prints each fault on a line, and exits with 1 if there are any;
with 2 if there is nothing to check.

It recomputes the checksum of every file, looks for files without a checksum, compares the samples
with the checksum that the release was frozen with (JSON Lines only), recomputes the agreement in
agreement.json from ratings.csv with MHB's own arithmetic, which is beside it, and runs
verify_trail.py on the audit trail.
"""

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

if not __package__:  # in an export
    sys.dont_write_bytecode = True  # add no files to it
    sys.path.insert(0, str(Path(__file__).resolve().parent))
from review.quality.agreement import agreement

verify_trail = import_module("generation.releases.programs.verify_trail" if __package__ else "verify_trail")
sha256_of = verify_trail.sha256_of
COLUMNS = ["sample_id", "version", "rater", "role", "answer", "simulated", "rubric", "polarity", "question", "value"]
PAIRS = {"reviewers": ("primary", "secondary"), "adjudicators": ("adjudicator-1", "adjudicator-2")}
BLIND = "blind"
DIGITS = 6
TOLERANCE = 2e-6  # of rounding by another version of numpy
METHOD = "dirichlet"  # of intervals; those frozen before had another, and are not recomputed


def title(about: dict[str, Any]) -> str:
    """What a site calls a release, by its croissant.json."""
    return f"release {about['name']} {about['version']}"


Pair = tuple[str, str]
Line = tuple[str, str]  # a pair of roles, and a question


class Agreement:
    """Agreement between raters. Takes the blind answers sample by sample; `lines` are the figures.

    Intervals have the case as cluster (`review/quality/agreement.py`), and hold for these raters.
    The categories are the answers that the forms of the samples offer to a question, whether given
    or not: AC1 depends on them.
    """

    def __init__(self) -> None:
        self.cases: dict[tuple[str, str], Counter[tuple[Pair, ...]]] = defaultdict(Counter)
        self.raters: dict[tuple[str, str], set[str]] = defaultdict(set)

    def add(self, rows: Iterable[dict[str, str]]) -> list[Line]:
        """Add the rows of one sample; return the lines in which they count."""
        counted = []
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
                    self.cases[pair, question][both] += 1
                    self.raters[pair, question] |= {raters[first], raters[second]}
                    counted.append((pair, question))
        return counted

    def given(self, line: Line) -> list[str]:
        """The answers that were given, in alphabetical order."""
        return sorted({answer for both in self.cases[line] for answers in both for answer in answers})

    def lines(self, categories: Mapping[Line, Sequence[str]]) -> list[dict[str, Any]]:
        """One line for each pair of roles and question, in a fixed order.

        `categories`: the answers offered. A line without any, as releases had before, takes those
        that were given, and does not name them.
        """
        return [self._line(line, categories.get(line, ())) for line in sorted(self.cases)]

    def _line(self, of: Line, categories: Sequence[str]) -> dict[str, Any]:
        (pair, question), given = of, self.given(of)
        figures = agreement(self.cases[of].elements(), categories or given)
        line: dict[str, Any] = {
            "pair": pair,
            "question": question,
            "cases": figures.cases,
            "answers": figures.n,
            **({"categories": list(categories), "used": len(given)} if categories else {}),
            "raters": len(self.raters[pair, question]),
            "intervals": METHOD,
        }
        for name, figure in (("raw", figures.raw), ("kappa", figures.kappa), ("ac1", figures.ac1)):
            ends = (figure.low, figure.high)
            line[name] = None if figure.value is None else round(figure.value, DIGITS)
            line[f"{name}_interval"] = [round(end, DIGITS) for end in ends if end is not None] or None
        return line


def _is_same(stated: Any, counted: Any) -> bool:
    if isinstance(stated, list) and isinstance(counted, list):
        return len(stated) == len(counted) and all(map(_is_same, stated, counted))
    if isinstance(stated, float) and isinstance(counted, float):
        return abs(stated - counted) <= TOLERANCE
    return bool(stated == counted)


def _is_same_line(stated: dict[str, Any], counted: dict[str, Any]) -> bool:
    if "intervals" not in stated:
        counted = {name: value for name, value in counted.items() if "interval" not in name}
        stated = {name: value for name, value in stated.items() if "interval" not in name}
    return stated.keys() == counted.keys() and all(_is_same(stated[name], counted[name]) for name in counted)


def faults_of(folder: Path) -> list[str]:
    """The faults of a release, as sentences: each file is read on its own.

    Raises FileNotFoundError if there is no release.
    """
    checker = verify_trail.Checker(folder)
    checker.checksums("release")
    checker.read("samples.jsonl", lambda: checker.faults.extend(_frozen_faults(folder)))
    if (folder / "ratings.csv").is_file() and (folder / "agreement.json").is_file():
        checker.read("agreement.json", lambda: checker.faults.extend(_agreement_faults(folder)))
    if (folder / "audit.jsonl").is_file():
        trail = verify_trail.Checker(folder)
        trail.read("trail", trail.trail)
        trail.read("data", trail.data)
        checker.faults += [f"audit.jsonl: {fault}" for fault in trail.faults]
    faults: list[str] = checker.faults
    return faults


def _frozen_faults(folder: Path) -> list[str]:
    manifest, samples = folder / "manifest.json", folder / "samples.jsonl"
    if not (samples.is_file() and manifest.is_file()):
        return []
    frozen = json.loads(manifest.read_text(encoding="utf-8")).get("sha256")
    is_frozen = not frozen or sha256_of(samples) == frozen
    if is_frozen:
        return []
    return ["samples.jsonl: not the samples that were frozen"]


def _agreement_faults(folder: Path) -> list[str]:
    ratings, agreement_file = folder / "ratings.csv", folder / "agreement.json"
    figures = Agreement()
    csv.field_size_limit(2**31 - 1)
    with ratings.open(encoding="utf-8-sig", newline="") as file:
        table = csv.DictReader(file)
        if lacking := [name for name in COLUMNS if name not in (table.fieldnames or ())]:
            return [f"ratings.csv: lacks the columns {', '.join(lacking)}, as after another program saved it"]
        for _sample, rows in groupby(table, itemgetter("sample_id")):
            figures.add(rows)
    stated = {(line["pair"], line["question"]): line for line in json.loads(agreement_file.read_text(encoding="utf-8"))}
    categories = {line: values.get("categories", []) for line, values in stated.items()}
    missing = [
        f"agreement.json: {pair}, {question}: the categories lack an answer that was given"
        for pair, question in figures.cases
        if categories.get((pair, question))
        and not set(figures.given((pair, question))) <= set(categories[pair, question])
    ]
    if missing:
        return missing
    lines = {(line["pair"], line["question"]): line for line in figures.lines(categories)}
    return [
        f"agreement.json: {pair}, {question}: not what ratings.csv gives"
        for pair, question in sorted(stated.keys() | lines.keys())
        if not _is_same_line(stated.get((pair, question), {}), lines.get((pair, question), {}))
    ]


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`; return the exit code."""
    folder = Path(arguments[0] if arguments else Path(__file__).parent)
    try:
        faults = faults_of(folder)
    except OSError as error:
        sys.stderr.write(f"There is no release to check in {folder}: {error}\n")
        return 2
    for fault in faults:
        sys.stdout.write(fault + "\n")
    sys.stdout.write(f"{len(faults)} faults\n" if faults else "Nothing is altered or missing.\n")
    if faults:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
