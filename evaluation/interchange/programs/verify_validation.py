"""Recomputes the judge's agreement with physicians, and the corrected rates.

Part of verify_run.py.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from evaluation.interchange.programs import verify_intervals, verify_verdicts
else:  # in a bundle, with the other files in the same folder
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_intervals  # type: ignore[import-not-found,no-redef]
    import verify_verdicts  # type: ignore[import-not-found,no-redef]
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.comparisons import PairedDifference, paired_difference
from evaluation.statistics.correction import CheckedVerdicts, corrected_difference
from evaluation.statistics.multiplicity import holm
from evaluation.statistics.validation import balanced_f1
from review.quality import agreement

ADDED = 1 / 12  # share of a typical validated cluster, failed and passed, added per verdict
FAILED_BY_ANSWER = {"not-met": True, "met": False}  # physician's answer -> did the criterion fail?
COMBINED = "combined"
PRIMARY, SECONDARY = "primary", "secondary"
Rated = tuple[str, bool, bool, float]  # sample, truth, verdict, weight
# Weights by truth and verdict: failed/failed, failed/passed, passed/failed, passed/passed.
Cells = Sequence[float]
# Cluster, hit by the judge, physicians (weight and truth: whether it is a hit), data set, whether
# physicians could be asked, sample.
Judged = tuple[str, bool, "dict[str, Any] | None", str, bool, str]


FIGURES = {"kappa": agreement.kappa, "ac1": agreement.ac1, "balanced_f1": balanced_f1}


def quality(rows: Sequence[Rated], minimum: int) -> dict[str, Any]:
    """The agreement of verdicts with the truth, from one row per criterion."""
    clusters: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for cluster, truth, verdict, weight in rows:
        clusters[cluster][2 * (not truth) + (not verdict)] += weight
    cells = list(clusters.values())
    figures = _figures(cells, minimum)
    result: dict[str, Any] = {"n": len(rows), "clusters": len(cells)}
    for name, right, wrong, failed in (("sensitivity", 0, 1, True), ("specificity", 3, 2, False)):
        n = sum(truth is failed for _cluster, truth, *_rest in rows)
        totals = [(cell[right], cell[right] + cell[wrong]) for cell in cells]
        result[name] = _interval(totals, n, minimum, True)
    return {**result, **figures}


def _figures(cells: Sequence[Cells], minimum: int) -> dict[str, dict[str, float | None]]:
    """Each figure with its interval."""
    tables = np.array(cells, dtype=float).reshape(-1, 2, 2)
    estimates = {name: agreement.table_interval(tables, figure, minimum=minimum) for name, figure in FIGURES.items()}
    return {name: asdict(estimate) for name, estimate in estimates.items()}


def _interval(clusters: Iterable[tuple[float, float]], n: int, minimum: int, weighted: bool) -> dict[str, Any]:
    nonempty = [cluster for cluster in clusters if cluster[1]]
    hits, counted = [y for y, _m in nonempty], [m for _y, m in nonempty]
    value = min(1.0, max(0.0, sum(hits) / sum(counted))) if nonempty else None
    return {"value": value, **verify_intervals.interval(hits, counted, n, minimum, weighted)}


def raw(rows: Sequence[Judged], minimum: int) -> dict[str, Any]:
    """The rate by the judge."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for cluster, failed, *_rest in rows:
        totals[cluster][0] += failed
        totals[cluster][1] += 1
    return _interval([(y, m) for y, m in totals.values()], len(rows), minimum, False)


