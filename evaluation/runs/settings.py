"""What a run is to be."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from evaluation.errors import EscalationNeedsThree
from evaluation.models import Run
from evaluation.panel import INITIAL_JUDGES, escalation_order
from evaluation.statistics.intervals import MINIMUM
from generation.models import Endpoint, Release


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run is to be: what is estimated and launched.

    `endpoints`: the models under test. `judge`: None where the benchmark's answers are read by code; `judge_temperature`: None
    for the published setting, and where there is none the judge's own. `judging`: one call of the judge per rubric, or one per
    sample with all its rubrics. `seed` (0 to 2**31 - 1): of what the benchmark leaves to chance. `variants`: the names of the
    data sets to ask, none for all. `transport`: whether requests go into providers' batches where an endpoint offers them.
    `further_judges`: after the first, which is `judge`; `panel`: how their votes come to one verdict. `answers`: answers of a
    model to a question; `judgments`: judgments of each judge on a criterion.
    `sampling`: whose temperature, top_p and limit of tokens models under test are asked with.
    Of the analysis plan: `preset`, a named way of counting, '' for the usual one; `metric`, the primary one, '' for the
    preset's; `comparisons`, pairs of models as MODEL:MODEL, none for all; `outcomes`, OUTCOME=RULE where one is not as
    in the preset; `minimum`, samples below which no interval is given.
    `budget_money`, `budget_calls`: what its calls may cost, and how many there may be; None: no limit. `fresh`: ask anew what
    has been paid for already.
    """

    release: Release
    endpoints: Sequence[Endpoint]
    judge: Endpoint | None = None
    further_judges: Sequence[Endpoint] = ()
    panel: str = Run.Panel.MAJORITY
    answers: int = 1
    judgments: int = 1
    judge_temperature: float | None = None
    judging: str = Run.Judging.PER_RUBRIC
    seed: int = 0
    variants: Sequence[str] = ()
    transport: str = Run.Transport.LIVE
    sampling: str = Run.Sampling.PROTOCOL
    preset: str = ""
    metric: str = ""
    comparisons: Sequence[str] = ()
    outcomes: Sequence[str] = ()
    minimum: int = MINIMUM
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
        return [*self.tested, *self.judges]

    @property
    def judges(self) -> list[Endpoint]:
        """The judges, each once, in the order of the panel. Raises EscalationNeedsThree."""
        judges = list(dict.fromkeys([*([self.judge] if self.judge else []), *self.further_judges]))
        if self.panel != Run.Panel.ESCALATION or len(judges) < INITIAL_JUDGES:
            return judges
        by_name = {judge.name: judge for judge in judges}
        families = {name: judge.model_family for name, judge in by_name.items()}
        order = escalation_order(families, list(by_name))
        if order is None or len(order) != INITIAL_JUDGES + 1:
            raise EscalationNeedsThree
        return [by_name[name] for name in order]

    @property
    def rule(self) -> str:
        """The rule by which votes come to a verdict; '' where one judge decides once."""
        return self.panel if len(self.judges) > 1 or self.judgments > 1 else ""

    @property
    def judgments_a_criterion(self) -> int:
        """How many judgments a criterion takes at most."""
        return len(self.judges) * self.judgments
