"""A stratified draw of responses. Plain Python: the same population, size and seed give the same draw."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Drawn:
    """One response that was drawn, by its number. `weight`: one over the share of its stratum that was."""

    pk: int
    weight: float


def allocation(sizes: Mapping[Hashable, int], n: int) -> dict[Hashable, int]:
    """How many to draw of each stratum: as alike as their sizes allow, so that rare strata are seen as well.

    All that there are, where `n` is more.
    """
    given = dict.fromkeys(sizes, 0)
    left = min(n, sum(sizes.values()))
    while left:
        room = [stratum for stratum in sizes if given[stratum] < sizes[stratum]]
        share = max(1, left // len(room))
        for stratum in room:
            more = min(share, sizes[stratum] - given[stratum], left)
            given[stratum] += more
            left -= more
    return given


def draw(population: Sequence[tuple[int, Hashable]], n: int, seed: int) -> list[Drawn]:
    """`n` of (number, stratum), in an order that tells nothing of the strata."""
    strata: dict[Hashable, list[int]] = defaultdict(list)
    for pk, stratum in sorted(population, key=lambda each: (repr(each[1]), each[0])):
        strata[stratum].append(pk)
    counts = allocation({stratum: len(pks) for stratum, pks in strata.items()}, n)
    found = [
        Drawn(pk, len(pks) / counts[stratum])
        for stratum, pks in strata.items()
        for pk in Random(f"{seed}/{stratum!r}").sample(pks, counts[stratum])
    ]
    found.sort(key=lambda each: each.pk)
    Random(f"{seed}/order").shuffle(found)
    return found