def corrected(rows: Sequence[Judged], minimum: int) -> dict[str, Any]:
    """The corrected rate (Rogan & Gladen), with the uncertainty of the validation sample."""
    result: dict[str, Any] = {"value": None, "low": None, "high": None, "clipped": False, "why": None}
    truth = [physicians["hit"] if physicians else None for _cluster, _hit, physicians, *_rest in rows]
    total, verdicts = len(rows), [verdict for verdict in (True, False) if any(row[1] is verdict for row in rows)]
    if not total or any(
        not any(row[1] is verdict and t is not None for row, t in zip(rows, truth))  # noqa: B905
        for verdict in verdicts
    ):
        return {**result, "why": "nothing"}
    residuals, members = defaultdict[str, float](float), defaultdict[str, int](int)
    value = centre = extra = 0.0
    for verdict in verdicts:
        size, of_cluster = 0, defaultdict[str, int](int)
        weights: list[tuple[str, float, bool]] = []
        for (cluster, failed, physicians, *_rest), t in zip(rows, truth):  # noqa: B905
            if failed is verdict:
                size += 1
                of_cluster[cluster] += 1
                members[cluster] += 1
                if t is not None and physicians is not None:
                    weights.append((cluster, physicians["weight"], t))
        total_weight = sum(weight for _cluster, weight, _t in weights)
        drawn: dict[str, list[tuple[float, bool]]] = defaultdict(list)
        for cluster, weight, t in weights:
            drawn[cluster].append((weight * size / total_weight, t))
        by_cluster = {cluster: sum(w for w, _t in criteria) for cluster, criteria in drawn.items()}
        typical = sum(weight**2 for weight in by_cluster.values()) / size
        grown = size + 2 * ADDED * typical
        failures = sum(w * t for criteria in drawn.values() for w, t in criteria)
        share = (failures + ADDED * typical) / grown
        value += failures / total
        centre += size * share / total
        for cluster, n in of_cluster.items():
            residuals[cluster] += share * n
        for cluster, criteria in drawn.items():
            residuals[cluster] += sum(w * (t - share) for w, t in criteria) / math.sqrt(1 - by_cluster[cluster] / grown)
        extra += ADDED * (typical / total) ** 2 * ((1 - share) ** 2 + share**2)
    result["value"] = value = min(1.0, value)
    shares = {cluster: n / total for cluster, n in members.items()}
    validated = {row[0] for row, t in zip(rows, truth) if t is not None}  # noqa: B905
    freedom = verify_intervals.freedom_of(list(shares.values()))
    if len(validated) < minimum or freedom < verify_intervals.MINIMUM_DF:
        return result
    variance = extra + sum(
        (residuals[cluster] / total - centre * share) ** 2 / (1 - share) for cluster, share in shares.items()
    )
    effective = min(float(total), centre * (1 - centre) / variance)
    low, high = verify_intervals.wilson(value, effective)
    return {**result, "low": low, "high": high}


# --------------------------------------------------------------------------------------------- rows


def _lines(path: Path) -> Iterable[Any]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


class Physicians:
    """The answers of physicians.

    `checked`: key of the judgment -> weight, decision, and the answers of the first two physicians.
    """

    def __init__(self, counts: Any, folder: Path) -> None:
        self.drawn = list(_lines(folder / "validation.jsonl"))
        self.rows = list(_lines(folder / "physicians.jsonl"))
        self.faults: list[str] = []
        closed: dict[Any, float] = {}
        for row in self.drawn:
            name = f"validation.jsonl: {' '.join(map(str, self._answer(row)))}"
            if self._answer(row) not in counts.outcomes:
                self.faults.append(f"{name}: no such response")
            if self._answer(row) in closed:
                self.faults.append(f"{name}: twice")
            if row["weight"] < 1:
                self.faults.append(f"{name}: a weight is at least 1")
            if row["closed"]:
                closed[self._answer(row)] = row["weight"]
        answers: dict[Any, dict[str, str]] = defaultdict(dict)
        for row in self.rows:
            key = (*self._answer(row), row["rubric"])
            name = f"physicians.jsonl: {' '.join(map(str, key))} by {row['physician']}"
            if key[:4] not in closed or key not in counts.judgments:
                self.faults.append(f"{name}: not drawn, or not decided")
                continue
            if row["role"] in answers[key]:
                self.faults.append(f"{name}: twice")
            answers[key][row["role"]] = row["answer"]
        self.checked: dict[Any, dict[str, Any]] = {
            key: {
                "weight": closed[key[:4]],
                "truth": verify_verdicts.majority(
                    [by_role[PRIMARY], by_role.get(SECONDARY, ""), *self._others(by_role)]
                ),
                "first": by_role[PRIMARY],
                "second": by_role.get(SECONDARY, ""),
            }
            for key, by_role in answers.items()
            if PRIMARY in by_role
        }
        self.closed = set(closed)

    @staticmethod
    def _answer(row: dict[str, Any]) -> tuple[str, str, str, int]:
        return row["model"], row["sample"], row["variant"], row["repeat"]

    @staticmethod
    def _others(by_role: dict[str, str]) -> list[str]:
        return [answer for role, answer in by_role.items() if role not in (PRIMARY, SECONDARY)]

    @property
    def third(self) -> int:
        """The number of responses that a third physician judged."""
        return len({self._answer(row) for row in self.rows if row["role"] not in (PRIMARY, SECONDARY)})


