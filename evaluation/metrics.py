"""Numbers from verdicts: plain arithmetic, every rate with its numerator, its denominator and what it leaves out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from evaluation.protocol import Rate
from review.rules.intervals import wilson

UNJUDGED = "unjudged"
DRAWS = 2_000  # of a bootstrap
DRAWN_FROM = 20260101  # the seed of every bootstrap: the same verdicts have the same interval, anywhere and always
DEFINED = 0.95  # the share of draws in which a rate must be defined for its interval to be given

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
        """In how many of a bootstrap's `DRAWS` nothing was counted."""
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

    As many samples as there are, drawn with replacement, `DRAWS` times. With one verdict a sample that is exactly a draw of
    verdict counts from the multinomial distribution, so no sample is looked at. What a rate leaves out is drawn with the rest:
    it was asked too. A draw in which nothing is counted has no rate and is left out; where more than one in twenty is so, there
    is too little to say and the interval is None.
    """
    counts = np.array([n for _, n in weighed])
    total = int(counts.sum())
    if not total:
        return None, DRAWS
    drawn = np.random.default_rng(DRAWN_FROM).multinomial(total, counts / total, size=DRAWS)
    hits = drawn @ np.array([hit for (hit, _), _ in weighed])
    counted = drawn @ np.array([count for (_, count), _ in weighed])
    rates = hits[counted > 0] / counted[counted > 0]
    undefined = DRAWS - len(rates)
    if len(rates) < DEFINED * DRAWS:
        return None, undefined
    low, high = np.quantile(rates, [0.025, 0.975])
    return (float(low), float(high)), undefined
