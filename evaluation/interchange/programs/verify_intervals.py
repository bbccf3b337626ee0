"""The statistics of a run's numbers, with the standard library alone; part of verify_run.py.

The estimators of docs/statistics.md, implemented independently: an error in one implementation is
not repeated in the other.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # in a bundle, which has the package
    sys.path.insert(0, str(Path(__file__).parent))
from evaluation.statistics.distributions import binomial_cdf, t_p_value, t_quantile

Z = 1.959963984540054  # the normal distribution's 97.5th percentile
MINIMUM_DF = 4.0  # degrees of freedom below which no interval is given
# Shares of typical clusters that are added: one failed and one passed,
ADDED = 1 / 4
# and for comparisons one failed by the first model only and one by the second only.
ADDED_PAIR = 1 / 12

# A judgment: sample and variant, facets of the rubric, verdict.
Row = tuple[tuple[str, str], dict[str, list[str]], str]
Sums = list[int]  # hits, counted, number, excluded, unsure, weight of the exclusions, in scope


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's score interval."""
    z2 = Z * Z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def freedom_of(shares: Sequence[float]) -> float:
    """Satterthwaite's degrees of freedom for a mean over clusters with these shares."""
    if max(shares, default=1.0) >= 1:
        return 0.0
    terms = [s * s / (1 - s) for s in shares]
    return 1 / (sum(s * s for s in shares) + sum(terms) ** 2 - sum(t * t for t in terms))


def interval(hits: Sequence[float], counted: Sequence[float], n: int, minimum: int, weighted: bool) -> dict[str, Any]:
    """The interval of sum(hits) / sum(counted) over non-empty clusters.

    Wilson's interval with the effective number p (1 - p) / V, at most n. V is estimated by CR2
    after adding two clusters of typical size, one failed and one passed, each counted `ADDED`
    times.
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
    """The sums of a rate for each sample in each variant."""
    units: dict[tuple[str, str], Sums] = defaultdict(lambda: [0, 0, 0, 0, 0, 0, 0])
    in_scope = rate["scope"] or list(rate["counted"])
    if rate.get("points"):
        return scores_by_unit(rate, rows)
    for unit, facets, verdict in rows:
        if any(rate.get(name) and rate[name] not in facets.get(name, []) for name in ("polarity", "rubric")):
            continue
        weights = [rate["weights"][value] for value in facets.get(rate["weighted"], []) if value in rate["weights"]]
        has_weight = bool(weights) or not rate["weighted"]
        weight = max(weights, default=1) if has_weight else 0
        counted = rate["counted"].get(verdict, 0) * weight
        sums = units[unit]
        sums[0] += rate["hits"].get(verdict, 0) * weight
        sums[1] += counted
        sums[2] += counted > 0
        sums[3] += not has_weight or verdict not in in_scope
        sums[5] += weight * (verdict not in in_scope)
        sums[6] += has_weight and verdict in in_scope
    if rate["unit"] == "sample":
        for sums in units.values():
            hit, nonempty, missing, within = sums[0] > 0, sums[1] > 0, sums[3] > 0, sums[6] > 0
            unsure = nonempty and missing and not hit
            sums[:] = map(int, (hit, nonempty, nonempty, missing and not nonempty, unsure, 0, within))
    return units


def scores_by_unit(rate: dict[str, Any], rows: Iterable[Row]) -> dict[tuple[str, str], Any]:
    """The sums of a rate by points for each sample in each variant, with its score as hits.

    A sample is counted if every criterion with points has a verdict. Two more entries at the end
    are the points reached and possible.
    """
    units: dict[tuple[str, str], Any] = defaultdict(lambda: [0.0, 0.0, 0])
    for unit, facets, verdict in rows:
        for points in map(float, facets.get(rate["points"], [])):
            sums = units[unit]
            sums[0] += points if verdict in rate["hits"] else 0
            sums[1] += max(points, 0)
            sums[2] += verdict not in rate["counted"]
    return {
        unit: [reached / possible, 1, 1, without, 0, 0, 1, reached, possible]
        if possible > 0 and not without
        else [0.0, 0, 0, without, 0, 0, 0, 0.0, 0.0]
        for unit, (reached, possible, without) in units.items()
    }


def share(rate: dict[str, Any], sums: Sequence[Sequence[float]]) -> float | None:
    """The rate over these sums; a mean score is clipped to 0 and 1."""
    counted = sum(unit[1] for unit in sums)
    value = sum(unit[0] for unit in sums) / counted if counted else None
    return min(1.0, max(0.0, value)) if rate.get("points") and value is not None else value


def bounds(
    rate: dict[str, Any], sums: Sequence[Sequence[int]], minimum: int, with_intervals: bool
) -> dict[str, Any] | None:
    """The rate if all exclusions had counted for the model, and if all had counted against it.

    For weighted rates, and rates that are not proportions: if all exclusions had had the single
    verdict that makes the rate highest or lowest.
    """
    if rate.get("points"):
        return None
    if rate["weighted"] or rate["interval"] == "bootstrap":
        hits, counted, missing = (sum(unit[part] for unit in sums) for part in (0, 1, 5))
        in_scope = rate["scope"] or list(rate["counted"])
        options = [(rate["hits"].get(verdict, 0), rate["counted"].get(verdict, 0)) for verdict in in_scope]
        ends = [(hits + missing * y) / (counted + missing * m) for y, m in options]
        best, worst = (min(ends), max(ends)) if rate["better"] == "low" else (max(ends), min(ends))
        return {"best": best, "worst": worst, "low": None, "high": None}
    parts = [(unit[0], unit[1] - unit[4], unit[3] + unit[4]) for unit in sums if unit[1] + unit[3]]
    whole = [m + x for _y, m, x in parts]
    fewest, most = [y for y, _m, _x in parts], [y + x for y, _m, x in parts]
    low = high = None
    if with_intervals and any(x for _y, _m, x in parts):
        low = interval(fewest, whole, sum(whole), minimum, False)["low"]
        high = interval(most, whole, sum(whole), minimum, False)["high"]
    passed, failed = (fewest, most) if rate["better"] == "low" else (most, fewest)
    return {"best": sum(passed) / sum(whole), "worst": sum(failed) / sum(whole), "low": low, "high": high}


def is_close(one: Any, other: Any) -> bool:
    """Whether two values are equal up to rounding."""
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) < 1e-9
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_close(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_close, one, other))
    return bool(one == other)


Totals = Sequence[Sequence[float]]  # (hits, counted) of each cluster that both models share


def difference(first: Totals, second: Totals, minimum: int) -> dict[str, Any]:
    """Interval, p and effect sizes of the first rate minus the second over shared clusters."""
    empty = dict.fromkeys(("low", "high", "p", "odds_ratio", "cohens_h"))
    informative = [place for place, (one, other) in enumerate(zip(first, second)) if one[1] or other[1]]  # noqa: B905
    first, second = ([side[place] for place in informative] for side in (first, second))
    if not all(sum(m for _y, m in side) for side in (first, second)):
        return empty
    sides = []
    for side in (first, second):
        total = sum(m for _y, m in side)
        value = sum(y for y, _m in side) / total
        sides.append((value, [m / total for _y, m in side], [(y - value * m) / total for y, m in side]))
    (r1, shares1, residuals1), (r2, shares2, residuals2) = sides
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
    for e1, e2, s in zip(residuals1, residuals2, shares):  # noqa: B905
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
    """p adjusted by Holm if `method` is 'holm', else by Benjamini-Hochberg."""
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
