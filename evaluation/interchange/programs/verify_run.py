"""Check a run: python verify_run.py [FOLDER]

FOLDER is an unpacked bundle of a run of MHB; default: the folder of this file. Needs only Python
3.9, and no network. Prints each fault on a line. Exits with 1 if there are faults, and with 2 if
there is nothing to check.

It verifies the checksum of every file and looks for files without one. It decides every judgment of
a panel again from its votes. It recomputes every number of numbers.json from judgments.jsonl and
responses.jsonl by the rules of run.json: rates and their exclusions, 95 % intervals (those by
bootstrap with the same random numbers) and bounds, outcomes, and comparisons and changes between
variants with intervals and p. Then it does the same for report.json: ranks, agreement of judges
(votes.jsonl), the judge against physicians and the corrected rates (validation.jsonl,
physicians.jsonl), the variance of repeats, self-preference, and the cost (calls.jsonl). A number
that does not follow from the rows is a fault. It lists what is missing, and what it did not
recompute. The rules are those of MHB's docs/statistics.md.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.interchange.programs import (
        verify_changes,
        verify_counts,
        verify_files,
        verify_intervals,
        verify_report,
        verify_verdicts,
    )
else:  # in a bundle, with the other files in the same folder
    sys.dont_write_bytecode = True  # do not add files to the bundle
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_changes  # type: ignore[import-not-found,no-redef]
    import verify_counts  # type: ignore[import-not-found,no-redef]
    import verify_files  # type: ignore[import-not-found,no-redef]
    import verify_intervals  # type: ignore[import-not-found,no-redef]
    import verify_report  # type: ignore[import-not-found,no-redef]
    import verify_verdicts  # type: ignore[import-not-found,no-redef]

MAX_FAULTS_PRINTED = 200
REPORT_FORMAT = 2  # the first format with the rows behind report.json
READ_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError)


def _comparison_name(comparison: Sequence[str]) -> str:
    facet, dataset, value, rate, first, second = comparison
    return f"comparison of {first} and {second}, {', '.join(filter(None, (dataset, facet, value, rate)))}"


class Checks:
    """Compares the numbers of a bundle with those counted from its rows.

    `skipped`: description -> how many numbers were not recomputed.
    """

    def __init__(self, folder: Path) -> None:
        self.counts = verify_counts.BundleCounts(folder)
        self.numbers = json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
        self.faults, self.checked = list(self.counts.faults), self.counts.checked
        self.skipped: dict[str, int] = {}
        self._rates = {rate["name"]: rate for rate in self.counts.run["protocol"]["rates"]}
        self._check_rows()
        self._check_comparisons()
        self._check_changes()
        counted, stated = self.counts.endings(), dict[tuple[str, ...], Any]()
        stated.update(((row["endpoint"], row["dataset"], row["kind"]), row) for row in self.numbers["outcomes"])
        for key in sorted(stated.keys() | counted.keys()):
            self._compare(f"outcomes of {', '.join(key)}", counted.get(key, {"criteria": 0}), stated.get(key, {}))
        without = {facet: self.counts.without[facet] for facet in self.numbers["without"]}
        self._compare("without a value", without, self.numbers["without"])
        self._check_report(folder)

    def _check_report(self, folder: Path) -> None:
        if self.counts.run["format"] < REPORT_FORMAT:
            self.skipped["report.json of an earlier version, which is not read"] = 1
            return
        try:
            report = verify_report.check(self.counts, self.numbers, folder)
        except READ_ERRORS as error:
            self.faults.append(f"report.json: cannot be compared ({type(error).__name__}: {error})")
            return
        self.faults, self.checked = self.faults + report["faults"], self.checked + report["checked"]

    def _compare(self, place: str, counted: dict[str, Any], stated: dict[str, Any]) -> None:
        for name, value in counted.items():
            self.checked += 1
            if not verify_intervals.is_close(value, stated.get(name)):
                self.faults.append(f"numbers.json: {place}: {name} is {value}, not {stated.get(name)}")
        stated.update(counted)  # report.json is checked against the counted values

    def _check_comparisons(self) -> None:
        """Recompute comparisons, adjust p within their groups, and look for missing ones."""
        names, stated = ("facet", "dataset", "value", "rate", "first", "second"), set[tuple[str, ...]]()
        groups: dict[tuple[str, ...], list[tuple[str, dict[str, Any], float]]] = defaultdict(list)
        for comparison in self.numbers["comparisons"]:
            key = tuple(comparison[name] for name in names)
            place = _comparison_name(key)
            if key in stated:
                self.faults.append(f"numbers.json: {place}: twice")
            stated.add(key)
            counted = self.counts.comparison(self._rates[comparison["rate"]], comparison)
            self._compare(place, counted, comparison)
            if (p := counted["p"]) is not None:
                facet = comparison["facet"]
                group: tuple[str, ...] = (facet,) if facet else ("", comparison["dataset"], comparison["rate"])
                groups[group].append((place, comparison, p))
        for group, members in groups.items():
            method = "holm" if group[0] == "" else "bh"
            adjusted = verify_intervals.adjust([p for _place, _comparison, p in members], method)
            for (place, comparison, _p), value in zip(members, adjusted):  # noqa: B905
                self._compare(place, {"p_adjusted": value}, comparison)
        for missing in sorted(self.counts.expected_comparisons(self._rates) - stated):
            self.faults.append(f"numbers.json: {_comparison_name(missing)}: missing")

    def _check_changes(self) -> None:
        stated = {tuple(row[name] for name in verify_changes.NAMES): row for row in self.numbers.get("changes", [])}
        counted = verify_changes.changes(self.counts)
        for key in sorted(counted.keys() | stated.keys()):
            place = f"change {', '.join(filter(None, key))}"
            self._compare(place, counted.get(key, {"clusters": 0}), stated.get(key, {}))

    def _check_rows(self) -> None:
        stated_cells = set()
        for row in self.numbers["rows"]:
            cell: tuple[str, str, str, str] = (row["model"], row["dataset"], row["facet"], row["value"])
            place = ", ".join(filter(None, cell))
            stated_cells.add(cell)
            verdicts = dict(Counter(verdict for _unit, _facets, verdict in self.counts.cells.get((*cell, "trap"), [])))
            self.checked += 1
            if verdicts != {verdict: n for verdict, n in row["verdicts"].items() if n}:
                self.faults.append(f"numbers.json: {place}: the verdicts are {verdicts}, not {row['verdicts']}")
            row["verdicts"] = verdicts
            expected = {name for name, rate in self._rates.items() if not (row["facet"] and rate["arm"] == "control")}
            if row["rates"].keys() != expected:
                self.faults.append(f"numbers.json: {place}: not the rates of run.json")
                continue
            for name, stated in row["rates"].items():
                counted = self.counts.rate(self._rates[name], (*cell, str(self._rates[name]["arm"])))
                self._compare(f"{place}, {name}", counted, stated)
        for missing in sorted({cell[:4] for cell in self.counts.cells} - stated_cells):
            self.faults.append(f"numbers.json: {', '.join(filter(None, missing))}: missing")


def check(folder: Path) -> dict[str, Any]:
    """The faults, how many numbers were recomputed, and which were not.

    Raises one of `READ_ERRORS`.
    """
    faults = verify_files.faults(folder)
    try:
        checks = Checks(folder)
    except READ_ERRORS as error:
        if not faults:
            raise
        faults.append(f"the numbers cannot be read ({type(error).__name__})")
        return {"faults": faults, "checked": 0, "not_recomputed": {}}
    if (folder / "scores.jsonl").is_file():
        scores = runpy.run_path(str(Path(__file__).with_name("verify_scores.py")))["check"](
            folder, verify_verdicts.counted_verdict
        )
        checks.faults, checks.checked = checks.faults + scores["faults"], checks.checked + scores["checked"]
        checks.skipped.update({name: n for name, n in scores["not_recomputed"].items() if n})
    return {"faults": faults + checks.faults, "checked": checks.checked, "not_recomputed": checks.skipped}


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`, and return the exit code."""
    folder = Path(arguments[0] if arguments else Path(__file__).parent)
    try:
        result = check(folder)
    except READ_ERRORS as error:
        sys.stderr.write(f"There is no run to check in {folder}: {type(error).__name__} {error}\n")
        return 2
    faults, skipped = result["faults"], result["not_recomputed"]
    output = [*faults[:MAX_FAULTS_PRINTED], *(f"not computed again: {n} {name}" for name, n in skipped.items())]
    output.append(f"{len(faults)} faults" if faults else f"Nothing is altered; {result['checked']} numbers agree.")
    sys.stdout.write("\n".join(output) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
