"""Multiple comparisons: adjusted p values, and ranks with confidence sets."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

ALPHA = 0.05


def holm(p: Sequence[float]) -> list[float]:
    """p values adjusted to control the family-wise error rate. Used for pairs of models.

    p~(i) = max over j <= i of min(1, (m - j + 1) p(j)), p in ascending order (Holm 1979, Scand. J.
    Stat. 6). Valid under any dependence of the tests. Returned in the order of `p`.
    """
    order, adjusted, worst = _ascending_order(p), [0.0] * len(p), 0.0
    for rank, index in enumerate(order):
        worst = max(worst, min(1.0, (len(p) - rank) * p[index]))
        adjusted[index] = worst
    return adjusted


def holm_by_family(families: Sequence[Hashable], p: Sequence[float | None]) -> list[float | None]:
    """`holm` within each family; `families`: that of each p. None stays None."""
    adjusted: list[float | None] = [None] * len(p)
    places: dict[Hashable, list[int]] = defaultdict(list)  # of the p of each family
    tested: dict[Hashable, list[float]] = defaultdict(list)
    for place, (family, value) in enumerate(zip(families, p, strict=True)):
        if value is not None:
            places[family].append(place)
            tested[family].append(value)
    for family, of_family in places.items():
        for place, value in zip(of_family, holm(tested[family]), strict=True):
            adjusted[place] = value
    return adjusted


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """p values adjusted to control the false discovery rate. Used for the cells of a breakdown.

    p~(i) = min over j >= i of min(1, m p(j) / j), p in ascending order (Benjamini & Hochberg 1995,
    J. R. Stat. Soc. B 57). Valid for independent tests and under positive dependence (Benjamini &
    Yekutieli 2001, Ann. Stat. 29). Returned in the order of `p`.
    """
    order, adjusted, best = _ascending_order(p), [0.0] * len(p), 1.0
    for rank, index in reversed(list(enumerate(order, start=1))):
        best = min(best, len(p) * p[index] / rank)
        adjusted[index] = best
    return adjusted


@dataclass(frozen=True, slots=True)
class Rank:
    """A model's place (1: the lowest rate), and the places that the data do not rule out."""

    place: int
    best: int
    worst: int


def ranks(
    rates: Mapping[str, float], pairs: Mapping[tuple[str, str], tuple[float, float]], *, alpha: float = ALPHA
) -> dict[str, Rank]:
    """The rank of each model by rate, lowest first, with simultaneous confidence sets for ranks.

    best = 1 + the number of models significantly better, worst = the number of models - those
    significantly worse (Mogstad, Romano, Shaikh & Wilhelm 2024, Rev. Econ. Stud. 91). All sets hold
    together with confidence 1 - alpha, as Holm's adjustment controls the family-wise error rate.

    Args:
        rates: the rate of each model.
        pairs: (first, second) -> (first rate - second rate, p adjusted by `holm`). A missing pair
            counts as not significantly different.
    """
    # Name -> models with a significantly lower (below) or higher (above) rate.
    below: dict[str, set[str]] = defaultdict(set)
    above: dict[str, set[str]] = defaultdict(set)
    for (first, second), (difference, p) in pairs.items():
        if p < alpha and difference < 0:
            below[second].add(first)
            above[first].add(second)
        elif p < alpha and difference > 0:
            below[first].add(second)
            above[second].add(first)
    ranks = {}
    in_order = sorted(rates.values())
    for name, rate in rates.items():
        place = 1 + in_order.index(rate)  # equal rates share the first of their places
        ranks[name] = Rank(place, 1 + len(below[name]), len(rates) - len(above[name]))
    return ranks


def _ascending_order(p: Sequence[float]) -> list[int]:
    if any(not 0 <= value <= 1 for value in p):
        raise ValueError("p must lie between 0 and 1")
    return sorted(range(len(p)), key=lambda index: p[index])
