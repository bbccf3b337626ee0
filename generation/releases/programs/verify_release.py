"""Check a release: python verify_release.py [FOLDER]

FOLDER (by default the folder of this file) is an unpacked export of MHB. Needs Python 3.11, numpy
for the agreement, and no network. Prints each fault on a line, and exits with 1 if there are any;
with 2 if there is nothing to check.

It recomputes the checksum of every file, looks for files without a checksum, compares the samples
with the checksum that the release was frozen with (JSON Lines only), recomputes the agreement in
agreement.json from ratings.csv with MHB's own arithmetic, which is beside it, runs verify_trail.py
on the audit trail, and looks for each review of the trail in ratings.csv.
"""

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
ANSWERS = {"commit": BLIND, "confirm": "confirmed", "discuss": "discussed"}  # by the phase of a review
KEPT = ("adequate", "corrected")  # the ratings of a rubric whose wordings are compared
ADDED = ("added", "absent")  # those of a rubric that a rater added
VERDICT = "verdict"  # the question of which each review has one row
AUTHOR = ("sample_id", "version", "rater", "role", "answer", "simulated")
ROW = (*AUTHOR, "rubric", "question")  # of which there is one row
HIGHLIGHT = (*AUTHOR, "look", "label", "passage", "start", "end")
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
            questions = [question for role, question in answers if role == first]
            for question in sorted(questions):
                given, compared = answers[first, question], answers.get((second, question), {})
                both = []
                for key in sorted(given):
                    if given[key] and compared.get(key):
                        both.append((given[key], compared[key]))
                if both:
                    self.cases[pair, question][tuple(both)] += 1
                    self.raters[pair, question] |= {raters[first], raters[second]}
                    counted.append((pair, question))
        return counted

    def given(self, line: Line) -> list[str]:
        """The answers that were given, in alphabetical order."""
        given: set[str] = set()
        for both in self.cases[line]:
            for answers in both:
                given.update(answers)
        return sorted(given)

    def lines(self, categories: Mapping[Line, Sequence[str]]) -> list[dict[str, Any]]:
        """One line for each pair of roles and question, in a fixed order.

        `categories`: the answers offered. A line without any, as releases had before, takes those
        that were given, and does not name them.
        """
        return [self._line(line, categories.get(line, ())) for line in sorted(self.cases)]

    def _line(self, key: Line, categories: Sequence[str]) -> dict[str, Any]:
        (pair, question), given = key, self.given(key)
        figures = agreement(self.cases[key].elements(), categories or given)
        line: dict[str, Any] = {
            "pair": pair,
            "question": question,
            "cases": figures.cases,
            "answers": figures.n,
        }
        if categories:
            line |= {"categories": list(categories), "used": len(given)}
        line |= {"raters": len(self.raters[key]), "intervals": METHOD}
        for name, figure in (("raw", figures.raw), ("kappa", figures.kappa), ("ac1", figures.ac1)):
            line[name] = line[f"{name}_interval"] = None
            if figure.value is not None:
                line[name] = round(figure.value, DIGITS)
            if figure.low is not None and figure.high is not None:
                line[f"{name}_interval"] = [round(figure.low, DIGITS), round(figure.high, DIGITS)]
        return line


def _is_same(stated: Any, counted: Any) -> bool:
    if isinstance(stated, list) and isinstance(counted, list):
        return len(stated) == len(counted) and all(map(_is_same, stated, counted))
    if isinstance(stated, float) and isinstance(counted, float):
        return abs(stated - counted) <= TOLERANCE
    return bool(stated == counted)


def _is_same_line(stated: dict[str, Any], counted: dict[str, Any]) -> bool:
    if "intervals" not in stated:
        counted, stated = _without_intervals(counted), _without_intervals(stated)
    return stated.keys() == counted.keys() and all(_is_same(stated[name], counted[name]) for name in counted)


def _without_intervals(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "interval" not in name}


def faults_of(folder: Path) -> list[str]:
    """The faults of a release, as sentences: each file is read on its own.

    Raises FileNotFoundError if there is no release.
    """
    checker = verify_trail.Checker(folder)
    checker.checksums("release")
    with checker.reading("samples.jsonl"):
        checker.faults += _frozen_faults(folder)
    if (folder / "ratings.csv").is_file() and (folder / "agreement.json").is_file():
        with checker.reading("agreement.json"):
            checker.faults += _agreement_faults(folder)
    submitted = None  # if the trail can be read to its end
    if (folder / "audit.jsonl").is_file():
        trail = verify_trail.Checker(folder)
        with trail.reading("trail"):
            trail.trail()
            submitted = trail.reviews
        with trail.reading("data"):
            trail.data()
        checker.faults += [f"audit.jsonl: {fault}" for fault in trail.faults]
    if (folder / "ratings.csv").is_file():
        with checker.reading("ratings.csv"):
            ratings = _Ratings(folder / "ratings.csv")
            checker.faults += ratings.faults
            if submitted is not None:
                checker.faults += ratings.faults_by_trail(submitted)
            with checker.reading("highlights.csv"):
                checker.faults += ratings.faults_of_highlights(folder / "highlights.csv")
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


