"""The analysis plan of a run: what its report will answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.statistics.intervals import MINIMUM

Pair = tuple[str, str]
# What contradicts the claims of a benchmark (`evaluation.claims`): κ of people and judge below
# AGREEMENT, by Landis & Koch (1977), Biometrics 33; a difference beyond ± EQUIVALENCE where there
# should be none; the chance ERROR of finding a policy better than a model where none is.
AGREEMENT, EQUIVALENCE, ERROR = "agreement", "equivalence", "error"
THRESHOLDS = {AGREEMENT: 0.6, EQUIVALENCE: 0.05, ERROR: 0.05}
# What a comparison is to a plan: of the one family that it answers; by its metric, but on a data
# set beside the primary one; or anything else.
PLANNED, SECONDARY, EXPLORATORY = ROLES = "planned", "secondary", "exploratory"


@dataclass(frozen=True, slots=True)
class Plan:
    """An analysis plan.

    Attributes:
        metric: the name of the primary rate.
        comparisons: the pairs of models to compare.
        outcomes: the rule for each outcome of a response and each failure of the judge.
        minimum: samples below which no interval is given.
        frozen: False for a run launched before plans existed; this is then its default plan.
        preset: the chosen counting preset, '' if the benchmark has none.
        dataset: the primary data set; '' if comparisons on all of them are one family.
        thresholds: what contradicts the claims of the benchmark, as `THRESHOLDS`.
    """

    metric: str
    comparisons: tuple[Pair, ...]
    outcomes: Mapping[str, str] = field(default_factory=dict)
    minimum: int = MINIMUM
    frozen: bool = True
    preset: str = ""
    dataset: str = ""
    thresholds: Mapping[str, float] = field(default_factory=lambda: dict(THRESHOLDS))

    def pairs_of(self, models: Sequence[str]) -> list[Pair]:
        """The planned pairs of these models."""
        return [pair for pair in self.comparisons if set(pair) <= set(models)]

    def role(self, metric: str, dataset: str) -> str:
        """What a comparison by this rate on this data set is to the plan: one of `ROLES`."""
        if not self.frozen or metric != self.metric:
            return EXPLORATORY
        if self.dataset in ("", dataset):
            return PLANNED
        return SECONDARY

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "preset": self.preset,
            "metric": self.metric,
            "dataset": self.dataset,
            "comparisons": [list(pair) for pair in self.comparisons],
            "outcomes": dict(self.outcomes),
            "minimum": self.minimum,
            "thresholds": dict(self.thresholds),
        }
