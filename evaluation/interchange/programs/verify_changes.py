"""Recomputes the changes between variants of the same samples; part of verify_run.py."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.interchange.programs import verify_intervals
else:  # in a bundle, with the other files in the same folder
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_intervals  # type: ignore[import-not-found,no-redef]

NAMES = ("label", "rate", "first", "second", "endpoint")  # which identify a change
NO_SUMS = [0, 0, 0, 0, 0, 0, 0]
Pairs = Mapping[str, tuple[Sequence[int], Sequence[int]]]  # sample -> its sums in both data sets


def changes(counts: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    """Every change in the form of numbers.json, by label, rate, data sets and model.

    The model '' stands for the mean over models. `counts`: the rows of a bundle
    (`verify_counts.BundleCounts`).
    """
    result: dict[tuple[str, ...], dict[str, Any]] = {}
    protocol, models = counts.run["protocol"], counts.run["endpoints"]
    known = {dataset["name"] for dataset in protocol["datasets"]}
    for rate in protocol["rates"]:
        if rate["interval"] == "bootstrap" or rate["weighted"]:
            continue
        for first, second, label in protocol.get("contrasts", []):
            if not {first, second} <= known:
                continue
            pairs = _pairs(counts, rate, first, second)
            rows = [_change(counts, rate, of_model) for of_model in pairs]
            if not any(row["clusters"] for row in rows):
                continue
            tested = [row for row in rows if row["p"] is not None]
            for row, p in zip(tested, verify_intervals.adjust([row["p"] for row in tested], "holm")):  # noqa: B905
                row["p_adjusted"] = p
            names = (label, rate["name"], first, second)
            result.update(((*names, model), row) for model, row in zip(models, rows))  # noqa: B905
            if len(rows) > 1:
                result[(*names, "")] = _over_models(counts, rate, pairs, rows)
    return result


def _rows(counts: Any, model: str, dataset: str) -> list[Any]:
    return [row for arm in ("trap", "control") for row in counts.cells.get((model, dataset, "", "", arm), [])]


def _sums_by_sample(counts: Any, rate: dict[str, Any], model: str, dataset: str) -> dict[str, list[int]]:
    units = verify_intervals.sums_by_unit(rate, _rows(counts, model, dataset))
    return {sample: sums for (sample, _variant), sums in units.items()}


def _samples(counts: Any, models: Sequence[str], dataset: str) -> set[str]:
    return {sample for model in models for (sample, _variant), *_rest in _rows(counts, model, dataset)}


def _pairs(counts: Any, rate: dict[str, Any], first: str, second: str) -> list[Pairs]:
    """For each model, its sums on the samples that are in both data sets."""
    models = counts.run["endpoints"]
    sides = [{model: _sums_by_sample(counts, rate, model, name) for model in models} for name in (first, second)]
    samples = _samples(counts, models, first) & _samples(counts, models, second)
    return [
        {sample: (sides[0][model].get(sample, NO_SUMS), sides[1][model].get(sample, NO_SUMS)) for sample in samples}
        for model in models
    ]


def _change(counts: Any, rate: dict[str, Any], pairs: Pairs) -> dict[str, Any]:
    """The change of one model, or of the sums over all models."""
    both = {(sample, ""): pair for sample, pair in pairs.items() if pair[0][6] and pair[1][6]}
    clusters = counts.by_cluster(both)
    rates = [verify_intervals.share(rate, [pair[side] for pair in both.values()]) for side in (0, 1)]
    ends = verify_intervals.difference(
        [pair[0] for pair in clusters], [pair[1] for pair in clusters], counts.run["plan"]["minimum"]
    )
    moves = dict.fromkeys(("kept", "broken", "fixed", "stayed"), 0)
    for now, before in (pair for pair in both.values() if pair[0][1] and pair[1][1]):
        right, was_right = (
            (side[0] == 0) if rate["better"] == "low" else (side[0] == side[1]) for side in (now, before)
        )
        moves[("kept" if was_right else "fixed") if right else ("broken" if was_right else "stayed")] += 1
    wrong_before, right_before = moves["fixed"] + moves["stayed"], moves["kept"] + moves["broken"]
    return {
        "rates": rates,
        "gain": rates[0] - rates[1] if rates[0] is not None and rates[1] is not None else None,
        **{name: ends[name] for name in ("low", "high", "p")},
        "p_adjusted": None,
        "clusters": len(clusters),
        "moves": moves,
        "fix_rate": moves["fixed"] / wrong_before if wrong_before else None,
        "break_rate": moves["broken"] / right_before if right_before else None,
    }


def mean(values: Sequence[float | None]) -> float | None:
    """The unweighted mean; None if there are no values or one is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _pooled(counts: Any, rate: dict[str, Any], pairs: Sequence[Pairs]) -> dict[str, Any]:
    """The change over all models together.

    It has an interval only if all models have the same samples.
    """
    complete = all(
        len({(of_model[sample][0][1], of_model[sample][1][1]) for of_model in pairs}) == 1 for sample in pairs[0]
    )
    sums: dict[str, Any] = {
        sample: tuple([sum(of_model[sample][side][part] for of_model in pairs) for part in range(7)] for side in (0, 1))
        for sample in pairs[0]
    }
    return {**_change(counts, rate, sums), **({} if complete else dict.fromkeys(("low", "high", "p")))}


