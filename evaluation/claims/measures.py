"""What a run tells of its benchmark: what the trap does, and how much asking again changes.

Plain Python over the frame of a run, so that the check of a bundle counts the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from evaluation.numbers.frame import Frame, as_array, votes_in_scope
from evaluation.numbers.late import pl
from evaluation.numbers.plans import Pair
from evaluation.numbers.rates import Rate
from evaluation.numbers.rates import gettext_noop as _
from evaluation.numbers.rules import CONTROL
from evaluation.numbers.totals import unit_totals
from evaluation.statistics.clusters import cluster_totals
from evaluation.statistics.comparisons import PairedDifference, paired_difference
from evaluation.statistics.intervals import RateInterval, rate_interval

# What changes between two verdicts on the same criterion, and nothing else does.
ASKED, JUDGED, JUDGES = _("answers asked again"), _("verdicts judged again"), _("two judges")
# The same for verdicts whose second call found its prompt in the endpoint's cache, and did not.
WARM, COLD = _("verdicts judged again, with the prompt cached"), _("verdicts judged again, with no prompt cached")

AGAIN = {"answers": ASKED, "verdicts": JUDGED}


@dataclass(frozen=True, slots=True)
class Turns:
    """How often a verdict turns where only the asking changes.

    `who`: the judge or judges; '' for answers. `turned`: the share of criteria with two verdicts of
    which one counts against the model and the other does not. `moved`: by how much the difference
    of two models changes, the largest of the planned pairs; None without a pair.
    """

    kind: str
    who: str
    turned: RateInterval
    moved: float | None


def trap_effect(frame: Frame, rate: Rate, minimum: int, confidence: float = 0.95) -> PairedDifference | None:
    """The rate on samples with a trap minus that on their controls, over records that have both.

    A control is the same place without a trap; in the frame of rewordings, those stand for the
    samples with a trap. All models together; the difference, its interval
    and p are those of `paired_difference` by cluster. None without controls, or for a score.
    """
    if rate.score or rate.arm == CONTROL:
        return None
    on_trap, on_control = _by_cluster(frame, rate), _by_cluster(frame, replace(rate, arm="control"))
    shared = sorted(on_trap.keys() & on_control.keys())
    if not shared:
        return None
    trap = np.array([on_trap[cluster] for cluster in shared]).T
    control = np.array([on_control[cluster] for cluster in shared]).T
    return paired_difference(*trap, *control, minimum=minimum, confidence=confidence)


def _by_cluster(frame: Frame, rate: Rate) -> dict[int, tuple[float, float]]:
    """Cluster -> hits and counted criteria of a rate's arm, all models together."""
    of_rate = unit_totals(frame, [rate])[rate.name]
    chosen = of_rate.in_arm
    sums, clusters = of_rate.sums[:, chosen], of_rate.units["cluster"][chosen]
    hits, counted = sums["hits"].sum(axis=0), sums["counted"].sum(axis=0)
    hits, counted = cluster_totals(clusters, hits, counted)
    by_cluster = {}
    for cluster, hit, n in zip(np.unique(clusters).tolist(), hits.tolist(), counted.tolist(), strict=True):
        if n:
            by_cluster[cluster] = (hit, n)
    return by_cluster