class _Ratings:
    """The reviews in ratings.csv. `faults`: rows that are there twice, or miss another one."""

    def __init__(self, path: Path) -> None:
        self.faults: list[str] = []
        self._authors = set[tuple[str, ...]]()
        self._reviews: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)  # sample -> roles and answers
        kept, worded = set[tuple[str, ...]](), set[tuple[str, ...]]()
        for row in _rows(path, ROW, self.faults):
            author = tuple(row[name] for name in AUTHOR)
            self._authors.add(author)
            if row["question"] == "rubric" and row["value"] in KEPT:
                kept.add((*author, row["rubric"]))
            if row["question"] == "wording" and row["value"] not in ADDED:
                worded.add((*author, row["rubric"]))
            if row["question"] == VERDICT:
                self._reviews[row["sample_id"]][row["role"], row["answer"]] += 1
        if worded:  # older releases do not compare wordings
            for about in sorted(kept ^ worded):
                self.faults.append(f"ratings.csv: {', '.join(about)}: its rating or its wording is missing")

    def faults_by_trail(self, reviews: Mapping[str, Counter[tuple[str, str]]]) -> list[str]:
        """Reviews that are not those of the trail. `reviews`: sample -> roles and phases."""
        faults = []
        for sample in sorted(self._reviews.keys() | reviews.keys()):
            rated, submitted = self._reviews[sample], Counter[tuple[str, str]]()
            for (role, phase), number in reviews.get(sample, {}).items():
                submitted[role, ANSWERS[phase]] += number
            for role, answer in sorted(rated.keys() | submitted.keys()):
                there, should = rated[role, answer], submitted[role, answer]
                if there != should:
                    faults.append(f"ratings.csv: {sample}: {there} {answer} reviews as {role}, {should} in the trail")
        return faults

    def faults_of_highlights(self, path: Path) -> list[str]:
        """Highlights that are there twice, or of whose author there are no ratings."""
        faults: list[str] = []
        if path.is_file():
            for row in _rows(path, HIGHLIGHT, faults):
                if tuple(row[name] for name in AUTHOR) not in self._authors:
                    faults.append(f"{path.name}: {row['sample_id']}: by {row['rater']}, of whom there are no ratings")
        return faults


def _rows(path: Path, key: Sequence[str], faults: list[str]) -> Iterator[dict[str, str]]:
    """The rows of a table. That one is there twice, by the columns of `key`, is a fault."""
    csv.field_size_limit(2**31 - 1)
    seen = set[tuple[str, ...]]()
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            place = tuple(row[name] for name in key)
            if place in seen:
                faults.append(f"{path.name}: twice: {', '.join(place)}")
            seen.add(place)
            yield row


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
    lines = json.loads(agreement_file.read_text(encoding="utf-8"))
    stated = _by_pair(lines)
    if len(stated) < len(lines):
        return ["agreement.json: a pair and question twice"]
    categories = {key: line.get("categories", []) for key, line in stated.items()}
    missing = []
    for key in figures.cases:
        if categories.get(key) and not set(figures.given(key)) <= set(categories[key]):
            missing.append(f"agreement.json: {', '.join(key)}: the categories lack an answer that was given")
    if missing:
        return missing
    counted = _by_pair(figures.lines(categories))
    faults = []
    for key in sorted(stated.keys() | counted.keys()):
        if not _is_same_line(stated.get(key, {}), counted.get(key, {})):
            faults.append(f"agreement.json: {', '.join(key)}: not what ratings.csv gives")
    return faults


def _by_pair(lines: list[dict[str, Any]]) -> dict[Line, dict[str, Any]]:
    return {(line["pair"], line["question"]): line for line in lines}


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`; return the exit code."""
    folder = Path(__file__).parent
    if arguments:
        folder = Path(arguments[0])
    try:
        faults = faults_of(folder)
    except OSError as error:
        sys.stderr.write(f"There is no release to check in {folder}: {error}\n")
        return 2
    for fault in faults:
        sys.stdout.write(fault + "\n")
    if faults:
        sys.stdout.write(f"{len(faults)} faults\n")
        return 1
    sys.stdout.write("Nothing is altered or missing.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
