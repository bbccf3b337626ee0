"""Self-preference: models of a tested model's family that made samples or judged answers.

For panels, also how much a judge favours its own family.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evaluation.numbers.frame import Frame, as_array, votes_in_scope
from evaluation.numbers.late import pl
from evaluation.protocol import Protocol
from evaluation.statistics.comparisons import difference_of_differences
from review.rules.shown_fields import shown

Counts = Mapping[str, tuple[int, int]]  # model under test -> (failed, judged)


class Member(NamedTuple):
    """An endpoint, and the family of its model."""

    name: str
    family: str


@dataclass(frozen=True, slots=True)
class Kin:
    """An endpoint that judged or made samples, and the tested models of the same family.

    `role`: 'judge', or its role in making the samples.
    """

    role: str
    endpoint: str
    family: str
    tested: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preference:
    """How much a judge of a panel favours its own model family.

    `own`, `others`: the judge's failure rate minus that of the judges of other families, over the
    same criteria, on models of its own family and of other families.
    `difference`: own - others; below 0 the judge favours its own family. `low`, `high`: its 95 %
    interval over clusters, None where they are too few.
    """

    judge: str
    family: str
    own: float
    others: float
    own_n: int
    others_n: int
    low: float | None = None
    high: float | None = None

    @property
    @shown
    def difference(self) -> float:
        return self.own - self.others


@dataclass(frozen=True, slots=True)
class SelfPreference:
    """The kin of tested models, and the preferences of the judges among them."""

    kin: tuple[Kin, ...]
    preferences: tuple[Preference, ...]


def self_preference(
    read: Callable[[], tuple[Frame, pl.DataFrame]],
    protocol: Protocol,
    *,
    has_panel: bool,
    judges: Sequence[Member],
    makers: Iterable[tuple[str, Member]],
    tested: Sequence[Member],
) -> SelfPreference:
    """The endpoints that share a family with a tested model, and how much such judges favour it.

    There are preferences only for panels with judges of several families.

    Args:
        read: the verdicts and the panel's votes, read only if there are preferences.
        makers: (role, endpoint) of those that helped to make the samples.
    """
    by_family: dict[str, list[str]] = defaultdict(list)
    for model in tested:
        by_family[model.family].append(model.name)
    in_roles = [("judge", judge) for judge in judges]
    kin = []
    for role, member in dict.fromkeys([*in_roles, *makers]):
        if member.family in by_family:
            kin.append(Kin(role, member.name, member.family, tuple(by_family[member.family])))
    kin_judges = [judge for judge in judges if judge.family in by_family]
    if not has_panel or not kin_judges or len({judge.family for judge in judges}) == 1:
        return SelfPreference(tuple(kin), ())
    frame, all_votes = read()
    votes = votes_in_scope(frame, protocol.rates[0], protocol.failing_verdicts, all_votes)
    preferences = []
    for judge in kin_judges:
        preference = _preference(judge, judges, tested, votes)
        if preference is not None:
            preferences.append(preference)
    return SelfPreference(tuple(kin), tuple(preferences))


def _preference(
    judge: Member, judges: Sequence[Member], tested: Sequence[Member], votes: pl.DataFrame
) -> Preference | None:
    """None if the panel has no judge, or the run no tested model, of another family."""
    others = [other.name for other in judges if other.family != judge.family]
    kin = [model.name for model in tested if model.family == judge.family]
    by_own, by_other = pl.col("judge") == judge.name, pl.col("judge").is_in(others)
    failed = pl.col("failed").cast(pl.Int64)
    by_criterion = votes.group_by("row", "model", "cluster").agg(
        (failed * by_own).sum().alias("own"),
        by_own.sum().alias("own_n"),
        (failed * by_other).sum().alias("others"),
        by_other.sum().alias("others_n"),
    )
    on_both = by_criterion.filter((pl.col("own_n") > 0) & (pl.col("others_n") > 0))
    on_kin = on_both.with_columns(pl.col("model").is_in(kin).alias("is_kin"))
    names = ("own", "own_n", "others", "others_n")
    totals = []
    for is_kin in (True, False):
        if not (on_kin["is_kin"] == is_kin).any():
            return None
        of_side = [(pl.col(name) * (pl.col("is_kin") == is_kin)).sum() for name in names]
        sums = on_kin.group_by("cluster").agg(*of_side).sort("cluster")
        totals.append(np.array([as_array(sums[name]) for name in names]))
    found = difference_of_differences(totals[0], totals[1])
    own_n, others_n = int(totals[0][1].sum()), int(totals[1][1].sum())
    return Preference(judge.name, judge.family, found.first, found.second, own_n, others_n, found.low, found.high)


def rates_by_family(tested: Iterable[Member], judged: Counts) -> dict[str, tuple[int, int]]:
    """Model family -> (failed, judged). `judged`: the counts of each model."""
    families = dict(tested)
    sums: dict[str, tuple[int, int]] = {}
    for endpoint, (failed, n) in judged.items():
        if n:
            previous = sums.get(families[endpoint], (0, 0))
            sums[families[endpoint]] = (previous[0] + failed, previous[1] + n)
    return sums
