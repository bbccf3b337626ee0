"""How much of what a run could have had judged is there: what makes it complete."""

from __future__ import annotations

from dataclasses import dataclass

from evaluation.numbers.frame import Frame
from evaluation.numbers.late import pl
from evaluation.numbers.rules import JUDGE_FAILURES
from review.rules.shown_fields import Hidden, shown


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the criteria of one model are settled, without withdrawn samples.

    `criteria`: all that the release, the variants and the repeats of the run could have had judged.
    `settled`: those of which nothing is missing: a verdict was given, the judge failed, or the
    answer ended otherwise than by failing. An answer that failed is missing, and so is what a tool
    marked as void. `counted`: those with a verdict that counts. `failures`: of the
    judge.
    """

    endpoint: str
    criteria: int
    settled: int
    counted: int
    failures: Hidden[int]

    @property
    @shown
    def complete(self) -> bool:
        """Whether nothing is missing, and the judge did not fail throughout."""
        return self.settled == self.criteria and (self.counted > 0 or not self.failures)


def coverage(frame: Frame) -> tuple[Coverage, ...]:
    """The coverage of each model, in their order."""
    failed = pl.col("why").is_in(JUDGE_FAILURES)
    sums = (pl.len(), pl.col("settled").sum(), pl.col("counts").sum(), failed.sum().alias("failures"))
    by_model = frame.current.rows.group_by("model").agg(*sums)
    counts = dict.fromkeys(frame.models, (0, 0, 0, 0))
    for model, *numbers in by_model.iter_rows():
        counts[model] = tuple(numbers)
    return tuple([Coverage(model, *numbers) for model, numbers in counts.items()])
