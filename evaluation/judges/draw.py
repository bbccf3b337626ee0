"""Stratified draws of responses. Plain Python: population, amount and seed determine the draw."""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class DrawnResponse:
    """A drawn response. `weight`: the inverse of the share of its stratum that was drawn."""

    pk: int
    weight: float


AMOUNT = r"\s*(?:\d{1,5}|(?:\d{1,2}(?:\.\d{1,2})?|100)\s*%)\s*"  # 200, or 10 %


@dataclass(frozen=True, slots=True)
class DrawSize:
    """How many responses to draw: a number in all, or a percentage of each stratum."""

    number: int | None = None
    percent: float = 0.0

    def per_stratum(self, sizes: Mapping[Hashable, int]) -> dict[Hashable, int]:
        """How many to draw from each stratum. With a percentage, at least one from each."""
        if self.number is not None:
            return allocation(sizes, self.number)
        counts = {}
        for stratum, size in sizes.items():
            counts[stratum] = min(size, max(1, round(size * self.percent / 100)))
        return counts


def parse_amount(text: str) -> DrawSize:
    """The amount written as '200' or '10%'. Raises ValueError."""
    if not re.fullmatch(AMOUNT, text):
        raise ValueError(text)
    number, sign, _rest = text.strip().partition("%")
    if not sign:
        return DrawSize(int(number))
    if not float(number):
        raise ValueError(text)
    return DrawSize(percent=float(number))


def allocation(sizes: Mapping[Hashable, int], n: int) -> dict[Hashable, int]:
    """How many of `n` to draw from each stratum, as evenly as the sizes of the strata allow.

    Even shares make sure that rare strata are covered. If there are fewer than `n`, all are drawn.
    """
    counts = dict.fromkeys(sizes, 0)
    remaining = min(n, sum(sizes.values()))
    while remaining:
        unfilled = [stratum for stratum in sizes if counts[stratum] < sizes[stratum]]
        share = max(1, remaining // len(unfilled))
        for stratum in unfilled:
            added = min(share, sizes[stratum] - counts[stratum], remaining)
            counts[stratum] += added
            remaining -= added
    return counts


def draw(population: Sequence[tuple[int, Hashable]], amount: DrawSize, seed: int) -> list[DrawnResponse]:
    """Draw from (primary key, stratum) pairs, in an order that does not reveal the strata."""
    strata: dict[Hashable, list[int]] = defaultdict(list)
    for pk, stratum in sorted(population, key=lambda item: (repr(item[1]), item[0])):
        strata[stratum].append(pk)
    counts = amount.per_stratum({stratum: len(pks) for stratum, pks in strata.items()})
    drawn = []
    for stratum, pks in strata.items():
        count = counts[stratum]
        for pk in Random(f"{seed}/{stratum!r}").sample(pks, count):
            drawn.append(DrawnResponse(pk, len(pks) / count))
    drawn.sort(key=lambda response: response.pk)
    Random(f"{seed}/order").shuffle(drawn)
    return drawn
