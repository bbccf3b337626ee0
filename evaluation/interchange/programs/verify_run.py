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
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.interchange.programs import (
        verify_bootstrap,
        verify_changes,
        verify_files,
        verify_intervals,
        verify_report,
        verify_verdicts,
    )
else:  # in a bundle, with the other files in the same folder
    sys.dont_write_bytecode = True  # do not add files to the bundle
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_bootstrap  # type: ignore[import-not-found,no-redef]
    import verify_changes  # type: ignore[import-not-found,no-redef]
    import verify_files  # type: ignore[import-not-found,no-redef]
    import verify_intervals  # type: ignore[import-not-found,no-redef]
    import verify_report  # type: ignore[import-not-found,no-redef]
    import verify_verdicts  # type: ignore[import-not-found,no-redef]

interval, bounds, share = verify_intervals.interval, verify_intervals.bounds, verify_intervals.share
decide, is_disputed, counted_verdict = (
    verify_verdicts.decide,
    verify_verdicts.is_disputed,
    verify_verdicts.counted_verdict,
)
UNJUDGED, JUDGED, EXCLUDED, COMBINED, OPEN = "unjudged", "judged", "excluded", "combined", "open"
MAX_FAULTS_PRINTED = 200
MAX_CELL_PAIRS = 45  # with more pairs of models, breakdowns are not compared
REPORT_FORMAT = 2  # the first format with the rows behind report.json
READ_ERRORS = (OSError, ValueError, KeyError, TypeError, AttributeError)

Cell = tuple[str, str, str, str, str]  # model, data set, facet, value, arm
Row = verify_intervals.Row
Sums = verify_intervals.Sums