def validation(counts: Any, physicians: Physicians) -> dict[str, Any]:
    """The validation in the form of report.json.

    `counts`: the rows of a bundle (`verify_counts.BundleCounts`).
    """
    run, minimum = counts.run, counts.run["plan"]["minimum"]
    models_drawn = {row["model"] for row in physicians.drawn}
    simulated = any(row["simulated"] for row in physicians.rows)
    rate = next(rate for rate in run["protocol"]["rates"] if rate["name"] == run["validation"]["rate"])
    by_model: dict[str, list[Judged]] = defaultdict(list)
    checked: dict[str, list[tuple[str, bool, dict[str, Any]]]] = defaultdict(list)
    for key in counts.judgments:
        verdict, dataset = counts.verdict_of(key), counts.dataset_of(key[1], key[2])
        if not verdict or dataset is None or counts.samples[key[1]]["arm"] != rate["arm"]:
            continue
        cluster, found = counts.cluster_of(key[1]), physicians.checked.get(key) if _is_checkable(counts, key) else None
        if found:
            checked[key[0]].append((cluster, verdict in run["verdicts"]["against"], found))
        if counts.in_rate(key, rate) and verdict in (rate["scope"] or rate["counted"]):
            truth = FAILED_BY_ANSWER.get(found["truth"]) if found else None
            of_rate = None
            if found and truth is not None:
                of_rate = {"weight": found["weight"], "hit": truth is (rate["better"] == "low")}
            by_model[key[0]].append(
                (cluster, verdict in rate["hits"], of_rate, dataset, _is_checkable(counts, key), key[1])
            )
    return {
        "rate": rate["name"],
        "drawn": len(physicians.drawn),
        "closed": len(physicians.closed),
        "third": physicians.third,
        "complete": len(physicians.closed) == len(physicians.drawn),
        "not_drawn": [model for model in run["endpoints"] if model not in models_drawn],
        "seed": run["validation"]["seed"],
        "created_at": run["validation"]["created_at"],
        "simulated_physicians": simulated,
        "models": [
            _model(counts, model, by_model[model], checked[model], minimum)
            for model in run["endpoints"]
            if by_model.get(model)
        ],
        "labels": _labels(counts, physicians, minimum) if run["validation"]["by_rubric"] else [],
        "comparisons": _comparisons(counts, by_model, rate, minimum),
    }


def _is_checkable(counts: Any, key: Any) -> bool:
    """Whether physicians can be asked: the judge decided, or failed and a rule counts it."""
    judgment = counts.judgments[key]
    if counts.outcomes[key[:4]] != "answered" or not counts.verdict_of(key):
        return False
    return judgment["verdict"] in counts.run["verdicts"]["judged"] or judgment["status"] == "failed"


def _with_settled(rows: Sequence[Judged]) -> list[Judged]:
    """The rows, with those that a rule or code decided as known; each counts once."""
    result = []
    for hit in (True, False):
        of_verdict = [row for row in rows if row[1] is hit]
        drawn = sum(row[2]["weight"] for row in of_verdict if row[2])
        could_be_drawn = sum(row[4] for row in of_verdict)
        is_known = drawn or not could_be_drawn
        for cluster, _hit, found, dataset, checkable, sample in of_verdict:
            if not checkable and is_known:
                found = {"weight": 1.0, "hit": hit}
            elif found and could_be_drawn < len(of_verdict):
                found = {**found, "weight": found["weight"] * could_be_drawn / drawn}
            result.append((cluster, hit, found, dataset, checkable, sample))
    return result


def _comparisons(
    counts: Any, by_model: dict[str, list[Judged]], rate: dict[str, Any], minimum: int
) -> list[dict[str, Any]]:
    """The pairs of models, by the judge and corrected, on the samples that both answered."""
    run, result = counts.run, list[dict[str, Any]]()
    pairs = [pair for pair in run["plan"]["comparisons"] if set(pair) <= set(run["endpoints"])]
    names = [dataset["name"] for dataset in run["protocol"]["datasets"]]
    pooled = [COMBINED] if run["protocol"]["pooled"] and len(names) > 1 else []
    for place in [*names, *pooled] if _is_share(rate) else []:
        compared = []
        for pair in pairs:
            of_place = [[row for row in by_model[name] if place in (row[3], COMBINED)] for name in pair]
            first, second = ({(row[5], row[3]) for row in rows} for rows in of_place)
            shared = first & second
            sides = [_checked([row for row in rows if (row[5], row[3]) in shared]) for rows in of_place]
            totals = [cluster_totals(side.clusters, side.judge, np.ones(len(side.clusters))) for side in sides]
            raw = paired_difference(*totals[0], *totals[1], minimum=minimum)
            compared.append((pair, raw, corrected_difference(*sides, minimum=minimum)))
        raws, corrections = (_differences([row[column] for row in compared]) for column in (1, 2))
        result += [
            {
                "dataset": place,
                "first": pair[0],
                "second": pair[1],
                "clusters": both.clusters,
                "raw": one,
                "corrected": two,
            }
            for (pair, both, _corrected), one, two in zip(compared, raws, corrections)  # noqa: B905
        ]
    return result


