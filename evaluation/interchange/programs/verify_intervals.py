"""The statistics of a run's numbers with the standard library alone; part of verify_run.py, which says what it checks.

The same estimators as docs/statistics.md describes, written once more: what is wrong in one is not wrong in the other.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__:
    from evaluation.statistics.distributions import binomial_cdf, t_p_value, t_quantile
else:  # in a bundle, where the file lies beside this one
    sys.path.insert(0, str(Path(__file__).parent))
    from verify_distributions import binomial_cdf, t_p_value, t_quantile

Z = 1.959963984540054  # the normal distribution's 97.5th percentile
MINIMUM_DF = 4.0  # degrees of freedom below which no interval is given
ADDED = 1 / 4  # of a typical cluster, failed and passed
ADDED_PAIR = 1 / 12  # of a typical cluster, failed by the first model alone and by the second alone


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


def interval(hits: Sequence[int], counted: Sequence[int], n: int, minimum: int, weighted: bool) -> dict[str, Any]:
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
