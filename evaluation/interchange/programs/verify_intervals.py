"""The statistics of a run's numbers with the standard library alone; part of verify_run.py, which says what it checks.

The same estimators as docs/statistics.md describes, written once more: what is wrong in one is not wrong in the other.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.statistics.distributions import binomial_cdf, t_p_value, t_quantile
else:  # in a bundle, where the file lies beside this one
    sys.path.insert(0, str(Path(__file__).parent))
    from verify_distributions import binomial_cdf, t_p_value, t_quantile  # type: ignore[import-not-found,no-redef]

Z = 1.959963984540054  # the normal distribution's 97.5th percentile
MINIMUM_DF = 4.0  # degrees of freedom below which no interval is given
ADDED = 1 / 4  # of a typical cluster, failed and passed
ADDED_PAIR = 1 / 12  # of a typical cluster, failed by the first model alone and by the second alone

Row = tuple[tuple[str, str], dict[str, list[str]], str]  # a judgment: sample and variant, facets of the rubric, verdict
Sums = list[int]  # hits, counted, how many, excluded, unsure, weight of what is excluded


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's score interval."""
    z2 = Z * Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def freedom_of(shares: Sequence[float]) -> float:
    """Satterthwaite's degrees of freedom of a mean over clusters with these shares."""
    if max(shares, default=1.0) >= 1:
        return 0.0
    one = [s * s / (1 - s) for s in shares]
    return 1 / (sum(s * s for s in shares) + sum(one) ** 2 - sum(each * each for each in one))


def interval(hits: Sequence[float], counted: Sequence[float], n: int, minimum: int, weighted: bool) -> dict[str, Any]:
    """The interval of sum(hits) / sum(counted) over clusters in each of which something was counted.

    Wilson's over the effective number p (1 - p) / V, at most n; V by CR2, with two clusters of the typical size added, one
    failed and one passed, each counted `ADDED` times.
    """
    total = sum(counted)
    if not total:
        return {"method": "undefined", "low": None, "high": None}
    value = sum(hits) / total
    shares = [m / total for m in counted]
    if len(shares) < minimum or freedom_of(shares) < MINIMUM_DF:
        return {"method": "too-few", "low": None, "high": None}
    method, effective, typical = "wilson", float(n), sum(s * s for s in shares)
    if weighted or max(counted) > 1:
        grown = 1 + 2 * ADDED * typical
        centre = (value + ADDED * typical) / grown
        variance = ADDED * (typical / grown) ** 2 * ((1 - centre) ** 2 + centre**2) / (1 - typical / grown)
        for y, m in zip(hits, counted):  # noqa: B905 -- Python 3.9 has no strict
            residual = ((y - value * m) / total + (value - centre) * m / total) / grown
            variance += residual * residual / (1 - m / total / grown)
        method, effective = "clustered-wilson", min(float(n), centre * (1 - centre) / variance / grown)
    low, high = wilson(value, effective)
    return {"method": method, "low": low, "high": high}


def sums_by_unit(rate: dict[str, Any], rows: Iterable[Row]) -> dict[tuple[str, str], Sums]:
    """What a rate counts of each sample in each variant."""
    units: dict[tuple[str, str], Sums] = defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    within = rate["scope"] or list(rate["counted"])
    if rate.get("points"):
        return scores_by_unit(rate, rows)
    for unit, facets, verdict in rows:
        if any(rate.get(name) and rate[name] not in facets.get(name, []) for name in ("polarity", "rubric")):
            continue
        weights = [rate["weights"][each] for each in facets.get(rate["weighted"], []) if each in rate["weights"]]
        has_weight = bool(weights) or not rate["weighted"]
        weight = max(weights, default=1) if has_weight else 0
        counted = rate["counted"].get(verdict, 0) * weight
        found = units[unit]
        found[0] += rate["hits"].get(verdict, 0) * weight
        found[1] += counted
        found[2] += counted > 0
        found[3] += not has_weight or verdict not in within
        found[5] += weight * (verdict not in within)
    if rate["unit"] == "sample":
        for found in units.values():
            hit, some, missing = found[0] > 0, found[1] > 0, found[3] > 0
            found[:] = map(int, (hit, some, some, missing and not some, some and missing and not hit, 0))
    return units


def scores_by_unit(rate: dict[str, Any], rows: Iterable[Row]) -> dict[tuple[str, str], Any]:
    """The score of each sample in each variant in the place of hits, where every criterion with points has a verdict.

    At the end the points that it is made of.
    """
    units: dict[tuple[str, str], Any] = defaultdict(lambda: [0.0, 0.0, 0])
    for unit, facets, verdict in rows:
        for points in map(float, facets.get(rate["points"], [])):
            found = units[unit]
            found[0] += points if verdict in rate["hits"] else 0
            found[1] += max(points, 0)
            found[2] += verdict not in rate["counted"]
    scored = {unit: (most > 0 and not without) for unit, (_got, most, without) in units.items()}
    return {
        unit: [got / most, 1, 1, without, 0, 0, got, most] if scored[unit] else [0.0, 0, 0, without, 0, 0, 0.0, 0.0]
        for unit, (got, most, without) in units.items()
    }


