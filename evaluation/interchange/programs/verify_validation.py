"""The judge against physicians, and the rates corrected by them, worked out again from what each physician answered; part of
verify_run.py, which says what it checks. Needs Python 3.9 and nothing else.

The same estimators as docs/statistics.md describes, written once more: what is wrong in one is not wrong in the other.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.interchange.programs import verify_bootstrap, verify_intervals, verify_judges, verify_verdicts
else:  # in a bundle, where the file lies beside this one
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_bootstrap  # type: ignore[import-not-found,no-redef]
    import verify_intervals  # type: ignore[import-not-found,no-redef]
    import verify_judges  # type: ignore[import-not-found,no-redef]
    import verify_verdicts  # type: ignore[import-not-found,no-redef]

ADDED = 1 / 12  # of a typical validated cluster, failed and passed, per verdict
DECIDED = {"not-met": True, "met": False}  # whether the criterion failed
PRIMARY, SECONDARY = "primary", "secondary"
Rated = tuple[str, bool, bool, float]  # sample, truth, verdict, weight
Cells = Sequence[float]  # weights of: both failed; failed, passed; passed, failed; both passed
Judged = tuple[str, bool, "dict[str, Any] | None", str]  # cluster, failed by the judge, the physicians, data set


def _table(cells: Cells) -> list[list[float]]:
    return [[cells[0], cells[1]], [cells[2], cells[3]]]


def _balanced_f1(table: Sequence[Sequence[float]]) -> float | None:
    wrong = table[0][1] + table[1][0]
    if not all(map(sum, table)):
        return None
    return sum(2 * table[at][at] / (2 * table[at][at] + wrong) for at in (0, 1)) / 2


FIGURES: dict[str, Callable[[Sequence[Sequence[float]]], float | None]] = {
    "kappa": verify_judges.kappa,
    "ac1": verify_judges.ac1,
    "balanced_f1": _balanced_f1,
}


def quality(rows: Sequence[Rated], minimum: int) -> dict[str, Any]:
    """How often the second verdict is that of the first, from one row a criterion."""
    clusters: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    for cluster, truth, verdict, weight in rows:
        clusters[cluster][2 * (not truth) + (not verdict)] += weight
    cells = list(clusters.values())
    figures = _figures(cells, minimum)
    found: dict[str, Any] = {"n": len(rows), "clusters": len(cells)}
    for name, right, wrong, of in (("sensitivity", 0, 1, True), ("specificity", 3, 2, False)):
        n = sum(truth is of for _cluster, truth, *_rest in rows)
        found[name] = _interval([(each[right], each[right] + each[wrong]) for each in cells], n, minimum, True)
    return {**found, **figures}


def _figures(cells: Sequence[Cells], minimum: int) -> dict[str, dict[str, float | None]]:
    """Each with its interval, all of them from the same draws."""
    whole = _table([sum(each[at] for each in cells) for at in range(4)])
    found = {}
    values = {name: figure(whole) if cells else None for name, figure in FIGURES.items()}
    drawn: dict[str, list[float | None]] = {name: [] for name in FIGURES}
    if len(cells) >= minimum and any(value is not None for value in values.values()):
        # As clusters that are alike but for rounding are alike.
        for totals in verify_bootstrap.resampled([[round(one, 9) for one in each] for each in cells]):
            for name, figure in FIGURES.items():
                drawn[name].append(figure(_table(totals)))
    for name, value in values.items():
        ends = verify_bootstrap.ends([each for each in drawn[name] if each is not None]) if value is not None else None
        low, high = ends or (None, None)
        found[name] = {"value": value, "low": low, "high": high}
    return found


def _interval(clusters: Iterable[tuple[float, float]], n: int, minimum: int, weighted: bool) -> dict[str, Any]:
    some = [each for each in clusters if each[1]]
    hits, counted = [y for y, _m in some], [m for _y, m in some]
    value = min(1.0, max(0.0, sum(hits) / sum(counted))) if some else None
    return {"value": value, **verify_intervals.interval(hits, counted, n, minimum, weighted)}


def raw(rows: Sequence[Judged], minimum: int) -> dict[str, Any]:
    """The rate by the judge."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for cluster, failed, *_rest in rows:
        totals[cluster][0] += failed
        totals[cluster][1] += 1
    return _interval([(y, m) for y, m in totals.values()], len(rows), minimum, False)