def _over_models(
    counts: Any, rate: dict[str, Any], pairs: Sequence[Pairs], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The unweighted means over models."""
    pooled = _pooled(counts, rate, pairs)
    return {
        **pooled,
        "rates": [mean([row["rates"][side] for row in rows]) for side in (0, 1)],
        **{name: mean([row[name] for row in rows]) for name in ("gain", "fix_rate", "break_rate")},
        "moves": {name: sum(row["moves"][name] for row in rows) for name in pooled["moves"]},
    }


def bottlenecks(counts: Any, changes_: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each baseline and rate, the rival contrast with the largest mean gain, and its lead.

    `changes_`: the changes in the form of report.json.
    """
    result: list[dict[str, Any]] = []
    protocol = counts.run["protocol"]
    for rate in protocol["rates"]:
        of_rate, sign = [], -1 if rate["better"] == "low" else 1
        rate_changes = [change for change in changes_ if change["rate"] == rate["name"]]
        for baseline in dict.fromkeys(change["second"] for change in rate_changes):
            candidates = [change for change in rate_changes if change["second"] == baseline]
            model = min(change["endpoint"] for change in candidates)  # '' is the mean over models
            rivals = {
                change["label"]: change
                for change in candidates
                if change["endpoint"] == model and change["label"] in protocol["rivals"] and change["gain"] is not None
            }
            if len(rivals) < 2:
                continue
            first, second, *_others = sorted(rivals, key=lambda label: -sign * rivals[label]["gain"])
            lead = _pooled(counts, rate, _pairs(counts, rate, rivals[first]["first"], rivals[second]["first"]))
            gains = {label: change["gain"] for label, change in rivals.items()}
            of_rate.append(
                {
                    "dataset": baseline,
                    "rate": rate["name"],
                    "label": first,
                    "gains": gains,
                    "runner_up": second,
                    "lead": lead["gain"] if lead["p"] is not None else gains[first] - gains[second],
                    **{name: lead[name] for name in ("low", "high", "p", "clusters")},
                    "p_adjusted": None,
                }
            )
        tested = [bottleneck for bottleneck in of_rate if bottleneck["p"] is not None]
        adjusted = verify_intervals.adjust([bottleneck["p"] for bottleneck in tested], "holm")
        for bottleneck, p in zip(tested, adjusted):  # noqa: B905
            bottleneck["p_adjusted"] = p
        result += of_rate
    return result
