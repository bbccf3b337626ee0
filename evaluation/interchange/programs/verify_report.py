"""Put report.json together again from what was counted, and compare every number in it; part of verify_run.py, which says what
it checks. Needs Python 3.9 and nothing else.

A number that is in report.json and was not worked out again is a fault, so that none is taken over.
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
else:  # in a bundle, where the file lies beside this one
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_changes  # type: ignore[import-not-found,no-redef]
    import verify_intervals  # type: ignore[import-not-found,no-redef]
    import verify_judges  # type: ignore[import-not-found,no-redef]
    import verify_validation  # type: ignore[import-not-found,no-redef]

ALPHA = 0.05


def put_together(found: Any, numbers: dict[str, Any], folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What report.json must say, and what is wrong with the rows that it follows from.

    `found`: the rows of the bundle (`verify_run.Counted`). `numbers`: numbers.json, every number of which was compared before.
    """
    run, faults, validation = found.run, list[str](), None
    if run["validation"]:
        physicians = verify_validation.Physicians(found, folder)
        faults, validation = physicians.faults, verify_validation.validation(found, physicians)
    protocol, plan = run["protocol"], run["plan"]
    order = [each["name"] for each in protocol["rates"]]
    overall = [_row(row, order) for row in numbers["rows"] if not row["facet"]]
    compared = [_comparison(each, run) for each in numbers["comparisons"] if not each["facet"]]
    changes = [_change(each) for each in numbers["changes"]]
    facets = protocol["facets"]
    scored = facets if protocol["scores"] else []
    judge = next((each["model"] for each in run["models"] if each["endpoint"] == run["judge"]), None)
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
            {**_rate(each), "planned": plan["frozen"] and each["name"] == plan["metric"]} for each in protocol["rates"]
        ],
        "plan": plan,
        "common_samples": False,
        "samples": {"counted": len(found.units), "asked": len(found.units)},
        "endpoints": run["endpoints"],
        "responses_failed": dict(sorted(found.failed.items())),
        "overall": overall,
        "facets": {name: [_row(row, order) for row in numbers["rows"] if row["facet"] == name] for name in facets},
        "without": numbers["without"],
        "outcomes": numbers["outcomes"],
        "comparisons": compared,
        "facet_comparisons": {
            name: [_comparison(each, run) for each in numbers["comparisons"] if each["facet"] == name]
            for name in facets
        },
        "ranks": ranks(run, overall, compared),
        "contrasts": list(contrasts(run, overall)),
        "changes": changes,
        "bottlenecks": verify_changes.bottlenecks(found, changes),
        "averages": list(averages(run, overall)),
        "score_rules": [{name: each[name] for name in ("name", "low", "high")} for each in protocol["scores"]],
        "scores": [_scores(row) for row in numbers["scores"] if not row["facet"]],
        "score_facets": {name: [_scores(row) for row in numbers["scores"] if row["facet"] == name] for name in scored},
        "judges": verify_judges.judges(found),
        "repeats": verify_judges.repeats(found),
        "self_preference": verify_judges.preference(found),
        "validation": validation,
        "cost": cost(folder),
    }, faults


def cost(folder: Path) -> str:
    """The sum over calls.jsonl."""
    with (folder / "calls.jsonl").open(encoding="utf-8") as file:
        return str(sum((Decimal(json.loads(line)["cost"]) for line in file), Decimal(0)))


# -------------------------------------------------------------------------------------------- the same in another form


def _rate(rate: Mapping[str, Any]) -> dict[str, Any]:
    return {name: rate[name] for name in ("name", "label", "rule", "interval", "unit", "arm", "weights")}


def _primary(run: Mapping[str, Any]) -> str:
    names = [each["name"] for each in run["protocol"]["rates"]]
    return str(run["plan"]["metric"] if run["plan"]["metric"] in names else names[0])


def _measured(told: Mapping[str, Any]) -> dict[str, Any]:
    bounds = told["bounds"] or {"best": None, "worst": None}
    plain = ("numerator", "denominator", "low", "high", "method", "clusters", "n")
    ends = {name: bounds[name] for name in ("best", "worst")}
    return {"rate": told["value"], "unjudged": told["excluded"], **{name: told[name] for name in plain}, **ends}


