"""Bounds of a rate for its excluded outcomes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evaluation.statistics.intervals import MINIMUM, RateInterval, rate_interval


@dataclass(frozen=True, slots=True)
class Bounds:
    """The rate with every excluded outcome counted as passed (`best`) and as failed (`worst`)."""

    best: RateInterval
    worst: RateInterval


def outcome_bounds(
    hits: ArrayLike,
    sizes: ArrayLike,
    excluded: ArrayLike,
    *,
    minimum: int = MINIMUM,
) -> Bounds:
    """Worst-case bounds of a rate: excluded outcomes all passed, and all failed.

    sum(y) / sum(m + x) and sum(y + x) / sum(m + x), with no assumption on why outcomes are missing
    (Manski 1989, J. Hum. Resour. 24; Horowitz & Manski 2000, J. Am. Stat. Assoc. 95). The interval
    from `best.low` to `worst.high` covers the rate with at least 95 %, whatever the excluded
    outcomes would have been.

    Args:
        hits, sizes, excluded: y, m and x: criteria failed, judged and excluded, per cluster.
        minimum: as of `rate_interval`.
    """
    y, m, x = (np.asarray(part, dtype=float) for part in (hits, sizes, excluded))
    best = rate_interval(y, m + x, minimum=minimum)
    return Bounds(best, rate_interval(y + x, m + x, minimum=minimum))
