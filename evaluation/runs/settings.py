"""The settings of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from evaluation.errors import EscalationNeedsThree
from evaluation.models import Run
from evaluation.panel import INITIAL_JUDGES, escalation_order
from evaluation.statistics.intervals import MINIMUM
from generation.models import Endpoint, PromptSet, Release
from generation.prompts import queries as prompts_queries


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a run to estimate or launch.

    Attributes:
        endpoints: the models under test.
        judge: None if code reads the benchmark's answers.
        further_judges: the judges after the first, for a panel.
        panel: the rule by which votes become one verdict.
        answers: answers of a model to a question.
        judgments: judgments of each judge on a criterion.
        judge_temperature: None for the published setting, or the judge's own if none is published.
        judging: one call of the judge per rubric, or one per sample with all its rubrics.
        seed: of what the benchmark leaves to chance, 0 to 2**31 - 1.
        variants: the names of the data sets to ask; empty: the usual ones.
        transport: whether requests go into provider batches where an endpoint offers them.
        sampling: whose temperature, top_p and token limit apply to models under test.
        preset: named counting rules of the plan; '' for the benchmark's first.
        metric: the plan's primary metric; '' for the preset's.
        comparisons: the plan's pairs of models as MODEL:MODEL; empty: all.
        outcomes: the plan's rules as OUTCOME=RULE, where they differ from the preset.
        minimum: samples below which no interval is given.
        prompts: a team's own prompt set, NAME or NAME@VERSION; '' for the benchmark's prompts.
        budget_money, budget_calls: limits of cost and calls; None: no limit.
        fresh: ignore cached replies.
        first_only: pause when the first sample has been judged; not in provider batches.
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
    prompts: str = ""
    budget_money: Decimal | None = None
    budget_calls: int | None = None
    fresh: bool = False
    first_only: bool = False

    @property
    def prompt_set(self) -> PromptSet | None:
        """The stored set whose prompts are sent; None: the benchmark's. Raises UnknownPrompts."""
        return prompts_queries.stored_set(self.release.benchmark, self.prompts)

    @property
    def tested(self) -> list[Endpoint]:
        """The models under test, without repeats."""
        return list(dict.fromkeys(self.endpoints))

    @property
    def asked(self) -> list[Endpoint]:
        """Every endpoint of the run: the models under test and the judges."""
        return [*self.tested, *self.judges]

    @property
    def judges(self) -> list[Endpoint]:
        """The judges in the order of the panel, without repeats. Raises EscalationNeedsThree."""
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
        """The rule by which votes become a verdict; '' if one judge decides once."""
        return self.panel if len(self.judges) > 1 or self.judgments > 1 else ""

    @property
    def judgments_a_criterion(self) -> int:
        """The maximum number of judgments of a criterion."""
        return len(self.judges) * self.judgments
