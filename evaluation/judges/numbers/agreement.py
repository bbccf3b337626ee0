"""Agreement between the judges of a panel, and of each judge with itself."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from review.quality.agreement import ac1, kappa

Pair = tuple[str, str]  # two judges, or one twice
Tables = Mapping[Pair, Counter[tuple[str, str]]]  # verdicts of both -> number of criteria


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Agreement of two judges, or of one judge with itself, on the `n` criteria with both votes.

    `raw` is the share of equal verdicts. A figure that is not defined is None.
    """

    judges: tuple[str, str]
    n: int
    raw: float | None
    kappa: float | None
    ac1: float | None


@dataclass(frozen=True, slots=True)
class PanelReport:
    """The agreement within a panel.

    `pairs`: the first votes of two judges; `repeats`: the first and second vote of one judge.
    `judgments`: votes per judge and criterion. `decided`, `undecided`: criteria with a verdict, and
    without a majority.
    """

    rule: str
    judges: tuple[str, ...]
    judgments: int
    pairs: tuple[JudgeAgreement, ...]
    repeats: tuple[JudgeAgreement, ...]
    decided: int
    undecided: int


def agreements(tables: Tables, pairs: Iterable[Pair], known: Sequence[str]) -> tuple[JudgeAgreement, ...]:
    """The agreement of those pairs of judges that judged the same. `known`: all verdicts."""
    return tuple(_agreement(pair, tables[pair], known) for pair in pairs if pair in tables)


def _agreement(judges: tuple[str, str], table: Counter[tuple[str, str]], known: Sequence[str]) -> JudgeAgreement:
    verdicts = sorted({*known, *(verdict for pair in table for verdict in pair)})
    index_of = {verdict: index for index, verdict in enumerate(verdicts)}
    counts = np.zeros((len(verdicts), len(verdicts)))
    for (one, other), n in table.items():
        counts[index_of[one], index_of[other]] += n
    n = int(counts.sum())
    figures = [float(figure(counts)) if n else float("nan") for figure in (kappa, ac1)]
    values = [None if np.isnan(value) else value for value in figures]
    return JudgeAgreement(judges, n, float(np.trace(counts)) / n if n else None, values[0], values[1])
