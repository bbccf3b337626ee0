"""Agreement between the judges of a panel, and of each judge with itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated

import numpy as np

from evaluation.numbers.frame import Frame, Ints, as_array
from evaluation.numbers.late import pl
from evaluation.numbers.rules import UNDECIDED, VOIDS
from evaluation.panel import Rule
from review.quality.agreement import RaterAgreement, ac1, kappa, several_raters, table_interval
from review.rules.shown_fields import Shown

SEVERAL = 3  # judges from which on there are figures for all of them together
ALIKE, DIFFERS = "alike", "differs"  # `JudgeAgreement.cache`
Votes = Mapping[tuple[str, int], Ints]  # judge, repeat -> index of the verdict on each judgment, or -1


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Agreement of two judges, or of one judge with itself, on the `n` criteria with both votes.

    `raw` is the share of equal verdicts. Intervals (95 %) are over the clusters of the report. A
    figure that is not defined, and an interval that cannot be given, is None. `cache`: "differs" if
    the prompt of exactly one of the two votes was read from the endpoint's cache, "alike" if that
    of both or of neither was, '' if all criteria are counted.
    """

    judges: tuple[str, str]
    n: int
    raw: float | None
    kappa: float | None
    ac1: float | None
    kappa_low: float | None = None
    kappa_high: float | None = None
    ac1_low: float | None = None
    ac1_high: float | None = None
    cache: str = ""


@dataclass(frozen=True, slots=True)
class PanelReport:
    """The agreement within a panel.

    `pairs`: the first votes of two judges; `repeats`: the first and second vote of one judge, and
    where its endpoint says what it read from its cache, the same by `JudgeAgreement.cache`.
    `several`: the first votes of all judges together; None with two judges, and under escalation,
    where the others vote on disputed criteria only. `judgments`: votes per judge and criterion.
    `decided`, `undecided`: criteria with a verdict, and without a majority. `undecided_rule`: how
    the run's plan counts the latter.
    `verdicts`: those that the judges may give, the categories of all figures; `verdicts_used`: how
    many of them they gave.
    """

    rule: Annotated[str, Shown("panel")]
    judges: tuple[str, ...]
    judgments: int
    pairs: tuple[JudgeAgreement, ...]
    repeats: tuple[JudgeAgreement, ...]
    decided: int
    undecided: int
    undecided_rule: str
    several: RaterAgreement | None = None
    verdicts: tuple[str, ...] = ()
    verdicts_used: int = 0


def panel_report(
    rule: str,
    judges: Sequence[str],
    judgments: int,
    frame: Frame,
    given: Sequence[str],
    cast: pl.DataFrame,
    undecided_rule: str,
) -> PanelReport:
    """The agreement within a panel, but for what a tool marked as void.

    `given`: the verdicts that its judges may give. `cast`: all votes.
    """
    frame = frame.only(~pl.col("why").is_in(VOIDS))
    votes_counted = frame.on(cast)
    used = set(votes_counted["voted"].unique())
    verdicts = sorted({*given, *used})
    votes, warm = {}, {}
    for judge in judges:
        for repeat in range(min(judgments, 2)):
            votes[judge, repeat] = np.full(frame.rows.height, -1)
            warm[judge, repeat] = np.full(frame.rows.height, -1)
    for (judge, number, verdict, is_warm), of_judge in votes_counted.group_by("judge", "number", "voted", "warm"):
        if (judge, number) in votes:
            rows = as_array(of_judge["row"])
            votes[judge, number][rows] = verdicts.index(verdict)
            if is_warm is not None:
                warm[judge, number][rows] = is_warm
    clusters: Ints = frame.array("cluster")

    def compared(pairs: Iterable[tuple[tuple[str, int], tuple[str, int]]]) -> tuple[JudgeAgreement, ...]:
        found = []
        for one, other in pairs:
            agreement = _agreement((one[0], other[0]), votes[one], votes[other], clusters, len(verdicts))
            if agreement.n:
                found.append(agreement)
        return tuple(found)

    repeated: Sequence[str] = ()
    if judgments > 1:
        repeated = judges
    repeats = compared([((judge, 0), (judge, 1)) for judge in repeated])
    for judge in repeated:
        first, second = (judge, 0), (judge, 1)
        is_known = (warm[first] >= 0) & (warm[second] >= 0)
        for cache, chosen in ((ALIKE, warm[first] == warm[second]), (DIFFERS, warm[first] != warm[second])):
            rows = np.where(is_known & chosen, votes[first], -1)
            agreement = _agreement((judge, judge), rows, votes[second], clusters, len(verdicts))
            if agreement.n:
                repeats = (*repeats, replace(agreement, cache=cache))

    several = None
    if len(judges) >= SEVERAL and rule != Rule.ESCALATION:
        several = _several([votes[judge, 0] for judge in judges], clusters, len(verdicts))
    return PanelReport(
        rule=rule,
        judges=tuple(judges),
        judgments=judgments,
        pairs=compared([((one, 0), (other, 0)) for one, other in combinations(judges, 2)]),
        repeats=repeats,
        decided=frame.rows.filter(pl.col("said") != "").height,
        undecided=frame.rows.filter(pl.col("why") == UNDECIDED).height,
        undecided_rule=undecided_rule,
        several=several,
        verdicts=tuple(verdicts),
        verdicts_used=len(used),
    )


def _agreement(judges: tuple[str, str], one: Ints, other: Ints, clusters: Ints, k: int) -> JudgeAgreement:
    both = (one >= 0) & (other >= 0)
    names, cluster = np.unique(clusters[both], return_inverse=True)
    tables = np.zeros((len(names), k, k))
    np.add.at(tables, (cluster, one[both], other[both]), 1)
    n = int(both.sum())
    raw = None
    if n:
        raw = float((one[both] == other[both]).sum()) / n
    of_kappa, of_ac1 = table_interval(tables, kappa), table_interval(tables, ac1)
    return JudgeAgreement(
        judges,
        n,
        raw,
        of_kappa.value,
        of_ac1.value,
        *(of_kappa.low, of_kappa.high, of_ac1.low, of_ac1.high),
    )


def _several(votes: Sequence[Ints], clusters: Ints, k: int) -> RaterAgreement:
    ratings = np.zeros((len(clusters), k))
    for of_judge in votes:
        rows = np.flatnonzero(of_judge >= 0)
        ratings[rows, of_judge[rows]] += 1
    return several_raters(ratings, clusters)
