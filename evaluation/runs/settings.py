"""What a run is to be."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from evaluation.models import Run
from generation.models import Endpoint, Release


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run is to be: what is estimated and launched.

    `endpoints`: the models under test. `judge`: None where the benchmark's answers are read by code; `judge_temperature`: None
    for the published setting, and where there is none the judge's own. `judging`: one call of the judge per rubric, or one per
    sample with all its rubrics. `seed` (0 to 2**31 - 1): of what the benchmark leaves to chance. `variants`: the names of the
    data sets to ask, none for all. `transport`: whether requests go into providers' batches where an endpoint offers them.
    `sampling`: whose temperature, top_p and limit of tokens models under test are asked with.
    `budget_money`, `budget_calls`: what its calls may cost, and how many there may be; None: no limit. `fresh`: ask anew what
    has been paid for already.
    """

    release: Release
    endpoints: Sequence[Endpoint]
    judge: Endpoint | None = None
    judge_temperature: float | None = None
    judging: str = Run.Judging.PER_RUBRIC
    seed: int = 0
    variants: Sequence[str] = ()
    transport: str = Run.Transport.LIVE
    sampling: str = Run.Sampling.PROTOCOL
    budget_money: Decimal | None = None
    budget_calls: int | None = None
    fresh: bool = False

    @property
    def tested(self) -> list[Endpoint]:
        """The models under test, each once."""
        return list(dict.fromkeys(self.endpoints))

    @property
    def asked(self) -> list[Endpoint]:
        """Every endpoint of the run: the models under test, and its judge where it has one."""
        return [*self.tested, *([self.judge] if self.judge else [])]
