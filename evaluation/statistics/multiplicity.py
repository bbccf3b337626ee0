"""Many comparisons at once: adjusted p, and ranks that say how sure they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALPHA = 0.05


def holm(p: Sequence[float]) -> list[float]:
    """p adjusted so that, at any cut, the chance of even one false finding is at most that cut. For pairs of models.

    p~(i) = max over j <= i of min(1, (m - j + 1) p(j)), p in ascending order (Holm 1979, Scand. J. Stat. 6). Valid
    whatever the dependence of the tests.
    """
    order, adjusted, worst = _ascending(p), [0.0] * len(p), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = worst
    return adjusted


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """p adjusted so that, of all findings at a cut, the expected share of false ones is at most that cut. For many
    cells.

    p~(i) = min over j >= i of min(1, m p(j) / j), p in ascending order (Benjamini & Hochberg 1995, J. R. Stat. Soc.
    B 57). Valid for independent tests and for positive dependence (Benjamini & Yekutieli 2001, Ann. Stat. 29).
    """
    order, adjusted, best = _ascending(p), [0.0] * len(p), 1.0
    for rank, index in reversed(list(enumerate(order, start=1))):
        best = min(best, len(p) * p[index] / rank)
        adjusted[index] = best
    return adjusted


@dataclass(frozen=True, slots=True)
class Rank:
    """A model's place, 1 the lowest rate, and the places that the data do not rule out."""

    place: int
    best: int
    worst: int


def ranks(
    rates: Mapping[str, float], pairs: Mapping[tuple[str, str], tuple[float, float]], *, alpha: float = ALPHA
) -> dict[str, Rank]:
    """Places by rate, lowest first, each with the places that it may have: all of them right with 95 % confidence.

    best = 1 + the models found better, worst = all less the models found worse (Mogstad, Romano, Shaikh & Wilhelm
    2024, Rev. Econ. Stud. 91). Simultaneous, because Holm's adjustment keeps every finding right together.

    Args:
        pairs: (first, second) -> (first rate less second, p adjusted by `holm`). A missing pair was not found
        different.
    """
    below: dict[str, set[str]] = {name: set() for name in rates}  # name -> models found to have a lower rate
    above: dict[str, set[str]] = {name: set() for name in rates}
    for (first, second), (difference, p) in pairs.items():
        if p < alpha and difference:
            lower, higher = (first, second) if difference < 0 else (second, first)
            below[higher].add(lower)
            above[lower].add(higher)
    return {
        name: Rank(
            1 + sum(other < rate for other in rates.values()), 1 + len(below[name]), len(rates) - len(above[name])
        )
        for name, rate in rates.items()
    }


def _ascending(p: Sequence[float]) -> list[int]:
    if any(not 0 <= one <= 1 for one in p):
        raise ValueError("a p lies between 0 and 1")
    return sorted(range(len(p)), key=lambda index: p[index])