def turns(
    frame: Frame,
    rate: Rate,
    failing: frozenset[str],
    votes: pl.DataFrame,
    pairs: Sequence[Pair],
    minimum: int,
    again: pl.DataFrame | None = None,
) -> tuple[Turns, ...]:
    """How often verdicts turn: by answers asked again, by a judge asked again, by two judges.

    Only what the run has. `votes`: of a panel (`judge`, `number`, `voted`, `response`, `rubric`;
    `warm`: whether the prompt was cached, null if the endpoint does not say); empty without one.
    `pairs`: the planned pairs of models. `again`: the second verdict on a sample of criteria, in no
    other number: `kind` ('answers', 'verdicts'), `judge`, `response`, `rubric`, `said`. It is
    compared with what the criterion counts as or, in a panel, with the first vote of that judge.
    """
    keys = ["model", "unit", "rubric"]
    answers = frame.rows.filter(frame.in_scope(rate)).with_columns(frame.has(failing).alias("failed"))
    found = [_turns(ASKED, "", _both(answers, "repeat", 0, 1, keys), pairs, minimum)]
    if len(votes):
        cast = votes_in_scope(frame, rate, failing, votes)
        keys = [*keys, "repeat"]
        by_judge = {name: cast.filter(pl.col("judge") == name) for name in sorted(cast["judge"].unique())}
        for judge, of_judge in by_judge.items():
            twice = _both(of_judge, "number", 0, 1, keys)
            found.append(_turns(JUDGED, judge, twice, pairs, minimum))
            for kind, is_warm in ((COLD, False), (WARM, True)):
                found.append(_turns(kind, judge, twice.filter(pl.col("warm_again") == is_warm), (), minimum))
        first_votes = cast.filter(pl.col("number") == 0)
        for one, other in combinations(by_judge, 2):
            both = _both(first_votes, "judge", one, other, keys)
            found.append(_turns(JUDGES, f"{one} – {other}", both, pairs, minimum))
    for kind, who, second in _second_verdicts(rate, failing, again):
        first = answers
        if len(votes):
            first = first_votes.filter(pl.col("judge") == who)
        keys = ["response", "rubric"]
        both = first.select(*keys, "model", "cluster", "failed").join(second, on=keys)
        if kind != JUDGED:
            who = ""
        found.append(_turns(kind, who, both, pairs, minimum))
    return tuple([each for each in found if each is not None])


def _second_verdicts(
    rate: Rate, failing: frozenset[str], again: pl.DataFrame | None
) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """The kind, the judge, and the criteria with `failed_again`, of second verdicts."""
    if again is None or again.is_empty():
        return
    within = again.filter(pl.col("said").is_in(list(rate.scope_verdicts)))
    marked = within.with_columns(pl.col("said").is_in(list(failing)).alias("failed_again"))
    for (kind, judge), rows in marked.group_by("kind", "judge", maintain_order=True):
        yield AGAIN[str(kind)], str(judge), rows.select("response", "rubric", "failed_again")


def _both(rows: pl.DataFrame, column: str, one: Any, other: Any, keys: Sequence[str]) -> pl.DataFrame:
    """The criteria with both verdicts: model, cluster, failed, failed_again, and warm_again."""
    if "warm" not in rows.columns:
        rows = rows.with_columns(pl.lit(None, dtype=pl.Boolean).alias("warm"))
    first = rows.filter(pl.col(column) == one).select(*keys, "cluster", "failed")
    again = rows.filter(pl.col(column) == other)
    return first.join(again.select(*keys, failed_again="failed", warm_again="warm"), on=list(keys))


def _turns(kind: str, who: str, both: pl.DataFrame, pairs: Sequence[Pair], minimum: int) -> Turns | None:
    if both.is_empty():
        return None
    clusters = as_array(both["cluster"])
    turned = (both["failed"] != both["failed_again"]).to_numpy()
    totals = cluster_totals(clusters, turned, np.ones(len(turned)))
    means = both.group_by("model").agg(pl.col("failed").mean(), pl.col("failed_again").mean())
    change = {model: again - first for model, first, again in means.iter_rows()}
    moved = []
    for one, other in pairs:
        if one in change and other in change:
            moved.append(abs(change[one] - change[other]))
    return Turns(kind, who, rate_interval(*totals, minimum=minimum), max(moved, default=None))


def settled_share(frame: Frame) -> tuple[int, int]:
    """How many criteria are settled, and how many there are, without withdrawn samples."""
    rows = frame.current.rows
    return int(rows["settled"].sum()), rows.height
