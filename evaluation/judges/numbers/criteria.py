"""The criteria that a validation of a judge is about: those that physicians can decide."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evaluation.numbers.frame import Frame, Ints
from evaluation.numbers.late import pl
from evaluation.numbers.plans import Plan
from evaluation.numbers.rates import rate_named
from evaluation.numbers.rules import JUDGE_FAILURES, JUDGED, UNJUDGED
from evaluation.protocol import Protocol, Rate


@dataclass(frozen=True)
class JudgedCriteria:
    """The judgments of a run that physicians can check.

    `rate`: the rate that they correct. `rows`: those on samples of its arm with a verdict of the
    judge, or with one that the run's rule for a failure of the judge gave in its place.
    """

    frame: Frame
    protocol: Protocol
    rate: Rate
    rows: Ints

    @cached_property
    def failed(self) -> NDArray[np.bool_]:
        """Whether each row of the frame counts against the model."""
        failing = self.frame.has(self.protocol.failing_verdicts)
        return self.frame.rows.select(failing.alias("failing"))["failing"].to_numpy()

    @cached_property
    def clusters(self) -> Ints:
        """The cluster of each row of the frame."""
        return self.frame.array("cluster")

    @cached_property
    def responses(self) -> frozenset[int]:
        """The ids of the responses with such a judgment."""
        return frozenset(self.frame.rows["response"][self.rows].to_list())

    def keys(self, rows: Ints) -> Sequence[tuple[int, int]]:
        """The ids of the response and the rubric of each of these judgments."""
        keys = self.frame.rows.select("response", "rubric")[rows]
        return list(keys.iter_rows())


def judged_criteria(frame: Frame, protocol: Protocol, plan: Plan) -> JudgedCriteria:
    """The judgments of a run that physicians can check."""
    rate = validated_rate(protocol, plan)
    by_judge = (pl.col("why") == JUDGED) & frame.has(protocol.judge_verdicts)
    in_place = pl.col("why").is_in(JUDGE_FAILURES) & (pl.col("verdict") != UNJUDGED)
    return JudgedCriteria(frame, protocol, rate, frame.places((by_judge | in_place) & frame.in_arm(rate)))


def validated_rate(protocol: Protocol, plan: Plan) -> Rate:
    """The rate that physicians' verdicts correct.

    The plan's primary metric, if it is a plain share of criteria; else the first rate that is.
    """
    planned = rate_named(protocol.rates, plan.metric) or protocol.rates[0]
    for rate in (planned, *protocol.rates):
        if rate.is_share:
            return rate
    return planned
