"""Check a run: python verify_run.py [FOLDER]

FOLDER (by default the one this file lies in) is an unpacked bundle of a run of MHB. Needs Python 3.9 and nothing else, and no
network. Says what is wrong, one line each, and exits with 1 if anything is; with 2 if there is nothing to check.

It takes the checksum of every file anew, looks for files that no checksum names, decides every judgment of a panel again from
its votes, and counts every number of numbers.json again from judgments.jsonl and responses.jsonl by the rules of run.json:
rates with what they leave out, their 95 % intervals (those by bootstrap with the same random numbers) and bounds, outcomes,
and comparisons and changes between variants with intervals and p. Then it does the same for report.json: ranks, agreement of
judges (votes.jsonl), the judge against physicians and the rates corrected by them (validation.jsonl, physicians.jsonl), the
variance of repeats, self-preference, and the cost (calls.jsonl). A number that follows from nothing is a fault. It names what
is missing, and what it did not compute again. The rules are those of MHB's docs/statistics.md.
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
else:  # in a bundle, where the file lies beside this one
    sys.dont_write_bytecode = True  # nothing is added to what is checked
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
FAULTS_TOLD, CELL_PAIRS = 200, 45  # with more pairs of models, breakdowns are not compared
REPORT_SINCE = 2  # the format of bundles that bring what report.json follows from
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)

Cell = tuple[str, str, str, str, str]  # model, data set, facet, value, arm
Row = verify_intervals.Row
Sums = verify_intervals.Sums


def lines(path: Path) -> Iterator[Any]:
    """The objects of a file of JSON Lines."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


