"""Numbers from verdicts: plain arithmetic, every rate with its numerator, its denominator and what it leaves out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from evaluation.protocol import Rate
from evaluation.statistics.bootstrap import bootstrap_kinds, ratio_of_totals
from review.rules.wilson_interval import wilson

UNJUDGED = "unjudged"

# Verdicts that weigh the same in a rate, with how many there are: (in the numerator, in the denominator) -> samples.
Weighed = tuple[tuple[tuple[int, int], int], ...]


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """A rate as counted. `value` is None where nothing was counted: undefined is said, not zero.

    Numerator and denominator are sums of weights; `excluded` is a number of verdicts. `resampled`: what a bootstrap draws from,
    empty for a plain proportion.
    """

    numerator: int
    denominator: int
    excluded: int
    resampled: Weighed = field(default=(), compare=False, repr=False)

    @property
    def value(self) -> float | None:
        return self.numerator / self.denominator if self.denominator else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %: Wilson's score interval (Wilson 1927), which takes criteria as independent; or the bootstrap's percentiles."""
        if not self.denominator:
            return None
        if self.resampled:
            return bootstrap(self.resampled)[0]
        return wilson(self.numerator, self.denominator)

    @property
    def undefined_draws(self) -> int:
        """In how many draws of a bootstrap nothing was counted."""
        return bootstrap(self.resampled)[1] if self.resampled and self.denominator else 0

    def __add__(self, other: "MeasuredRate") -> "MeasuredRate":
        together: Counter[tuple[int, int]] = Counter()
        for weights, n in (*self.resampled, *other.resampled):
            together[weights] += n
        return MeasuredRate(
            self.numerator + other.numerator,
            self.denominator + other.denominator,
            self.excluded + other.excluded,
            tuple(sorted(together.items())),
        )


NOTHING = MeasuredRate(0, 0, 0)


def measure(rate: Rate, verdicts: Mapping[str, int]) -> MeasuredRate:
    """Count `verdicts` (verdict -> how often) under the definition of `rate`."""
    weighed: Counter[tuple[int, int]] = Counter()
    for verdict, n in verdicts.items():
        weighed[rate.hits.get(verdict, 0), rate.counted.get(verdict, 0)] += n
    return MeasuredRate(
        numerator=sum(hit * n for (hit, _), n in weighed.items()),
        denominator=sum(counted * n for (_, counted), n in weighed.items()),
        excluded=sum(n for verdict, n in verdicts.items() if verdict not in rate.within),
        resampled=tuple(sorted(weighed.items())) if rate.interval == "bootstrap" else (),
    )


def pool(parts: Iterable[MeasuredRate]) -> MeasuredRate:
    """Micro-average: numerators and denominators are added before dividing (MHB, Metric: criteria over all criteria)."""
    return sum(parts, NOTHING)


@lru_cache(maxsize=8192)
def bootstrap(weighed: Weighed) -> tuple[tuple[float, float] | None, int]:
    """The 95 % percentile interval of a rate over resampled samples (Efron 1979), and in how many draws it was undefined.

    Weights that are alike are one kind of cluster, so no sample is looked at. What a rate leaves out is drawn with the rest: it
    was asked too.
    """
    return bootstrap_kinds([weights for weights, _ in weighed], [n for _, n in weighed], ratio_of_totals)