def _row(row: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    first = next((name for name in order if name in row["rates"]), "")
    rates = {name: {"value": each["value"], **_measured(each)} for name, each in row["rates"].items()}
    value = {"value": row["value"]} if row["value"] else {}
    placed = {"endpoint": row["model"], "dataset": row["dataset"], **value}
    return {**placed, **_measured(row["rates"][first]), "rates": rates, "verdicts": row["verdicts"]}


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    value = {"value": row["value"]} if row["value"] else {}
    return {"endpoint": row["model"], "dataset": row["dataset"], **value, "scores": row["scores"]}


def _comparison(told: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in told.items() if name not in ("facet", "rates", "value")}
    value = {"value": told["value"]} if told["value"] else {}
    first, second = told["rates"]
    planned = run["plan"]["frozen"] and not told["facet"] and told["rate"] == _primary(run)
    return {**plain, **value, "planned": planned, "first_rate": first, "second_rate": second}


def _change(told: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in told.items() if name != "rates"}
    first, second = told["rates"]
    return {**plain, **told["moves"], "first_rate": first, "second_rate": second}


# ---------------------------------------------------------------------------------------------- what follows from rates


def ranks(
    run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], compared: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The place of each model by each rate on each data set, and the places that the data do not rule out."""
    told = []
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
            for each in compared:
                pair = each["first"], each["second"]
                if (each["dataset"], each["rate"]) == (dataset, name) and set(pair) <= values.keys():
                    p, gap = each["p_adjusted"], each["difference"]
                    if p is not None and p < ALPHA and gap:
                        lower, higher = pair if sign * gap < 0 else pair[::-1]
                        best[higher] += 1
                        worst[lower] -= 1
            places = {who: 1 + sum(other < value for other in values.values()) for who, value in values.items()}
            told += [
                {"dataset": dataset, "rate": name, "endpoint": who}
                | {"place": places[who], "best": best[who], "worst": worst[who]}
                for who in sorted(values, key=lambda who: (places[who], who))
            ]
    return told


def contrasts(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A rate of a model on one data set less that on another."""
    of = {(row["endpoint"], row["dataset"]): row["rates"] for row in rows}
    for first, second, label in run["protocol"]["contrasts"]:
        for model in run["endpoints"]:
            if (model, first) in of and (model, second) in of:
                for rate in run["protocol"]["rates"]:
                    one, other = (of[model, name][rate["name"]]["value"] for name in (first, second))
                    sides = {"dataset": first, "value": one}, {"dataset": second, "value": other}
                    gap = None if one is None or other is None else one - other
                    told = {"endpoint": model, "label": label, "rate": rate["name"], "difference": gap}
                    yield {**told, "first": sides[0], "second": sides[1]}


def averages(run: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Unweighted means of a rate over models and over data sets."""
    variants = {one["name"]: one["variant"] for one in run["protocol"]["datasets"]}
    for rate in run["protocol"]["rates"]:
        of: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            found = row["rates"][rate["name"]]
            if row["dataset"] in variants and found["denominator"]:
                of[variants[row["dataset"]]].append((row["dataset"], row["endpoint"], found["value"]))
        for variant, cells in of.items():
            if len(cells) > 1:
                means = []
                for at in (0, 1):
                    names = dict.fromkeys(cell[at] for cell in cells)
                    means.append({name: verify_changes.mean([c[2] for c in cells if c[at] == name]) for name in names})
                yield {"rate": rate["name"], "variant": variant, "datasets": means[0], "models": means[1]}


# ------------------------------------------------------------------------------------------------------------- compared


class ReportCheck:
    """report.json beside what it must say. `checked`: how many of its values were compared."""

    def __init__(self, expected: Any, told: Any) -> None:
        self.faults: list[str] = []
        self.checked = 0
        self._compare("", expected, told)

    def _fault(self, path: str, text: str) -> None:
        self.faults.append(f"report.json: {path.lstrip('.')}: {text}")

    def _compare(self, path: str, expected: Any, told: Any) -> None:
        if isinstance(expected, Mapping) and isinstance(told, Mapping):
            for key in expected:
                if key in told:
                    self._compare(f"{path}.{key}", expected[key], told[key])
                else:
                    self._fault(f"{path}.{key}", "missing")
            for key in told:
                if key not in expected and not _is_text(told[key]):
                    self._fault(f"{path}.{key}", "does not follow from the rows")
        elif isinstance(expected, list) and isinstance(told, list):
            if len(expected) != len(told):
                self._fault(path, f"{len(told)} entries, not {len(expected)}")
            for at, pair in enumerate(zip(expected, told)):  # noqa: B905 -- Python 3.9 has no strict
                self._compare(f"{path}.{_name(pair[0], at)}", *pair)
        else:
            self.checked += 1
            if not _is_same(path, expected, told):
                self._fault(path, f"{json.dumps(told)}, not {json.dumps(expected)}")


def _is_same(path: str, expected: Any, told: Any) -> bool:
    if path == ".cost":
        try:
            return Decimal(expected) == Decimal(told)
        except (InvalidOperation, TypeError):
            return False
    if isinstance(expected, bool) is not isinstance(told, bool):
        return False
    return verify_intervals.is_close(expected, told)


def _is_text(value: Any) -> bool:
    """Whether there is nothing to count in it: a label, or a list of names."""
    if isinstance(value, (list, Mapping)):
        return all(map(_is_text, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, str) or value is None


def _name(entry: Any, at: int) -> str:
    """An entry of a list as a reader finds it again."""
    if not isinstance(entry, Mapping):
        return str(at)
    names = ("label", "name", "facet", "value", "dataset", "rate", "first", "second", "endpoint", "kind")
    told = [entry[name] for name in names if isinstance(entry.get(name), str) and entry[name]]
    return f"[{', '.join(told) or at}]"


def check(found: Any, numbers: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What is wrong with report.json and the rows behind it, and how many of its values were compared."""
    expected, faults = put_together(found, numbers, folder)
    compared = ReportCheck(expected, json.loads((folder / "report.json").read_text(encoding="utf-8")))
    return {"faults": faults + compared.faults, "checked": compared.checked}
