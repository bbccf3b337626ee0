"""HealthBench's score (Arora et al. 2025, section 3, arXiv:2505.08775)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluation.numbers.scores import NUMBER, Judged, Score, Scores


@dataclass(frozen=True)
class PointsReached(Score):
    """Points of the criteria met over all positive points of a sample.

    Points may be negative. A sample has no score if a criterion with points has no verdict.
    """

    points: str = "points"  # the facet

    @property
    def facets(self) -> tuple[str, ...]:
        return (self.points,)

    def applies(self, values: Mapping[str, Any]) -> bool:
        return any(NUMBER.fullmatch(value) for value in values.get(self.points, ()))

    def of(self, judged: Judged) -> Scores:
        points = judged.numbers(self.points)
        has_points, points = np.isfinite(points), np.nan_to_num(points)
        reached, possible = judged.sums(points * judged.hit), judged.sums(np.maximum(points, 0))
        unjudged = judged.sums(has_points & ~judged.has_verdict)
        counted = (possible > 0) & (unjudged == 0)
        score = np.divide(reached, possible, out=np.zeros(judged.answers), where=counted)
        return Scores(score, counted, unjudged, reached * counted, possible * counted)
