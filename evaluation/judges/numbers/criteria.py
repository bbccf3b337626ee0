"""The criteria that a validation of a judge is about: those that physicians can decide."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evaluation.protocol import Protocol, Rate
from evaluation.verdicts.plans import Plan
from evaluation.verdicts.selection import JUDGE_FAILURES, JUDGED, UNJUDGED, Ints, has_verdict, in_arm
from evaluation.verdicts.table import VerdictTable


@dataclass(frozen=True)
class JudgedCriteria:
    """The judgments of a run that physicians can check.

    `rate`: the rate that they correct. `rows`: those on samples of its arm with a verdict of the
    judge, or with one that the run's rule for a failure of the judge gave in its place.
    """

    table: VerdictTable
    protocol: Protocol
    rate: Rate
    rows: Ints

    @cached_property
    def failed(self) -> NDArray[np.bool_]:
        """Whether each judgment of the table counts against the model."""
        return has_verdict(self.table, self.protocol.failing_verdicts, np.arange(len(self.table.verdict)))

    @cached_property
    def clusters(self) -> Ints:
        """The cluster of each judgment of the table."""
        clusters: Ints = self.table.unit_cluster[self.table.unit]
        return clusters

    def keys(self, rows: Ints) -> Sequence[tuple[int, int]]:
        """The ids of the response and the rubric of each of these judgments."""
        rubrics = self.table.rubric_ids[self.table.rubric[rows]]
        return list(zip(self.table.response[rows].tolist(), rubrics.tolist(), strict=True))


def judged_criteria(table: VerdictTable, protocol: Protocol, plan: Plan) -> JudgedCriteria:
    """The judgments of a run that physicians can check."""
    rate = validated_rate(protocol, plan)
    everything, kinds = np.arange(len(table.verdict)), np.array(table.kinds)[table.kind]
    by_judge = (kinds == JUDGED) & has_verdict(table, protocol.judge_verdicts, everything)
    in_place = np.isin(kinds, JUDGE_FAILURES) & ~has_verdict(table, frozenset([UNJUDGED]), everything)
    return JudgedCriteria(
        table, protocol, rate, np.flatnonzero((by_judge | in_place) & in_arm(table, rate)[table.unit])
    )


def validated_rate(protocol: Protocol, plan: Plan) -> Rate:
    """The rate that physicians' verdicts correct.

    The plan's primary metric, if it is a plain share of criteria; else the first rate that is.
    """
    ordered = sorted(protocol.rates, key=lambda rate: rate.name != plan.metric)
    return next((rate for rate in ordered if rate.is_share), ordered[0])
