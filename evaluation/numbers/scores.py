"""Rules of scoring: how the verdicts on a sample become a number, which a benchmark defines."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NUMBER = re.compile(r"-?\d{1,4}(\.\d{1,9})?")


class Judged(NamedTuple):
    """The criteria of many answers with their verdicts, one entry for each.

    `answers`: how many answers there are; `answer`: that of each criterion. `hit`: whether its
    verdict is one of the rate's `hits`; `has_verdict`: whether it is in the rate's scope. `rubric`:
    its id. `members`: facet -> value -> the ids of the rubrics that have it.
    """

    answers: int
    answer: Ints
    hit: Flags
    has_verdict: Flags
    rubric: Ints
    members: Mapping[str, Mapping[str, Ints]]

    def having(self, facet: str, value: str) -> Flags:
        """Which criteria have this value of a facet."""
        return np.isin(self.rubric, self.members.get(facet, {}).get(value, []))

    def numbers(self, facet: str) -> Floats:
        """The number that is each criterion's value of a facet; NaN for a criterion without one."""
        result = np.full(len(self.rubric), np.nan)
        for value in self.members.get(facet, {}):
            if NUMBER.fullmatch(value):
                result[self.having(facet, value)] = float(value)
        return result

    def sums(self, values: NDArray[Any]) -> Floats:
        """The sum over the criteria of each answer."""
        return np.asarray(np.bincount(self.answer, values, self.answers), dtype=np.float64)


class Scores(NamedTuple):
    """The scores of answers, one entry for each.

    `counted`: whether the answer has a score. `excluded`: how many of its criteria without a
    verdict keep it from having one. `reached`, `possible`: sums to show beside the mean.
    """

    score: Floats
    counted: Flags
    excluded: Floats
    reached: Floats
    possible: Floats


class Score(ABC):
    """How the verdicts on the criteria of an answer become a number; the rate is the mean.

    Its interval is that of a mean over clusters; two models by the paired t test.
    A subclass is a frozen dataclass in a module of the benchmark's folder, which imports numpy and
    this module alone: bundles contain it, so that anybody can count again.

    `limits`: the mean is cut off there. `points`: the facet of points, for a score that is the
    points reached over the positive points; the formats of other tools know no other score.
    """

    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    points: str = ""
    known: ClassVar[dict[str, type["Score"]]] = {}  # by their names in bundles

    def __init_subclass__(cls) -> None:
        Score.known[cls.name()] = cls

    @classmethod
    def name(cls) -> str:
        """The module and the class."""
        return f"{cls.__module__}:{cls.__qualname__}"

    @property
    @abstractmethod
    def facets(self) -> tuple[str, ...]:
        """The facets of criteria that it reads."""

    @abstractmethod
    def of(self, judged: Judged) -> Scores:
        """The score of each answer."""

    def applies(self, values: Mapping[str, Any]) -> bool:
        """Whether a release has what it needs. `values`: facet -> its values."""
        return all(values.get(facet) for facet in self.facets)

    def cut(self, value: float) -> float:
        """The mean score within `limits`. The scores of single answers are not cut off."""
        low, high = self.limits
        return min(high, max(low, value))
