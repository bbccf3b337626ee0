"""How verdicts become a rate: plain values that a benchmark defines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


def gettext_noop(text: str) -> str:
    """The text itself, marked for translation where it is shown; as Django's, without Django."""
    return text


@dataclass(frozen=True, slots=True)
class Rate:
    """How a rate is counted: the weights of verdicts in its numerator and denominator.

    `hits` has the weights of the verdicts in the numerator, `counted` those in the denominator. All
    weights of a proportion are 1; F1 = 2 TP / (2 TP + FP + FN) is also such a rate.
    Criteria that were not judged, or whose verdict is outside `scope` (default: the verdicts in
    `counted`), are excluded. The number of exclusions is always shown beside the rate.
    `interval`: Wilson's score interval over samples, for a proportion; the bootstrap over samples,
    for a rate that is not a mean.

    `unit`: whether criteria are counted, or samples; a sample is a hit if any of its criteria is.
    `arm`: which samples are counted, those with a trap or the controls.
    `polarity`, `rubric`: restrict the rate to criteria of that polarity or key; '' for all.
    `weighted`, `weights`: the facet by whose value criteria are weighted, and the weight of each
    value. Weights are whole numbers, and readers may change them. Criteria without a value are
    excluded.
    `points`: the facet whose values are points, possibly negative. The score of a sample is the sum
    of the points of its criteria whose verdict is in `hits`, divided by the sum of all its positive
    points. The rate is the mean over samples, clipped to 0 and 1. A sample is excluded
    if a criterion with points has no verdict.
    A rate is omitted for a release that has none of the samples or facet values it needs.
    """

    name: str
    label: str
    rule: str  # one sentence for readers: what is counted, and what is excluded
    hits: Mapping[str, int]
    counted: Mapping[str, int]
    scope: frozenset[str] = frozenset()
    interval: Literal["wilson", "bootstrap"] = "wilson"
    percent: bool = True  # False: shown with three decimals, as papers print F1
    unit: Literal["criterion", "sample"] = "criterion"
    arm: Literal["trap", "control"] = "trap"
    polarity: str = ""
    rubric: str = ""
    weighted: str = ""
    weights: Mapping[str, int] = field(default_factory=dict)
    points: str = ""

    @property
    def scope_verdicts(self) -> frozenset[str]:
        """The verdicts that are not excluded from this rate."""
        return self.scope or frozenset(self.counted)

    @property
    def is_share(self) -> bool:
        """Whether it is a plain share of criteria, in which each criterion weighs the same."""
        weights = {*self.hits.values(), *self.counted.values()}
        is_plain = self.unit == "criterion" and not self.weighted and not self.points
        return is_plain and weights == {1} and self.scope_verdicts == frozenset(self.counted)