def lines(path: Path) -> Iterator[Any]:
    """The objects of a file of JSON Lines."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


class BundleCounts:
    """The numbers of a bundle, counted from its rows.

    `faults`: rows that contradict the bundle. `checked`: number of judgments decided again.
    """

    def __init__(self, folder: Path) -> None:
        self.run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        self.faults: list[str] = []
        self.checked = 0
        self.cells: dict[Cell, list[Row]] = defaultdict(list)
        self.units: set[tuple[str, str]] = set()  # sample and data set
        self.failed: Counter[str] = Counter()  # model -> failed responses
        self.verdicts: dict[str, Counter[str]] = defaultdict(Counter)  # by model, as given
        # judgment -> judge -> number of the vote -> verdict
        self.votes: dict[Any, dict[str, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
        self.clusters: dict[tuple[str, str], set[str]] = defaultdict(set)  # by data set and arm
        self.without: Counter[str] = Counter()  # facet -> judgments without a value
        self.responses: Counter[tuple[str, str, str]] = Counter()
        # model, data set, kind -> criteria, counted criteria
        self.kinds: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
        self.rules = self.run["plan"]["outcomes"]
        protocol = self.run["protocol"]
        self._datasets = {(dataset["task"], dataset["variant"]): dataset["name"] for dataset in protocol["datasets"]}
        self._pooled = protocol["pooled"] and len(self._datasets) > 1
        self.samples: dict[str, dict[str, Any]] = {}
        self._rubrics: dict[tuple[str, str], dict[str, list[str]]] = {}
        for sample in lines(folder / "samples.jsonl"):
            for rubric in sample.pop("rubrics"):
                self._rubrics[sample["sample"], rubric["key"]] = {**rubric["facets"], "rubric": [rubric["key"]]}
            self.samples[sample["sample"]] = sample
        self.outcomes: dict[tuple[str, str, str, int], str] = {}
        for row in lines(folder / "responses.jsonl"):
            self._add_response(row)
        self.judgments: dict[tuple[str, str, str, int, str], dict[str, str]] = {}
        for row in lines(folder / "judgments.jsonl"):
            self._add_judgment(row)
        if self.run["panel"]:
            self._check_votes(folder)

    def dataset_of(self, sample: str, variant: str) -> str | None:
        """The data set that a question belongs to."""
        return self._datasets.get((self.samples[sample]["task"], variant))

    def cluster_of(self, sample: str) -> str:
        """The cluster of a sample: itself, or the first sample from the same source record."""
        return str(self.samples[sample]["cluster"])

    def _add_response(self, row: dict[str, Any]) -> None:
        answer = (row["model"], row["sample"], row["variant"], row["repeat"])
        if row["sample"] not in self.samples:
            self.faults.append(f"responses.jsonl: {row['sample']}: not a sample of the release")
            return
        if answer in self.outcomes:
            self.faults.append(f"responses.jsonl: {' '.join(map(str, answer))}: twice")
        self.outcomes[answer] = row["outcome"]
        self.failed.update([row["model"]] if row["status"] == "failed" else [])
        dataset = self.dataset_of(row["sample"], row["variant"])
        if dataset is not None and row["outcome"] != OPEN:
            self.responses[row["model"], dataset, row["outcome"]] += 1

    def _add_judgment(self, row: dict[str, Any]) -> None:
        answer = (row["model"], row["sample"], row["variant"], row["repeat"])
        name = f"judgments.jsonl: {' '.join(map(str, answer))} {row['rubric']}"
        facets = self._rubrics.get((row["sample"], row["rubric"]))
        if facets is None or answer not in self.outcomes:
            self.faults.append(f"{name}: {'not a rubric of the release' if facets is None else 'no such response'}")
            return
        if (*answer, row["rubric"]) in self.judgments:
            self.faults.append(f"{name}: twice")
        self.judgments[(*answer, row["rubric"])] = {name: row[name] for name in ("status", "verdict", "error")}
        dataset = self.dataset_of(row["sample"], row["variant"])
        if dataset is None or (outcome := self.outcomes[answer]) == OPEN:
            return
        self.units.add((row["sample"], dataset))
        self.verdicts[row["model"]][row["verdict"]] += 1
        verdict = counted_verdict(row, outcome, self.rules) or UNJUDGED
        state = (
            JUDGED if row["verdict"] else verify_verdicts.failure_of(row) if row["status"] == "failed" else "pending"
        )
        kind = self.kinds[row["model"], dataset, state if outcome == "answered" else outcome]
        kind[0] += 1
        kind[1] += verdict != UNJUDGED
        counted: Row = ((row["sample"], row["variant"]), facets, verdict)
        arm, cluster = (self.samples[row["sample"]][name] for name in ("arm", "cluster"))
        shown = [] if arm == "control" else self.run["protocol"]["facets"]
        for place in (dataset, COMBINED) if self._pooled else (dataset,):
            self.cells[row["model"], place, "", "", arm].append(counted)
            self.clusters[place, arm].add(cluster)
            for facet, value in ((name, value) for name in shown for value in facets.get(name, [])):
                self.cells[row["model"], place, facet, value, arm].append(counted)
        self.without.update(name for name in shown if not facets.get(name))

    def _check_votes(self, folder: Path) -> None:
        """Read the votes of a panel, and decide every judgment again."""
        judges, rule = [self.run["judge"], *self.run["further_judges"]], self.run["panel"]
        votes, repeats = self.votes, self.run["settings"]["judgments"]
        for row in lines(folder / "votes.jsonl"):
            key = (row["model"], row["sample"], row["variant"], row["repeat"], row["rubric"])
            name = f"votes.jsonl: {' '.join(map(str, key))} by {row['judge']}"
            if key not in self.judgments or row["judge"] not in judges:
                self.faults.append(f"{name}: no such judgment or judge")
            elif row["vote"] in votes[key][row["judge"]]:
                self.faults.append(f"{name}: twice")
            votes[key][row["judge"]][row["vote"]] = row["verdict"]
        for key, judgment in self.judgments.items():
            name, by_judge, verdict = f"votes.jsonl: {' '.join(map(str, key))}", votes.get(key, {}), judgment["verdict"]
            not_asked = not by_judge and judgment["error"] in verify_verdicts.NOT_ASKED
            if judgment["status"] not in ("done", "failed") or not_asked:
                continue
            cast = [list(by_judge[judge].values()) for judge in judges if judge in by_judge]
            expected = 2 if rule == "escalation" and len(cast) > 1 and not is_disputed(cast) else len(judges)
            if self.run["origin"] == "imported":  # elsewhere, a judge may have judged only a part
                expected = len(cast) or 1
            if len(cast) != expected or any(len(verdicts) != repeats for verdicts in cast):
                self.faults.append(f"{name}: votes are missing, or more than were asked for")
                continue
            self.checked += 1
            if (decision := decide(rule, cast)) != verdict:
                self.faults.append(f"{name}: the panel decides {decision or 'nothing'}, not {verdict or 'nothing'}")

    def rate(self, rate: dict[str, Any], cell: Cell) -> dict[str, Any]:
        """A rate of a cell, in the form of numbers.json."""
        minimum, clusters = self.run["plan"]["minimum"], defaultdict[str, list[Sums]](list)
        for (sample, _variant), unit in verify_intervals.sums_by_unit(rate, self.cells.get(cell, [])).items():
            clusters[self.samples[sample]["cluster"]].append(unit)
        sums = [list(map(sum, zip(*units))) for units in clusters.values()]  # noqa: B905
        hits, counted, number, excluded = (sum(cluster[part] for cluster in sums) for part in range(4))
        nonempty = [cluster for cluster in sums if cluster[1]]
        value = share(rate, sums)
        result: dict[str, Any] = {"excluded": excluded, "n": number, "clusters": len(nonempty), "value": value}
        if rate.get("points"):  # points reached and possible; their quotient is not the mean score
            hits, counted = (round(sum(cluster[part] for cluster in sums)) for part in (6, 7))
        result |= {"numerator": hits, "denominator": counted}
        result["bounds"] = bounds(rate, sums, minimum, not cell[2]) if counted else None
        if rate["interval"] == "bootstrap" and len(nonempty) >= max(1, minimum):
            population = [cluster[:2] for cluster in sums if not cell[2] or cluster[1] + cluster[3]]
            if not cell[2]:  # draw from all clusters; in a breakdown, only from those in the cell
                population += [[0, 0]] * (len(self.clusters[cell[1], cell[4]]) - len(sums))
            return {**result, **verify_bootstrap.interval(population, cut=bool(rate.get("points")))}
        columns = [[cluster[part] for cluster in nonempty] for part in (0, 1)]
        return {**result, **interval(columns[0], columns[1], number, minimum, bool(rate["weighted"]))}

    def shared(self, rate: dict[str, Any], comparison: dict[str, Any]) -> dict[tuple[str, str], tuple[Sums, Sums]]:
        """The sums of both models on the samples that have verdicts for both of them."""
        place = (comparison["dataset"], comparison["facet"], comparison["value"], rate["arm"])
        units = [
            verify_intervals.sums_by_unit(rate, self.cells.get((comparison[side], *place), []))
            for side in ("first", "second")
        ]
        both = (key for key, sums in units[0].items() if sums[1] and units[1].get(key, [0, 0])[1])
        return {key: (units[0][key], units[1][key]) for key in both}

    def by_cluster(self, shared: dict[tuple[str, str], tuple[Sums, Sums]]) -> list[list[list[int]]]:
        """The totals (hits, counted) of both models in each cluster."""
        places: dict[str, list[list[int]]] = {}
        for (sample, _variant), sides in shared.items():
            sums = places.setdefault(self.samples[sample]["cluster"], [[0, 0], [0, 0]])
            for total, side in zip(sums, sides):  # noqa: B905 -- Python 3.9 has no strict
                total[0], total[1] = total[0] + side[0], total[1] + side[1]
        return list(places.values())

    def comparison(self, rate: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
        """A comparison of two models, in the form of numbers.json."""
        shared = self.shared(rate, stated)
        sides = [[pair[side] for pair in shared.values()] for side in (0, 1)]
        rates = [share(rate, side) for side in sides]
        clusters, minimum = self.by_cluster(shared), self.run["plan"]["minimum"]
        unclustered = len(clusters) == len(shared) > 0 and rate["interval"] != "bootstrap" and not rate["weighted"]
        flips = [(one[0] > 0) - (other[0] > 0) for one, other in zip(*sides)]  # noqa: B905
        return {
            "rates": rates,
            "difference": rates[0] - rates[1] if rates[0] is not None and rates[1] is not None else None,
            "clusters": len(clusters),
            "n": sum(unit[2] for side in sides for unit in side),
            "only_first": flips.count(1) if unclustered else None,
            "only_second": flips.count(-1) if unclustered else None,
            "p_samples": verify_intervals.mcnemar(flips.count(1), flips.count(-1)) if unclustered else None,
            **(
                verify_intervals.difference([pair[0] for pair in clusters], [pair[1] for pair in clusters], minimum)
                if rate["interval"] != "bootstrap"
                else verify_bootstrap.difference([[*one, *other] for one, other in clusters], minimum)
            ),
        }

    def expected_comparisons(self, rates: dict[str, Any]) -> set[tuple[str, ...]]:
        """The comparisons that there must be, as (facet, data set, value, rate, model, model)."""
        models, protocol = set(self.run["endpoints"]), self.run["protocol"]
        pairs = [tuple(pair) for pair in self.run["plan"]["comparisons"] if set(pair) <= models]
        places = [*self._datasets.values(), *([COMBINED] if self._pooled else [])]
        comparisons = {("", place, "", name, *pair) for place, name, pair in product(places, rates, pairs)}
        if len(pairs) > MAX_CELL_PAIRS:
            return comparisons
        for facet, name in protocol.get("compared_by", {}).items():
            arm = str(rates[name]["arm"])
            values = {cell[3] for cell in self.cells if cell[2] == facet}
            for place, value, pair in product(places[-1:] if self._pooled else places, values, pairs):
                cell = {"dataset": place, "facet": facet, "value": value, "first": pair[0], "second": pair[1]}
                if arm == "trap" and self.shared(rates[name], cell):
                    comparisons.add((facet, place, value, name, *pair))
        return comparisons

    def endings(self) -> dict[tuple[str, ...], dict[str, Any]]:
        """The outcomes of responses and how they are counted, in the form of numbers.json.

        By model, data set and kind.
        """
        endings: dict[tuple[str, ...], dict[str, Any]] = {}
        for model, dataset, end in {*self.kinds, *self.responses}:
            kind, outcome = (JUDGED if end == "answered" else end), ("answered" if end == JUDGED else end)
            criteria, counted = self.kinds.get((model, dataset, kind), [0, 0])
            of_responses = outcome in self.rules and outcome not in verify_verdicts.FAILURES
            responses = self.responses[model, dataset, outcome] if of_responses else None
            counts = {"responses": responses, "criteria": criteria, "counted": counted}
            endings[model, dataset, kind] = {**counts, "rule": self.rules.get(outcome, EXCLUDED)}
        return endings


def _comparison_name(comparison: Sequence[str]) -> str:
    facet, dataset, value, rate, first, second = comparison
    return f"comparison of {first} and {second}, {', '.join(filter(None, (dataset, facet, value, rate)))}"


class Checks:
    """Compares the numbers of a bundle with those counted from its rows.

    `skipped`: description -> how many numbers were not recomputed.
    """

    def __init__(self, folder: Path) -> None:
        self.counts = BundleCounts(folder)
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
        scores = runpy.run_path(str(Path(__file__).with_name("verify_scores.py")))["check"](folder, counted_verdict)
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
