"""Counts the rows of a bundle: rates, comparisons and outcomes; part of verify_run.py.

Needs only Python 3.9.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.interchange.programs import verify_bootstrap, verify_intervals, verify_verdicts
else:  # in a bundle, with the other files in the same folder
    import verify_bootstrap  # type: ignore[import-not-found,no-redef]
    import verify_intervals  # type: ignore[import-not-found,no-redef]
    import verify_verdicts  # type: ignore[import-not-found,no-redef]

from evaluation.statistics import intervals

interval, bounds, share = verify_intervals.interval, verify_intervals.bounds, verify_intervals.share
decide, is_disputed, counted_verdict = (
    verify_verdicts.decide,
    verify_verdicts.is_disputed,
    verify_verdicts.counted_verdict,
)
UNJUDGED, JUDGED, EXCLUDED, COMBINED, OPEN = "unjudged", "judged", "excluded", "combined", "open"
MAX_CELL_PAIRS = 45  # with more pairs of models, breakdowns are not compared

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
        self.odd: Counter[tuple[str, str]] = Counter()  # model, unknown ending or '' -> responses
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

    def in_rate(self, key: Any, rate: dict[str, Any]) -> bool:
        """Whether a rate is about this judgment: its arm, polarity and key of the rubric."""
        facets = self._rubrics[key[1], key[4]]
        return self.samples[key[1]]["arm"] == rate["arm"] and all(
            not rate[name] or rate[name] in facets.get(name, []) for name in ("polarity", "rubric")
        )

    def verdict_of(self, key: Any) -> str:
        """The verdict that a judgment counts as; '' if it is not counted."""
        return counted_verdict(self.judgments[key], self.outcomes[key[:4]], self.rules)

    def _add_response(self, row: dict[str, Any]) -> None:
        answer = (row["model"], row["sample"], row["variant"], row["repeat"])
        if row["sample"] not in self.samples:
            self.faults.append(f"responses.jsonl: {row['sample']}: not a sample of the release")
            return
        if answer in self.outcomes:
            self.faults.append(f"responses.jsonl: {' '.join(map(str, answer))}: twice")
        self.outcomes[answer] = row["outcome"]
        self.failed.update([row["model"]] if row["status"] == "failed" else [])
        if row.get("oddity") is not None:
            self.odd[row["model"], row["oddity"]] += 1
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
            hits, counted = (round(sum(cluster[part] for cluster in sums)) for part in (7, 8))
        result |= {"numerator": hits, "denominator": counted}
        result["partial"] = cell[1] == COMBINED and counted > 0 and self._lacks_verdicts(rate, cell)
        if result["partial"]:
            empty = {"value": None, "bounds": None, "method": "undefined", "low": None, "high": None}
            return {**result, **empty}
        result["bounds"] = bounds(rate, sums, minimum, not cell[2]) if counted else None
        columns = [[cluster[part] for cluster in nonempty] for part in (0, 1)]
        if rate.get("points") and nonempty:
            _, *ends, _ = intervals.mean_interval(columns[0], columns[1], minimum=minimum)
            low, high = (None if end is None else min(1.0, max(0.0, end)) for end in ends)
            method = intervals.Method.TOO_FEW if low is None else intervals.Method.MEAN
            return {**result, "low": low, "high": high, "method": method.value}
        weights = set(rate["hits"].values())
        if rate["interval"] == "bootstrap" and len(weights) == 1:
            of_f = intervals.f_interval(columns[0], columns[1], weights.pop(), minimum=minimum)
            return {**result, "low": of_f.low, "high": of_f.high, "method": of_f.method.value}
        return {
            **result,
            **interval(
                columns[0], columns[1], number, minimum, bool(rate["weighted"]) or rate["interval"] == "bootstrap"
            ),
        }

    def _lacks_verdicts(self, rate: dict[str, Any], cell: Cell) -> bool:
        """Whether a data set of a pooled cell was asked and has no verdict."""
        for name in self._datasets.values():
            rows = self.cells.get((cell[0], name, *cell[2:]), [])
            units = verify_intervals.sums_by_unit(rate, rows).values()
            if any(unit[3] for unit in units) and not any(unit[1] for unit in units):
                return True
        return False

    def shared(self, rate: dict[str, Any], comparison: dict[str, Any]) -> dict[tuple[str, str], tuple[Sums, Sums]]:
        """The sums of both models on the samples in the scope of the rate for both of them."""
        place = (comparison["dataset"], comparison["facet"], comparison["value"], rate["arm"])
        units = [
            verify_intervals.sums_by_unit(rate, self.cells.get((comparison[side], *place), []))
            for side in ("first", "second")
        ]
        both = (key for key, sums in units[0].items() if sums[6] and units[1].get(key, [0] * 7)[6])
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
                if not rate.get("points")
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