class Counted:
    """The numbers of a bundle, counted from its rows. `faults`: rows that cannot be. `checked`: judgments decided again."""

    def __init__(self, folder: Path) -> None:
        self.run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        self.faults: list[str] = []
        self.checked = 0
        self.cells: dict[Cell, list[Row]] = defaultdict(list)
        self.units: set[tuple[str, str]] = set()  # sample and data set
        self.failed: Counter[str] = Counter()  # responses of a model that failed
        self.given: dict[str, Counter[str]] = defaultdict(Counter)  # verdicts on a model, whatever counts
        self.votes: dict[Any, dict[str, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))  # by judge and vote
        self.clusters: dict[tuple[str, str], set[str]] = defaultdict(set)  # of a data set and arm, whichever model
        self.without: Counter[str] = Counter()
        self.responses: Counter[tuple[str, str, str]] = Counter()
        self.kinds: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])  # criteria, with a verdict
        self.rules = self.run["plan"]["outcomes"]
        protocol = self.run["protocol"]
        self._datasets = {(one["task"], one["variant"]): one["name"] for one in protocol["datasets"]}
        self._pooled = protocol["pooled"] and len(self._datasets) > 1
        self.samples: dict[str, dict[str, Any]] = {}
        self._rubrics: dict[tuple[str, str], dict[str, list[str]]] = {}
        for sample in lines(folder / "samples.jsonl"):
            for rubric in sample.pop("rubrics"):
                self._rubrics[sample["sample"], rubric["key"]] = {**rubric["facets"], "rubric": [rubric["key"]]}
            self.samples[sample["sample"]] = sample
        self.outcomes: dict[tuple[str, str, str, int], str] = {}
        for row in lines(folder / "responses.jsonl"):
            self._response(row)
        self.judgments: dict[tuple[str, str, str, int, str], dict[str, str]] = {}
        for row in lines(folder / "judgments.jsonl"):
            self._judgment(row)
        if self.run["panel"]:
            self._votes(folder)

    def dataset_of(self, sample: str, variant: str) -> str | None:
        """The data set that a question belongs to."""
        return self._datasets.get((self.samples[sample]["task"], variant))

    def cluster_of(self, sample: str) -> str:
        """What a sample belongs to: itself, or the first of those that come from the same source record."""
        return str(self.samples[sample]["cluster"])

    def _response(self, row: dict[str, Any]) -> None:
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

    def _judgment(self, row: dict[str, Any]) -> None:
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
        self.given[row["model"]][row["verdict"]] += 1
        verdict = counted_verdict(row, outcome, self.rules) or UNJUDGED
        why = JUDGED if row["verdict"] else verify_verdicts.failure_of(row) if row["status"] == "failed" else "pending"
        kind = self.kinds[row["model"], dataset, why if outcome == "answered" else outcome]
        kind[0] += 1
        kind[1] += verdict != UNJUDGED
        found: Row = ((row["sample"], row["variant"]), facets, verdict)
        arm, cluster = (self.samples[row["sample"]][name] for name in ("arm", "cluster"))
        shown = [] if arm == "control" else self.run["protocol"]["facets"]
        for place in (dataset, COMBINED) if self._pooled else (dataset,):
            self.cells[row["model"], place, "", "", arm].append(found)
            self.clusters[place, arm].add(cluster)
            for facet, value in ((each, value) for each in shown for value in facets.get(each, [])):
                self.cells[row["model"], place, facet, value, arm].append(found)
        self.without.update(name for name in shown if not facets.get(name))

    def _votes(self, folder: Path) -> None:
        """Decide every judgment of a panel again."""
        judges, rule, each = [self.run["judge"], *self.run["further_judges"]], self.run["panel"], self.run["settings"]
        votes = self.votes
        for row in lines(folder / "votes.jsonl"):
            judged = (row["model"], row["sample"], row["variant"], row["repeat"], row["rubric"])
            name = f"votes.jsonl: {' '.join(map(str, judged))} by {row['judge']}"
            if judged not in self.judgments or row["judge"] not in judges:
                self.faults.append(f"{name}: no such judgment or judge")
            elif row["vote"] in votes[judged][row["judge"]]:
                self.faults.append(f"{name}: twice")
            votes[judged][row["judge"]][row["vote"]] = row["verdict"]
        for judged, told in self.judgments.items():
            name, of, verdict = f"votes.jsonl: {' '.join(map(str, judged))}", votes.get(judged, {}), told["verdict"]
            if told["status"] not in ("done", "failed") or (not of and told["error"] in verify_verdicts.NOBODY_ASKED):
                continue  # not decided yet, or nobody was asked
            said = [list(of[judge].values()) for judge in judges if judge in of]
            asked = 2 if rule == "escalation" and len(said) > 1 and not is_disputed(said) else len(judges)
            if self.run["origin"] == "imported":  # elsewhere, not every judge need have judged everything
                asked = len(said) or 1
            if len(said) != asked or any(len(own) != each["judgments"] for own in said):
                self.faults.append(f"{name}: votes are missing, or more than were asked for")
                continue
            self.checked += 1
            if (again := decide(rule, said)) != verdict:
                self.faults.append(f"{name}: the panel decides {again or 'nothing'}, not {verdict or 'nothing'}")

    def rate(self, rate: dict[str, Any], cell: Cell) -> dict[str, Any]:
        """A rate of a cell, as numbers.json has it."""
        minimum, clusters = self.run["plan"]["minimum"], defaultdict[str, list[Sums]](list)
        for (sample, _variant), each in verify_intervals.sums_by_unit(rate, self.cells.get(cell, [])).items():
            clusters[self.samples[sample]["cluster"]].append(each)
        sums = [list(map(sum, zip(*of))) for of in clusters.values()]  # noqa: B905
        hits, counted, number, excluded = (sum(each[part] for each in sums) for part in range(4))
        some = [each for each in sums if each[1]]
        found: dict[str, Any] = {"excluded": excluded, "n": number, "clusters": len(some), "value": share(rate, sums)}
        if rate.get("points"):  # the score of all is not what all reached over what was possible
            hits, counted = (round(sum(each[part] for each in sums)) for part in (6, 7))
        found |= {"numerator": hits, "denominator": counted}
        found["bounds"] = bounds(rate, sums, minimum, not cell[2]) if counted else None
        if rate["interval"] == "bootstrap" and len(some) >= max(1, minimum):
            drawn = [each[:2] for each in sums if not cell[2] or each[1] + each[3]]
            if not cell[2]:  # all clusters are drawn from; in a breakdown, those that have something of it
                drawn += [[0, 0]] * (len(self.clusters[cell[1], cell[4]]) - len(sums))
            return {**found, **verify_bootstrap.interval(drawn, cut=bool(rate.get("points")))}
        ends = [[each[part] for each in some] for part in (0, 1)]
        return {**found, **interval(ends[0], ends[1], number, minimum, bool(rate["weighted"]))}

    def shared(self, rate: dict[str, Any], told: dict[str, Any]) -> dict[tuple[str, str], tuple[Sums, Sums]]:
        """What is counted of the samples that have verdicts for both models of a comparison."""
        place = (told["dataset"], told["facet"], told["value"], rate["arm"])
        units = [
            verify_intervals.sums_by_unit(rate, self.cells.get((told[who], *place), [])) for who in ("first", "second")
        ]
        both = (key for key, sums in units[0].items() if sums[1] and units[1].get(key, [0, 0])[1])
        return {key: (units[0][key], units[1][key]) for key in both}

    def by_cluster(self, shared: dict[tuple[str, str], tuple[Sums, Sums]]) -> list[list[list[int]]]:
        """The totals (hits, counted) of both sides of each cluster."""
        places: dict[str, list[list[int]]] = {}
        for (sample, _variant), sides in shared.items():
            sums = places.setdefault(self.samples[sample]["cluster"], [[0, 0], [0, 0]])
            for of, side in zip(sums, sides):  # noqa: B905 -- Python 3.9 has no strict
                of[0], of[1] = of[0] + side[0], of[1] + side[1]
        return list(places.values())

    def comparison(self, rate: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
        """A comparison of two models, as numbers.json has it."""
        shared = self.shared(rate, told)
        sides = [[pair[side] for pair in shared.values()] for side in (0, 1)]
        rates = [share(rate, side) for side in sides]
        clusters, minimum = self.by_cluster(shared), self.run["plan"]["minimum"]
        alone = len(clusters) == len(shared) > 0 and rate["interval"] != "bootstrap" and not rate["weighted"]
        flips = [(one[0] > 0) - (other[0] > 0) for one, other in zip(*sides)]  # noqa: B905
        return {
            "rates": rates,
            "difference": rates[0] - rates[1] if rates[0] is not None and rates[1] is not None else None,
            "clusters": len(clusters),
            "n": sum(each[2] for side in sides for each in side),
            "only_first": flips.count(1) if alone else None,
            "only_second": flips.count(-1) if alone else None,
            "p_samples": verify_intervals.mcnemar(flips.count(1), flips.count(-1)) if alone else None,
            **(
                verify_intervals.difference([of[0] for of in clusters], [of[1] for of in clusters], minimum)
                if rate["interval"] != "bootstrap"
                else verify_bootstrap.difference([[*one, *other] for one, other in clusters], minimum)
            ),
        }

    def compared(self, rates: dict[str, Any]) -> set[tuple[str, ...]]:
        """Which comparisons there must be: facet, data set, value, rate and two models."""
        models, protocol = set(self.run["endpoints"]), self.run["protocol"]
        pairs = [tuple(pair) for pair in self.run["plan"]["comparisons"] if set(pair) <= models]
        places = [*self._datasets.values(), *([COMBINED] if self._pooled else [])]
        found = {("", place, "", name, *pair) for place, name, pair in product(places, rates, pairs)}
        if len(pairs) > CELL_PAIRS:
            return found
        for facet, name in protocol.get("compared_by", {}).items():
            arm = str(rates[name]["arm"])
            values = {cell[3] for cell in self.cells if cell[2] == facet}
            for place, value, pair in product(places[-1:] if self._pooled else places, values, pairs):
                told = {"dataset": place, "facet": facet, "value": value, "first": pair[0], "second": pair[1]}
                if arm == "trap" and self.shared(rates[name], told):
                    found.add((facet, place, value, name, *pair))
        return found

    def endings(self) -> dict[tuple[str, ...], dict[str, Any]]:
        """How responses ended and what was made of it, as numbers.json has it, by model, data set and kind."""
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for who, where, end in {*self.kinds, *self.responses}:
            kind, outcome = (JUDGED if end == "answered" else end), ("answered" if end == JUDGED else end)
            criteria, counted = self.kinds.get((who, where, kind), [0, 0])
            of_responses = outcome in self.rules and outcome not in verify_verdicts.FAILURES
            of = self.responses[who, where, outcome] if of_responses else None
            told = {"responses": of, "criteria": criteria, "counted": counted}
            found[who, where, kind] = {**told, "rule": self.rules.get(outcome, EXCLUDED)}
        return found


def _place_of(comparison: Sequence[str]) -> str:
    facet, dataset, value, rate, first, second = comparison
    return f"comparison of {first} and {second}, {', '.join(filter(None, (dataset, facet, value, rate)))}"


class Checks:
    """The numbers of a bundle beside those counted again. `skipped`: what was not computed again, by what it is."""

    def __init__(self, folder: Path) -> None:
        self.found, self.told = Counted(folder), json.loads((folder / "numbers.json").read_text(encoding="utf-8"))
        self.faults, self.checked = list(self.found.faults), self.found.checked
        self.skipped: dict[str, int] = {}
        self._rates = {rate["name"]: rate for rate in self.found.run["protocol"]["rates"]}
        self._rows()
        self._comparisons()
        self._changes()
        counted, told = self.found.endings(), dict[tuple[str, ...], Any]()
        told.update(((each["endpoint"], each["dataset"], each["kind"]), each) for each in self.told["outcomes"])
        for key in sorted(told.keys() | counted.keys()):
            self._compare(f"outcomes of {', '.join(key)}", counted.get(key, {"criteria": 0}), told.get(key, {}))
        without = {facet: self.found.without[facet] for facet in self.told["without"]}
        self._compare("without a value", without, self.told["without"])
        self._report(folder)

    def _report(self, folder: Path) -> None:
        if self.found.run["format"] < REPORT_SINCE:
            self.skipped["report.json of an earlier version, which is not read"] = 1
            return
        try:
            report = verify_report.check(self.found, self.told, folder)
        except UNREADABLE as error:
            self.faults.append(f"report.json: cannot be compared ({type(error).__name__}: {error})")
            return
        self.faults, self.checked = self.faults + report["faults"], self.checked + report["checked"]

    def _compare(self, place: str, counted: dict[str, Any], told: dict[str, Any]) -> None:
        for what, value in counted.items():
            self.checked += 1
            if not verify_intervals.is_close(value, told.get(what)):
                self.faults.append(f"numbers.json: {place}: {what} is {value}, not {told.get(what)}")
        told.update(counted)  # what was counted is what report.json must say

    def _comparisons(self) -> None:
        """Each again, p adjusted over those that were adjusted together; and whether one is missing."""
        names, stated = ("facet", "dataset", "value", "rate", "first", "second"), set[tuple[str, ...]]()
        together: dict[tuple[str, ...], list[tuple[str, dict[str, Any], float]]] = defaultdict(list)
        for each in self.told["comparisons"]:
            about = tuple(each[name] for name in names)
            place = _place_of(about)
            if about in stated:
                self.faults.append(f"numbers.json: {place}: twice")
            stated.add(about)
            found = self.found.comparison(self._rates[each["rate"]], each)
            self._compare(place, found, each)
            if (p := found["p"]) is not None:
                group: tuple[str, ...] = (each["facet"],) if each["facet"] else ("", each["dataset"], each["rate"])
                together[group].append((place, each, p))
        for group, some in together.items():
            adjusted = verify_intervals.adjust([p for _place, _each, p in some], "holm" if group[0] == "" else "bh")
            for (place, each, _p), value in zip(some, adjusted):  # noqa: B905
                self._compare(place, {"p_adjusted": value}, each)
        for missing in sorted(self.found.compared(self._rates) - stated):
            self.faults.append(f"numbers.json: {_place_of(missing)}: missing")

    def _changes(self) -> None:
        told = {tuple(each[name] for name in verify_changes.NAMES): each for each in self.told.get("changes", [])}
        counted = verify_changes.changes(self.found)
        for key in sorted(counted.keys() | told.keys()):
            place = f"change {', '.join(filter(None, key))}"
            self._compare(place, counted.get(key, {"clusters": 0}), told.get(key, {}))

    def _rows(self) -> None:
        stated = set()
        for row in self.told["rows"]:
            about: tuple[str, str, str, str] = (row["model"], row["dataset"], row["facet"], row["value"])
            place = ", ".join(filter(None, about))
            stated.add(about)
            verdicts = dict(Counter(verdict for _unit, _facets, verdict in self.found.cells.get((*about, "trap"), [])))
            self.checked += 1
            if verdicts != {verdict: n for verdict, n in row["verdicts"].items() if n}:
                self.faults.append(f"numbers.json: {place}: the verdicts are {verdicts}, not {row['verdicts']}")
            row["verdicts"] = verdicts
            expected = {name for name, rate in self._rates.items() if not (row["facet"] and rate["arm"] == "control")}
            if row["rates"].keys() != expected:
                self.faults.append(f"numbers.json: {place}: not the rates of run.json")
                continue
            for name, told in row["rates"].items():
                counted = self.found.rate(self._rates[name], (*about, str(self._rates[name]["arm"])))
                self._compare(f"{place}, {name}", counted, told)
        for about in sorted({cell[:4] for cell in self.found.cells} - stated):
            self.faults.append(f"numbers.json: {', '.join(filter(None, about))}: missing")


def check(folder: Path) -> dict[str, Any]:
    """What is wrong, how many numbers were computed again, and which were not. Raises one of `UNREADABLE`."""
    faults = verify_files.faults(folder)
    try:
        done = Checks(folder)
    except UNREADABLE as error:
        if not faults:
            raise
        faults.append(f"the numbers cannot be read ({type(error).__name__})")
        return {"faults": faults, "checked": 0, "not_recomputed": {}}
    if (folder / "scores.jsonl").is_file():
        scores = runpy.run_path(str(Path(__file__).with_name("verify_scores.py")))["check"](folder, counted_verdict)
        done.faults, done.checked = done.faults + scores["faults"], done.checked + scores["checked"]
        done.skipped.update({why: n for why, n in scores["not_recomputed"].items() if n})
    return {"faults": faults + done.faults, "checked": done.checked, "not_recomputed": done.skipped}


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`; the exit code."""
    folder = Path(arguments[0] if arguments else Path(__file__).parent)
    try:
        found = check(folder)
    except UNREADABLE as error:
        sys.stderr.write(f"There is no run to check in {folder}: {type(error).__name__} {error}\n")
        return 2
    faults, skipped = found["faults"], found["not_recomputed"]
    told = [*faults[:FAULTS_TOLD], *(f"not computed again: {n} {why}" for why, n in skipped.items())]
    told.append(f"{len(faults)} faults" if faults else f"Nothing is altered; {found['checked']} numbers agree.")
    sys.stdout.write("\n".join(told) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