def corrected(rows: Sequence[Judged], minimum: int) -> dict[str, Any]:
    """The rate that physicians would have found: Rogan & Gladen's, with the uncertainty of the validation sample."""
    found: dict[str, Any] = {"value": None, "low": None, "high": None, "clipped": False, "why": None}
    truth = [DECIDED.get(each["truth"]) if each else None for *_of, each, _dataset in rows]
    total, verdicts = len(rows), [one for one in (True, False) if any(row[1] is one for row in rows)]
    if not total or any(
        not any(row[1] is one and t is not None for row, t in zip(rows, truth))  # noqa: B905
        for one in verdicts
    ):
        return {**found, "why": "nothing"}
    residuals, members = defaultdict[str, float](float), defaultdict[str, int](int)
    value = centre = extra = 0.0
    for verdict in verdicts:
        size, of_cluster = 0, defaultdict[str, int](int)
        weights: list[tuple[str, float, bool]] = []
        for (cluster, failed, each, _dataset), t in zip(rows, truth):  # noqa: B905
            if failed is verdict:
                size += 1
                of_cluster[cluster] += 1
                members[cluster] += 1
                if t is not None and each is not None:
                    weights.append((cluster, each["weight"], t))
        whole = sum(weight for _cluster, weight, _t in weights)
        drawn: dict[str, list[tuple[float, bool]]] = defaultdict(list)
        for cluster, weight, t in weights:
            drawn[cluster].append((weight * size / whole, t))
        by_cluster = {cluster: sum(w for w, _t in of) for cluster, of in drawn.items()}
        typical = sum(each**2 for each in by_cluster.values()) / size
        grown = size + 2 * ADDED * typical
        failures = sum(w * t for of in drawn.values() for w, t in of)
        share = (failures + ADDED * typical) / grown
        value += failures / total
        centre += size * share / total
        for cluster, n in of_cluster.items():
            residuals[cluster] += share * n
        for cluster, of in drawn.items():
            residuals[cluster] += sum(w * (t - share) for w, t in of) / math.sqrt(1 - by_cluster[cluster] / grown)
        extra += ADDED * (typical / total) ** 2 * ((1 - share) ** 2 + share**2)
    found["value"] = value = min(1.0, value)
    shares = {cluster: n / total for cluster, n in members.items()}
    looked = {row[0] for row, t in zip(rows, truth) if t is not None}  # noqa: B905
    freedom = verify_intervals.freedom_of(list(shares.values()))
    if len(looked) < minimum or freedom < verify_intervals.MINIMUM_DF:
        return found
    variance = extra + sum(
        (residuals[cluster] / total - centre * share) ** 2 / (1 - share) for cluster, share in shares.items()
    )
    effective = min(float(total), centre * (1 - centre) / variance)
    low, high = verify_intervals.wilson(value, effective)
    return {**found, "low": low, "high": high}


# --------------------------------------------------------------------------------------------------------------- rows


def _lines(path: Path) -> Iterable[Any]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


class Physicians:
    """What physicians answered: `checked` by judgment, with what they decided, what the first two said, and the weight."""

    def __init__(self, found: Any, folder: Path) -> None:
        self.drawn = list(_lines(folder / "validation.jsonl"))
        self.rows = list(_lines(folder / "physicians.jsonl"))
        self.faults: list[str] = []
        closed: dict[Any, float] = {}
        for row in self.drawn:
            name = f"validation.jsonl: {' '.join(map(str, self._answer(row)))}"
            if self._answer(row) not in found.outcomes:
                self.faults.append(f"{name}: no such response")
            if self._answer(row) in closed:
                self.faults.append(f"{name}: twice")
            if row["weight"] < 1:
                self.faults.append(f"{name}: a weight is at least 1")
            if row["closed"]:
                closed[self._answer(row)] = row["weight"]
        said: dict[Any, dict[str, str]] = defaultdict(dict)
        for row in self.rows:
            key = (*self._answer(row), row["rubric"])
            name = f"physicians.jsonl: {' '.join(map(str, key))} by {row['physician']}"
            if key[:4] not in closed or key not in found.judgments:
                self.faults.append(f"{name}: not drawn, or not decided")
                continue
            if row["role"] in said[key]:
                self.faults.append(f"{name}: twice")
            said[key][row["role"]] = row["answer"]
        self.checked: dict[Any, dict[str, Any]] = {
            key: {
                "weight": closed[key[:4]],
                "truth": verify_verdicts.majority([of[PRIMARY], of.get(SECONDARY, ""), *self._others(of)]),
                "first": of[PRIMARY],
                "second": of.get(SECONDARY, ""),
            }
            for key, of in said.items()
            if PRIMARY in of
        }
        self.closed = set(closed)

    @staticmethod
    def _answer(row: dict[str, Any]) -> tuple[str, str, str, int]:
        return row["model"], row["sample"], row["variant"], row["repeat"]

    @staticmethod
    def _others(of: dict[str, str]) -> list[str]:
        return [answer for role, answer in of.items() if role not in (PRIMARY, SECONDARY)]

    @property
    def third(self) -> int:
        """How many responses a third physician looked at."""
        return len({self._answer(row) for row in self.rows if row["role"] not in (PRIMARY, SECONDARY)})


