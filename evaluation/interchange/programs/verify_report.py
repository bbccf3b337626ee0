"""Rebuilds report.json from the counted numbers and compares it; part of verify_run.py.

Needs only Python 3.9. A number in report.json that was not recomputed is a fault, so that none is
trusted unchecked.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.interchange.programs import verify_changes, verify_intervals, verify_judges, verify_validation
else:  # in a bundle, with the other files in the same folder
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_changes  # type: ignore[import-not-found,no-redef]
    import verify_intervals  # type: ignore[import-not-found,no-redef]
    import verify_judges  # type: ignore[import-not-found,no-redef]
    import verify_validation  # type: ignore[import-not-found,no-redef]

ALPHA = 0.05


def build_report(counts: Any, numbers: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The expected content of report.json, and the faults of the rows that it is built from.

    `counts`: the rows of the bundle (`verify_counts.BundleCounts`). `numbers`: numbers.json, after
    all its numbers were compared.
    """
    run, faults, validation = counts.run, list[str](), None
    if run["validation"]:
        physicians = verify_validation.Physicians(counts, folder)
        faults, validation = physicians.faults, verify_validation.validation(counts, physicians)
    protocol, plan = run["protocol"], run["plan"]
    order = [rate["name"] for rate in protocol["rates"]]
    overall = [_row(row, order) for row in numbers["rows"] if not row["facet"]]
    comparisons = [_comparison(row, run) for row in numbers["comparisons"] if not row["facet"]]
    changes = [_change(row) for row in numbers["changes"]]
    facets = protocol["facets"]
    score_facets = facets if protocol["scores"] else []
    judge = next((model["model"] for model in run["models"] if model["endpoint"] == run["judge"]), None)
    return {
        **{name: run[name] for name in ("run", "judge", "models", "simulated", "simulated_reviewers", "selection")},
        **{f"release_{name}": run["release"][name] for name in ("version", "sha256")},
        **{name: run["settings"][name] for name in ("seed", "sampling", "judge_temperature")},
        "release": run["release"]["name"],
        "benchmark": run["release"]["benchmark"],
        "judge_model": judge,
        "finished": run["status"] == "finished",
        "rate": _rate(protocol["rates"][0]),
        "rates": [
            {**_rate(rate), "planned": plan["frozen"] and rate["name"] == plan["metric"]} for rate in protocol["rates"]
        ],
        "plan": plan,
        "common_samples": False,
        "samples": {"counted": len(counts.units), "asked": len(counts.units)},
        "endpoints": run["endpoints"],
        "responses_failed": dict(sorted(counts.failed.items())),
        "overall": overall,
        "facets": {name: [_row(row, order) for row in numbers["rows"] if row["facet"] == name] for name in facets},
        "without": numbers["without"],
        "outcomes": numbers["outcomes"],
        "comparisons": comparisons,
        "facet_comparisons": {
            name: [_comparison(row, run) for row in numbers["comparisons"] if row["facet"] == name] for name in facets
        },
        "ranks": ranks(run, overall, comparisons),
        "contrasts": list(contrasts(run, overall)),
        "changes": changes,
        "bottlenecks": verify_changes.bottlenecks(counts, changes),
        "averages": list(averages(run, overall)),
        "score_rules": [{name: rule[name] for name in ("name", "low", "high")} for rule in protocol["scores"]],
        "scores": [_scores(row) for row in numbers["scores"] if not row["facet"]],
        "score_facets": {
            name: [_scores(row) for row in numbers["scores"] if row["facet"] == name] for name in score_facets
        },
        "judges": verify_judges.judges(counts),
        "repeats": verify_judges.repeats(counts),
        "self_preference": verify_judges.preference(counts),
        "validation": validation,
        "oddities": [
            {"endpoint": model, "ending": ending, "responses": n} for (model, ending), n in sorted(counts.odd.items())
        ],
        "cost": cost(folder),
        "estimated": run["estimated"],
    }, faults


