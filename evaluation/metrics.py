"""Numbers from verdicts: plain arithmetic, every rate with its numerator, its denominator and what it leaves out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt

from evaluation.protocol import Rate

UNJUDGED = "unjudged"
Z95 = 1.959963984540054  # two-sided 95 % of the normal distribution


@dataclass(frozen=True, slots=True)
class Measured:
    """A rate as counted. `value` is None where nothing was counted: undefined is said, not zero."""

    numerator: int
    denominator: int
    excluded: int

    @property
    def value(self) -> float | None:
        return self.numerator / self.denominator if self.denominator else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % Wilson score interval (Wilson 1927); it takes criteria as independent."""
        return wilson(self.numerator, self.denominator) if self.denominator else None

    def __add__(self, other: "Measured") -> "Measured":
        return Measured(
            self.numerator + other.numerator, self.denominator + other.denominator, self.excluded + other.excluded
        )


NOTHING = Measured(0, 0, 0)


def measure(rate: Rate, verdicts: Mapping[str, int]) -> Measured:
    """Count `verdicts` (verdict -> how often) under the definition of `rate`."""
    return Measured(
        numerator=sum(n for verdict, n in verdicts.items() if verdict in rate.hits),
        denominator=sum(n for verdict, n in verdicts.items() if verdict in rate.counted),
        excluded=sum(n for verdict, n in verdicts.items() if verdict not in rate.counted),
    )


def pool(parts: Iterable[Measured]) -> Measured:
    """Micro-average: numerators and denominators are added before dividing (MHB, Metric: criteria over all criteria)."""
    return sum(parts, NOTHING)


def wilson(hits: int, n: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a proportion. Raises ValueError unless 0 <= hits <= n and n > 0."""
    if not 0 <= hits <= n or n == 0:
        raise ValueError(f"no proportion: {hits} of {n}")
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
