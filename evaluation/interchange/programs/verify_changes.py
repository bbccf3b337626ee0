"""What asking the same samples in another way changes, counted again; part of verify_run.py, which says what it checks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.interchange.programs import verify_intervals
else:  # in a bundle, where the file lies beside this one
    sys.path.insert(0, str(Path(__file__).parent))
    import verify_intervals  # type: ignore[import-not-found,no-redef]

NAMES = ("label", "rate", "first", "second", "endpoint")  # by which a change is known
NOTHING = [0, 0, 0, 0, 0, 0]
Pairs = Mapping[str, tuple[Sequence[int], Sequence[int]]]  # sample -> what is counted of it in either data set


def changes(found: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    """Every change as numbers.json has it, by label, rate, data sets and model, '' for the mean over models.

    `found`: the rows of a bundle (`verify_run.Counted`).
    """
    told: dict[tuple[str, ...], dict[str, Any]] = {}
    protocol, models = found.run["protocol"], found.run["endpoints"]
    known = {one["name"] for one in protocol["datasets"]}
    for rate in protocol["rates"]:
        if rate["interval"] == "bootstrap" or rate["weighted"]:
            continue
        for first, second, label in protocol.get("contrasts", []):
            if not {first, second} <= known:
                continue
            pairs = _pairs(found, rate, first, second)
            rows = [_change(found, rate, of) for of in pairs]
            if not any(row["clusters"] for row in rows):
                continue
            tested = [row for row in rows if row["p"] is not None]
            for row, p in zip(tested, verify_intervals.adjust([row["p"] for row in tested], "holm")):  # noqa: B905
                row["p_adjusted"] = p
            names = (label, rate["name"], first, second)
            told.update(((*names, model), row) for model, row in zip(models, rows))  # noqa: B905
            if len(rows) > 1:
                told[(*names, "")] = _over_models(found, rate, pairs, rows)
    return told


def _rows(found: Any, model: str, dataset: str) -> list[Any]:
    return [row for arm in ("trap", "control") for row in found.cells.get((model, dataset, "", "", arm), [])]


def _of_samples(found: Any, rate: dict[str, Any], model: str, dataset: str) -> dict[str, list[int]]:
    units = verify_intervals.sums_by_unit(rate, _rows(found, model, dataset))
    return {sample: sums for (sample, _variant), sums in units.items()}


def _samples(found: Any, models: Sequence[str], dataset: str) -> set[str]:
    return {sample for model in models for (sample, _variant), *_about in _rows(found, model, dataset)}


def _pairs(found: Any, rate: dict[str, Any], first: str, second: str) -> list[Pairs]:
    """Of each model, what is counted of the samples that are in both data sets."""
    models = found.run["endpoints"]
    sides = [{model: _of_samples(found, rate, model, name) for model in models} for name in (first, second)]
    samples = _samples(found, models, first) & _samples(found, models, second)
    return [
        {each: (sides[0][model].get(each, NOTHING), sides[1][model].get(each, NOTHING)) for each in samples}
        for model in models
    ]


def _change(found: Any, rate: dict[str, Any], pairs: Pairs) -> dict[str, Any]:
    """Of one model, or of the sums over all of them."""
    both = {(sample, ""): pair for sample, pair in pairs.items() if pair[0][1] and pair[1][1]}
    clusters = found.by_cluster(both)
    rates = [verify_intervals.share(rate, [pair[side] for pair in both.values()]) for side in (0, 1)]
    ends = verify_intervals.difference(
        [of[0] for of in clusters], [of[1] for of in clusters], found.run["plan"]["minimum"]
    )
    moves = dict.fromkeys(("kept", "broken", "fixed", "stayed"), 0)
    for now, before in both.values():
        after, had = ((side[0] == 0) if rate["better"] == "low" else (side[0] == side[1]) for side in (now, before))
        moves[("kept" if had else "fixed") if after else ("broken" if had else "stayed")] += 1
    wrong, right = moves["fixed"] + moves["stayed"], moves["kept"] + moves["broken"]
    return {
        "rates": rates,
        "gain": rates[0] - rates[1] if rates[0] is not None and rates[1] is not None else None,
        **{name: ends[name] for name in ("low", "high", "p")},
        "p_adjusted": None,
        "clusters": len(clusters),
        "moves": moves,
        "fix_rate": moves["fixed"] / wrong if wrong else None,
        "break_rate": moves["broken"] / right if right else None,
    }


def mean(values: Sequence[float | None]) -> float | None:
    """The unweighted mean; None of nothing, or where one is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _pooled(found: Any, rate: dict[str, Any], pairs: Sequence[Pairs]) -> dict[str, Any]:
    """The answers of all models together; an interval where all models have all of these samples."""
    whole = all(len({(of[each][0][1], of[each][1][1]) for of in pairs}) == 1 for each in pairs[0])
    summed: dict[str, Any] = {
        each: tuple([sum(of[each][side][part] for of in pairs) for part in range(6)] for side in (0, 1))
        for each in pairs[0]
    }
    return {**_change(found, rate, summed), **({} if whole else dict.fromkeys(("low", "high", "p")))}


def _over_models(
    found: Any, rate: dict[str, Any], pairs: Sequence[Pairs], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Unweighted means."""
    pooled = _pooled(found, rate, pairs)
    return {
        **pooled,
        "rates": [mean([row["rates"][side] for row in rows]) for side in (0, 1)],
        **{name: mean([row[name] for row in rows]) for name in ("gain", "fix_rate", "break_rate")},
        "moves": {name: sum(row["moves"][name] for row in rows) for name in pooled["moves"]},
    }


def bottlenecks(found: Any, told: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each baseline and rate, which competing contrast gains most on average over the models, and by how much.

    `told`: the changes, as report.json has them.
    """
    every: list[dict[str, Any]] = []
    protocol = found.run["protocol"]
    for rate in protocol["rates"]:
        of_rate, sign = [], -1 if rate["better"] == "low" else 1
        own = [each for each in told if each["rate"] == rate["name"]]
        for baseline in dict.fromkeys(each["second"] for each in own):
            of = [each for each in own if each["second"] == baseline]
            who = min(each["endpoint"] for each in of)  # '' stands for the mean over models
            rivals = {
                each["label"]: each
                for each in of
                if each["endpoint"] == who and each["label"] in protocol["rivals"] and each["gain"] is not None
            }
            if len(rivals) < 2:
                continue
            first, second, *_others = sorted(rivals, key=lambda label: -sign * rivals[label]["gain"])
            lead = _pooled(found, rate, _pairs(found, rate, rivals[first]["first"], rivals[second]["first"]))
            gains = {label: each["gain"] for label, each in rivals.items()}
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
        tested = [each for each in of_rate if each["p"] is not None]
        adjusted = verify_intervals.adjust([each["p"] for each in tested], "holm")
        for each, p in zip(tested, adjusted):  # noqa: B905
            each["p_adjusted"] = p
        every += of_rate
    return every