def _is_share(rate: dict[str, Any]) -> bool:
    weights = {*rate["hits"].values(), *rate["counted"].values()}
    is_plain = rate["unit"] == "criterion" and not rate["weighted"] and not rate["points"] and weights == {1}
    return is_plain and set(rate["scope"] or rate["counted"]) == set(rate["counted"])


def _checked(rows: Sequence[Judged]) -> CheckedVerdicts:
    settled = _with_settled(rows)
    return CheckedVerdicts(
        np.array([row[0] for row in settled], dtype=str),
        np.array([row[1] for row in settled], dtype=bool),
        np.array([row[2]["hit"] if row[2] else np.nan for row in settled], dtype=float),
        np.array([row[2]["weight"] if row[2] else 1.0 for row in settled], dtype=float),
    )


def _differences(found: Sequence[PairedDifference]) -> list[dict[str, Any]]:
    adjusted = iter(holm([each.p for each in found if each.p is not None]))
    return [
        {
            "value": each.difference,
            "low": each.low,
            "high": each.high,
            "p": each.p,
            "p_adjusted": None if each.p is None else next(adjusted),
        }
        for each in found
    ]


def _model(
    counts: Any, model: str, rows: Sequence[Judged], checked: Sequence[tuple[str, bool, dict[str, Any]]], minimum: int
) -> dict[str, Any]:
    judge = [
        (cluster, FAILED_BY_ANSWER[physicians["truth"]], failed, physicians["weight"])
        for cluster, failed, physicians in checked
        if physicians["truth"] in FAILED_BY_ANSWER
    ]
    both = [
        (
            cluster,
            FAILED_BY_ANSWER[physicians["first"]],
            FAILED_BY_ANSWER[physicians["second"]],
            physicians["weight"],
        )
        for cluster, _failed, physicians in checked
        if physicians["first"] in FAILED_BY_ANSWER and physicians["second"] in FAILED_BY_ANSWER
    ]
    names = [dataset["name"] for dataset in counts.run["protocol"]["datasets"]]
    of_datasets = [(name, [row for row in rows if row[3] == name]) for name in names if len(names) > 1]
    return {
        "endpoint": model,
        "judge": quality(judge, minimum),
        "physicians": quality(both, minimum),
        "raw": raw(rows, minimum),
        "corrected": corrected(_with_settled(rows), minimum),
        "datasets": [
            {
                "dataset": name,
                "raw": raw(dataset_rows, minimum),
                "corrected": corrected(_with_settled(dataset_rows), minimum),
            }
            for name, dataset_rows in of_datasets
            if dataset_rows
        ],
    }


def _labels(counts: Any, physicians: Physicians, minimum: int) -> list[dict[str, Any]]:
    """The agreement by rubric key: of the two physicians, and of each of them with the judge."""
    run = counts.run
    by_label: dict[str, list[tuple[str, float, bool, bool, bool]]] = defaultdict(list)
    for key, checked in physicians.checked.items():
        verdict = counts.verdict_of(key)
        first, second = (FAILED_BY_ANSWER.get(checked[name]) for name in ("first", "second"))
        if first is not None and second is not None and _is_checkable(counts, key):
            failed = verdict in run["verdicts"]["against"]
            by_label[key[4]].append((counts.cluster_of(key[1]), checked["weight"], first, second, failed))
    result = []
    for label in sorted(by_label):
        rows = by_label[label]
        weight = sum(row[1] for row in rows)
        humans = quality([(cluster, one, other, w) for cluster, w, one, other, _judge in rows], minimum)
        agree = [sum(row[1] for row in rows if row[column] == row[4]) / weight for column in (2, 3)]
        kappas = [
            _figures(
                [[row[1] * (cell == 2 * (not row[column]) + (not row[4])) for cell in range(4)] for row in rows],
                1 << 60,
            )
            for column in (2, 3)
        ]
        known = [figures["kappa"]["value"] for figures in kappas if figures["kappa"]["value"] is not None]
        result.append(
            {
                "label": label,
                "n": len(rows),
                "clusters": humans["clusters"],
                "physicians_agree": sum(row[1] for row in rows if row[2] == row[3]) / weight,
                "physicians_kappa": humans["kappa"]["value"],
                "low": humans["kappa"]["low"],
                "high": humans["kappa"]["high"],
                "judge_agrees": sum(agree) / 2,
                "judge_kappa": sum(known) / 2 if len(known) == 2 else None,
            }
        )
    return result