def share(rate: dict[str, Any], sums: Sequence[Sequence[float]]) -> float | None:
    """The rate over these sums; a mean score is cut off at 0 and 1."""
    counted = sum(each[1] for each in sums)
    value = sum(each[0] for each in sums) / counted if counted else None
    return min(1.0, max(0.0, value)) if rate.get("points") and value is not None else value


def bounds(
    rate: dict[str, Any], sums: Sequence[Sequence[int]], minimum: int, with_intervals: bool
) -> dict[str, Any] | None:
    """The rate if all that it excludes had counted for the model, and against it.

    Of weights, and of what is no proportion: if all that is excluded had had the one verdict that makes the most or the least
    of it.
    """
    if rate.get("points"):
        return None
    if rate["weighted"] or rate["interval"] == "bootstrap":
        hits, counted, missing = (sum(each[part] for each in sums) for part in (0, 1, 5))
        within = rate["scope"] or list(rate["counted"])
        options = [(rate["hits"].get(verdict, 0), rate["counted"].get(verdict, 0)) for verdict in within]
        ends = [(hits + missing * y) / (counted + missing * m) for y, m in options]
        best, worst = (min(ends), max(ends)) if rate["better"] == "low" else (max(ends), min(ends))
        return {"best": best, "worst": worst, "low": None, "high": None}
    parts = [(each[0], each[1] - each[4], each[3] + each[4]) for each in sums if each[1] + each[3]]
    whole = [m + x for _y, m, x in parts]
    fewest, most = [y for y, _m, _x in parts], [y + x for y, _m, x in parts]
    low = high = None
    if with_intervals and any(x for _y, _m, x in parts):
        low = interval(fewest, whole, sum(whole), minimum, False)["low"]
        high = interval(most, whole, sum(whole), minimum, False)["high"]
    passed, failed = (fewest, most) if rate["better"] == "low" else (most, fewest)
    return {"best": sum(passed) / sum(whole), "worst": sum(failed) / sum(whole), "low": low, "high": high}


def is_close(one: Any, other: Any) -> bool:
    """Whether two values are the same but for rounding."""
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) < 1e-9
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_close, one, other))
    return bool(one == other)


Totals = Sequence[Sequence[float]]  # of each cluster that both models share: (hits, counted)


def difference(first: Totals, second: Totals, minimum: int) -> dict[str, Any]:
    """Interval, p and effect sizes of the first rate less the second over the clusters that both share."""
    empty = dict.fromkeys(("low", "high", "p", "odds_ratio", "cohens_h"))
    if not first:
        return empty
    sides = []
    for side in (first, second):
        total = sum(m for _y, m in side)
        value = sum(y for y, _m in side) / total
        sides.append((value, [m / total for _y, m in side], [(y - value * m) / total for y, m in side]))
    (r1, shares1, apart1), (r2, shares2, apart2) = sides
    h = 2 * math.asin(math.sqrt(min(1.0, r1))) - 2 * math.asin(math.sqrt(min(1.0, r2)))
    shares = [(one + other) / 2 for one, other in zip(shares1, shares2)]  # noqa: B905
    freedom = freedom_of(shares)
    if len(shares) < minimum or freedom < MINIMUM_DF:
        return {**empty, "cohens_h": h}
    typical = sum(s * s for s in shares)
    grown = 1 + 2 * ADDED_PAIR * typical
    centre = (r1 - r2) / grown
    added = ADDED_PAIR * (typical / grown) ** 2 * ((1 - centre) ** 2 + (1 + centre) ** 2)
    variance = added / (1 - typical / grown)
    for e1, e2, s in zip(apart1, apart2, shares):  # noqa: B905
        residual = (e1 - e2 + (r1 - r2 - centre) * s) / grown
        variance += residual * residual / (1 - s / grown)
    error, t = math.sqrt(variance), t_quantile(0.975, freedom)
    odds = None
    if 0 < r1 < 1 and 0 < r2 < 1:
        odds = math.exp(math.log(r1 / (1 - r1)) - math.log(r2 / (1 - r2)))
    return {
        "low": max(-1.0, centre - t * error),
        "high": min(1.0, centre + t * error),
        "p": t_p_value(centre / error, freedom),
        "odds_ratio": odds,
        "cohens_h": h,
    }


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact p of McNemar's test."""
    return min(1.0, 2 * binomial_cdf(min(only_first, only_second), only_first + only_second, 0.5))


def adjust(p: Sequence[float], method: str) -> list[float]:
    """p adjusted by 'holm', or by Benjamini-Hochberg."""
    order = sorted(range(len(p)), key=lambda index: p[index])
    adjusted, bound = [0.0] * len(p), 0.0 if method == "holm" else 1.0
    ranked = list(enumerate(order))
    for rank, index in ranked if method == "holm" else reversed(ranked):
        if method == "holm":
            bound = max(bound, min(1.0, (len(p) - rank) * p[index]))
        else:
            bound = min(bound, len(p) * p[index] / (rank + 1))
        adjusted[index] = bound
    return adjusted
