"""Leaves out what is easiest to tell without reading: adversarial filtering.

AFLite (Le Bras et al. 2020, Adversarial Filters of Dataset Biases, ICML; Sakaguchi et al. 2020,
WinoGrande, AAAI) with words in place of embeddings: linear classifiers learn from random parts of
the set, and what they tell in the rest is left out, a slice at a time.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from generation.probes.measuring import MIN_CASES, ProbeCase, word_margins

SLICES = 4
PARTITIONS = 5  # of the set in each slice, each into five folds


@dataclass(frozen=True, slots=True)
class Filtered:
    """The records that are easiest to tell. `seeds`: of all partitions, in order."""

    records: frozenset[str]
    seeds: tuple[int, ...]


def easiest(cases: Sequence[ProbeCase], share: float, seed: int) -> Filtered:
    """The share of records whose answers are told most clearly by words, whole records.

    In each of `SLICES` slices, a case's margin is the mean of `PARTITIONS` cross-validations; a
    record has the mean of its cases. Equal margins are in the order of the records. At least
    `MIN_CASES` cases stay.

    Args:
        share: of the records, from 0 to 1.
        seed: of the first partition; the same seed leaves out the same records.
    """
    records = list(dict.fromkeys(case.record for case in cases))
    most = max(0, min(round(len(records) * share), len(records) - MIN_CASES))
    left_out: set[str] = set()
    seeds: list[int] = []
    for part in range(SLICES):
        rest = [case for case in cases if case.record not in left_out]
        margins: dict[str, list[float]] = defaultdict(list)
        for partition in range(PARTITIONS):
            seeds.append(seed + part * PARTITIONS + partition)
            for record, margin in word_margins(rest, seeds[-1]):
                margins[record].append(margin)
        means = [(-sum(values) / len(values), record) for record, values in margins.items()]
        order = [record for _negative_mean, record in sorted(means)]
        target = round(most * (part + 1) / SLICES)
        left_out.update(order[: target - len(left_out)])
    return Filtered(frozenset(left_out), tuple(seeds))


def without(cases: Sequence[ProbeCase], filtered: Filtered) -> list[ProbeCase]:
    """The cases that stay."""
    return [case for case in cases if case.record not in filtered.records]
