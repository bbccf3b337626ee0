"""How far the two judges of the committee agree, with Cohen's weighted kappa."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class CommitteeAgreement:
    """Counts of score pairs, one judge's and the other's; and how often a judge gave no score."""

    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    not_scored: int = 0

    def add(self, values: Sequence[int], *, not_scored: int) -> None:
        """Count the scores of a dimension in one conversation: two where both judges gave one."""
        self.not_scored += not_scored
        if len(values) == 2:
            self.pairs[values[0], values[1]] += 1

    def __add__(self, other: "CommitteeAgreement") -> "CommitteeAgreement":
        return CommitteeAgreement(self.pairs + other.pairs, self.not_scored + other.not_scored)

    @property
    def weighted_kappa(self) -> float | None:
        """Cohen's kappa with quadratic weights (1968); None where it is not defined.

        That is so without pairs, and where both judges give all the same score.
        """
        total = self.pairs.total()
        first, second = Counter[int](), Counter[int]()
        observed = 0
        for (one, other), n in self.pairs.items():
            first[one] += n
            second[other] += n
            observed += (one - other) ** 2 * n
        expected = 0
        for one, n in first.items():
            for other, m in second.items():
                expected += (one - other) ** 2 * n * m
        if expected:
            return 1 - observed * total / expected
        return None

    def cells(self) -> tuple[str, ...]:
        """Scored by both, equal, weighted kappa, mean difference, not scored."""
        total, equal, difference = self.pairs.total(), 0, 0
        for (one, other), n in self.pairs.items():
            difference += abs(one - other) * n
            if one == other:
                equal += n
        kappa, mean_difference = "–", "–"
        if self.weighted_kappa is not None:
            kappa = f"{self.weighted_kappa:.2f}"
        if total:
            mean_difference = f"{difference / total:.2f}"
        return str(total), str(equal), kappa, mean_difference, str(self.not_scored)
