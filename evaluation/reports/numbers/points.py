"""HealthBench's score (Arora et al. 2025, arXiv:2505.08775), for releases with points."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluation.metrics import Totals
from evaluation.protocol import Protocol, Rate
from evaluation.verdicts.rates import gettext_noop as _
from evaluation.verdicts.selection import Ints
from evaluation.verdicts.table import VerdictTable

POINTS = "points"  # the facet
NUMBER = re.compile(r"-?\d{1,4}(\.\d{1,9})?")


def points_rate(protocol: Protocol) -> Rate | None:
    """The score as a rate; None if it does not apply.

    It needs a judge that finds criteria met or not met, and a protocol without a rate of points.
    """
    counted = set(protocol.rates[0].counted)
    met = counted - protocol.failing_verdicts
    if protocol.judge is None or len(met) != 1 or len(counted) != 2 or any(rate.points for rate in protocol.rates):
        return None
    return Rate(
        name="points_score",
        label=_("HealthBench score"),
        rule=_(
            "Mean over samples of the points of the criteria met divided by all positive points, cut off at 0 and 1. "
            "Points may be negative. Samples with a criterion without a verdict are excluded."
        ),
        hits=dict.fromkeys(met, 1),
        counted=dict.fromkeys(sorted(counted), 1),
        interval="bootstrap",
        percent=False,
        unit="sample",
        points=POINTS,
    )


def has_points(table: VerdictTable, rate: Rate) -> bool:
    """Whether any criterion of the release has points."""
    return any(NUMBER.fullmatch(value) for value in table.members.get(rate.points, {}))


def scores(table: VerdictTable, rate: Rate, chosen: Ints, key: Ints) -> Totals:
    """The score of each unit as `hits`; excluded unless every criterion with points has a verdict.

    `chosen`: the judgments to use; `key`: the flat index of model and unit of each.
    """
    points, has_value = _points(table, rate)
    points, has_value = points[table.rubric[chosen]], has_value[table.rubric[chosen]]
    met, judged = (
        np.isin(table.verdict[chosen], _verdict_indices(table, verdicts))
        for verdicts in (rate.hits, rate.scope_verdicts)
    )
    shape = (len(table.endpoints), table.units)

    def sums(values: NDArray[Any]) -> NDArray[np.float64]:
        totals: Any = np.bincount(key, values, shape[0] * shape[1]).reshape(shape)
        return np.asarray(totals, dtype=np.float64)

    reached, possible = sums(points * met), sums(np.maximum(points, 0))
    unjudged = np.rint(sums(has_value & ~judged)).astype(np.int64)
    defined = (possible > 0) & (unjudged == 0)
    score: Any = np.divide(reached, possible, out=np.zeros(shape), where=defined)
    counted = defined.astype(np.int64)
    return Totals(score, counted, counted, unjudged, reached=reached * defined, possible=possible * defined)


def _verdict_indices(table: VerdictTable, verdicts: Iterable[str]) -> list[int]:
    return [table.verdicts.index(verdict) for verdict in verdicts if verdict in table.verdicts]


def _points(table: VerdictTable, rate: Rate) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The points of each rubric, and whether it has any."""
    points, is_scored = np.zeros(table.rubrics), np.zeros(table.rubrics, dtype=np.bool_)
    for value, has_value in table.members.get(rate.points, {}).items():
        if NUMBER.fullmatch(value):
            points, is_scored = np.where(has_value, float(value), points), is_scored | has_value
    return points, is_scored