def validation(found: Any, physicians: Physicians) -> dict[str, Any]:
    """What report.json says of physicians. `found`: the rows of a bundle (`verify_run.Counted`)."""
    run, minimum = found.run, found.run["plan"]["minimum"]
    drawn_of = {row["model"] for row in physicians.drawn}
    simulated = any(row["simulated"] for row in physicians.rows)
    by_model: dict[str, list[Judged]] = defaultdict(list)
    for key, each in found.judgments.items():
        if each["status"] == "done" and each["verdict"] in run["verdicts"]["judged"]:
            failed = each["verdict"] in run["verdicts"]["against"]
            dataset = found.dataset_of(key[1], key[2]) or ""
            by_model[key[0]].append((found.cluster_of(key[1]), failed, physicians.checked.get(key), dataset))
    return {
        "drawn": len(physicians.drawn),
        "closed": len(physicians.closed),
        "third": physicians.third,
        "complete": len(physicians.closed) == len(physicians.drawn),
        "not_drawn": [model for model in run["endpoints"] if model not in drawn_of],
        "seed": run["validation"]["seed"],
        "created_at": run["validation"]["created_at"],
        "simulated_physicians": simulated,
        "models": [_model(found, model, by_model[model], minimum) for model in run["endpoints"] if by_model.get(model)],
        "labels": _labels(found, physicians, minimum) if run["validation"]["by_rubric"] else [],
    }


def _model(found: Any, model: str, rows: Sequence[Judged], minimum: int) -> dict[str, Any]:
    seen = [(cluster, failed, each) for cluster, failed, each, _dataset in rows if each]
    judge = [
        (cluster, DECIDED[each["truth"]], failed, each["weight"])
        for cluster, failed, each in seen
        if each["truth"] in DECIDED
    ]
    both = [
        (cluster, DECIDED[each["first"]], DECIDED[each["second"]], each["weight"])
        for cluster, _failed, each in seen
        if each["first"] in DECIDED and each["second"] in DECIDED
    ]
    names = [one["name"] for one in found.run["protocol"]["datasets"]]
    of_datasets = [(name, [row for row in rows if row[3] == name]) for name in names if len(names) > 1]
    return {
        "endpoint": model,
        "judge": quality(judge, minimum),
        "physicians": quality(both, minimum),
        "raw": raw(rows, minimum),
        "corrected": corrected(rows, minimum),
        "datasets": [
            {"dataset": name, "raw": raw(own, minimum), "corrected": corrected(own, minimum)}
            for name, own in of_datasets
            if own
        ],
    }


def _labels(found: Any, physicians: Physicians, minimum: int) -> list[dict[str, Any]]:
    """By key of the rubric: the two physicians with each other, and each of them with the judge."""
    run = found.run
    by_label: dict[str, list[tuple[str, float, bool, bool, bool]]] = defaultdict(list)
    for key, each in physicians.checked.items():
        verdict = found.judgments[key]["verdict"]
        if each["first"] in DECIDED and each["second"] in DECIDED and verdict in run["verdicts"]["judged"]:
            first, second = DECIDED[each["first"]], DECIDED[each["second"]]
            failed = verdict in run["verdicts"]["against"]
            by_label[key[4]].append((found.cluster_of(key[1]), each["weight"], first, second, failed))
    told = []
    for label in sorted(by_label):
        rows = by_label[label]
        weight = sum(each[1] for each in rows)
        humans = quality([(cluster, one, other, w) for cluster, w, one, other, _judge in rows], minimum)
        agree = [sum(row[1] for row in rows if row[at] == row[4]) / weight for at in (2, 3)]
        kappas = [
            _figures([[row[1] * (at == 2 * (not row[who]) + (not row[4])) for at in range(4)] for row in rows], 1 << 60)
            for who in (2, 3)
        ]
        known = [each["kappa"]["value"] for each in kappas if each["kappa"]["value"] is not None]
        told.append(
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
    return told