def cost(folder: Path) -> str:
    """The total cost of calls.jsonl."""
    with (folder / "calls.jsonl").open(encoding="utf-8") as file:
        return str(sum((Decimal(json.loads(line)["cost"]) for line in file), Decimal(0)))


# ------------------------------------------------------------- rows of numbers.json in another form


def _rate(rate: Mapping[str, Any]) -> dict[str, Any]:
    return {name: rate[name] for name in ("name", "label", "rule", "interval", "unit", "arm", "weights")}


def _primary(run: Mapping[str, Any]) -> str:
    names = [rate["name"] for rate in run["protocol"]["rates"]]
    return str(run["plan"]["metric"] if run["plan"]["metric"] in names else names[0])


def _measured(rate: Mapping[str, Any]) -> dict[str, Any]:
    bounds = rate["bounds"] or {"best": None, "worst": None}
    fields = ("numerator", "denominator", "low", "high", "method", "clusters", "n")
    ends = {name: bounds[name] for name in ("best", "worst")} | ({"incomplete": True} if rate["partial"] else {})
    return {"rate": rate["value"], "unjudged": rate["excluded"], **{name: rate[name] for name in fields}, **ends}


def _row(row: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    first = next((name for name in order if name in row["rates"]), "")
    rates = {name: {"value": rate["value"], **_measured(rate)} for name, rate in row["rates"].items()}
    value = {"value": row["value"]} if row["value"] else {}
    cell = {"endpoint": row["model"], "dataset": row["dataset"], **value}
    return {**cell, **_measured(row["rates"][first]), "rates": rates, "verdicts": row["verdicts"]}


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    value = {"value": row["value"]} if row["value"] else {}
    return {"endpoint": row["model"], "dataset": row["dataset"], **value, "scores": row["scores"]}


def _comparison(row: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in row.items() if name not in ("facet", "rates", "value")}
    value = {"value": row["value"]} if row["value"] else {}
    first, second = row["rates"]
    planned = run["plan"]["frozen"] and not row["facet"] and row["rate"] == _primary(run)
    return {**fields, **value, "planned": planned, "first_rate": first, "second_rate": second}


def _change(row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in row.items() if name != "rates"}
    first, second = row["rates"]
    return {**fields, **row["moves"], "first_rate": first, "second_rate": second}


# ------------------------------------------------------------------------------- derived from rates


def ranks(
    run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], comparisons: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The rank of each model by each rate on each data set.

    `best`, `worst`: the ranks that the data do not rule out.
    """
    result = []
    rows = [row for row in rows if row["endpoint"] not in run["selection"]]
    for rate in run["protocol"]["rates"]:
        name, sign = rate["name"], 1 if rate["better"] == "low" else -1
        for dataset in dict.fromkeys(row["dataset"] for row in rows):
            values = {
                row["endpoint"]: sign * row["rates"][name]["value"]
                for row in rows
                if row["dataset"] == dataset and row["rates"][name]["low"] is not None
            }
            best, worst = dict.fromkeys(values, 1), dict.fromkeys(values, len(values))
            for comparison in comparisons:
                pair = comparison["first"], comparison["second"]
                if (comparison["dataset"], comparison["rate"]) == (dataset, name) and set(pair) <= values.keys():
                    p, difference = comparison["p_adjusted"], comparison["difference"]
                    if p is not None and p < ALPHA and difference:
                        lower, higher = pair if sign * difference < 0 else pair[::-1]
                        best[higher] += 1
                        worst[lower] -= 1
            places = {model: 1 + sum(other < value for other in values.values()) for model, value in values.items()}
            result += [
                {"dataset": dataset, "rate": name, "endpoint": model}
                | {"place": places[model], "best": best[model], "worst": worst[model]}
                for model in sorted(values, key=lambda model: (places[model], model))
            ]
    return result


def contrasts(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each rate of each model on one data set minus that on another."""
    rates_of = {(row["endpoint"], row["dataset"]): row["rates"] for row in rows}
    for first, second, label in run["protocol"]["contrasts"]:
        for model in run["endpoints"]:
            if (model, first) in rates_of and (model, second) in rates_of:
                for rate in run["protocol"]["rates"]:
                    one, other = (rates_of[model, name][rate["name"]]["value"] for name in (first, second))
                    sides = {"dataset": first, "value": one}, {"dataset": second, "value": other}
                    difference = None if one is None or other is None else one - other
                    fields = {"endpoint": model, "label": label, "rate": rate["name"], "difference": difference}
                    yield {**fields, "first": sides[0], "second": sides[1]}


def averages(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Unweighted means of a rate over models and over data sets."""
    variants = {dataset["name"]: dataset["variant"] for dataset in run["protocol"]["datasets"]}
    for rate in run["protocol"]["rates"]:
        by_variant: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            measured = row["rates"][rate["name"]]
            if row["dataset"] in variants and measured["denominator"]:
                by_variant[variants[row["dataset"]]].append((row["dataset"], row["endpoint"], measured["value"]))
        for variant, cells in by_variant.items():
            if len(cells) > 1:
                means = []
                for column in (0, 1):
                    names = dict.fromkeys(cell[column] for cell in cells)
                    means.append(
                        {name: verify_changes.mean([c[2] for c in cells if c[column] == name]) for name in names}
                    )
                yield {"rate": rate["name"], "variant": variant, "datasets": means[0], "models": means[1]}


# --------------------------------------------------------------------------------------- comparison


class ReportCheck:
    """Compares report.json with its expected content. `checked`: how many values were compared."""

    def __init__(self, expected: Any, report: Any) -> None:
        self.faults: list[str] = []
        self.checked = 0
        self._compare("", expected, report)

    def _add_fault(self, path: str, text: str) -> None:
        self.faults.append(f"report.json: {path.lstrip('.')}: {text}")

    def _compare(self, path: str, expected: Any, stated: Any) -> None:
        if isinstance(expected, Mapping) and isinstance(stated, Mapping):
            for key in expected:
                if key in stated:
                    self._compare(f"{path}.{key}", expected[key], stated[key])
                else:
                    self._add_fault(f"{path}.{key}", "missing")
            for key in stated:
                if key not in expected and not _is_text(stated[key]):
                    self._add_fault(f"{path}.{key}", "does not follow from the rows")
        elif isinstance(expected, list) and isinstance(stated, list):
            if len(expected) != len(stated):
                self._add_fault(path, f"{len(stated)} entries, not {len(expected)}")
            for index, pair in enumerate(zip(expected, stated)):  # noqa: B905 -- Python 3.9 has no strict
                self._compare(f"{path}.{_entry_name(pair[0], index)}", *pair)
        else:
            self.checked += 1
            if not _is_same(path, expected, stated):
                self._add_fault(path, f"{json.dumps(stated)}, not {json.dumps(expected)}")


def _is_same(path: str, expected: Any, stated: Any) -> bool:
    if path == ".cost":
        try:
            return Decimal(expected) == Decimal(stated)
        except (InvalidOperation, TypeError):
            return False
    if isinstance(expected, bool) is not isinstance(stated, bool):
        return False
    return verify_intervals.is_close(expected, stated)


def _is_text(value: Any) -> bool:
    """Whether a value has no numbers, such as a label or a list of names."""
    if isinstance(value, (list, Mapping)):
        return all(map(_is_text, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, str) or value is None


def _entry_name(entry: Any, index: int) -> str:
    """A name by which a reader can find an entry of a list."""
    if not isinstance(entry, Mapping):
        return str(index)
    names = ("label", "name", "facet", "value", "dataset", "rate", "first", "second", "endpoint", "kind")
    values = [entry[name] for name in names if isinstance(entry.get(name), str) and entry[name]]
    return f"[{', '.join(values) or index}]"


def check(counts: Any, numbers: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The faults of report.json and the rows behind it, and how many values were compared."""
    expected, faults = build_report(counts, numbers, folder)
    result = ReportCheck(expected, json.loads((folder / "report.json").read_text(encoding="utf-8")))
    return {"faults": faults + result.faults, "checked": result.checked}
