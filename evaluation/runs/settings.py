"""The settings of a run."""

from collections.abc import Sequence
from typing import Annotated

from django.utils.translation import gettext_noop as _
from pydantic import Field

from evaluation.errors import EscalationNeedsThree
from evaluation.models import MAX_SEED, Run
from evaluation.panel import INITIAL_JUDGES, escalation_order
from evaluation.statistics.intervals import MINIMUM
from generation.jobs.settings import RECORDS, AskedAs, LaunchSettings
from generation.models import Endpoint, PromptSet, Release
from generation.prompts import queries as prompts_queries

RELEASE_HELP = "NAME for the latest version, or NAME@VERSION."
MAX_REPEATS = 20  # answers to a question, and judgments of one judge on a criterion
MAX_JUDGES = 9
MAX_MINIMUM = 10_000  # the largest sensible minimum of samples
POLICY_SAMPLES, MAX_POLICY_SAMPLES = 50, 1000  # of each data set


AskedRelease = Annotated[Release, AskedAs(RECORDS)]  # by itself: within the class, mypy cannot read it


class RunSettings(LaunchSettings):
    """The settings of a run to estimate or launch."""

    release: AskedRelease = Field(title=_("Release"), description=RELEASE_HELP)
    endpoints: Annotated[Sequence[Endpoint], AskedAs(option="--endpoint")] = Field(title=_("Models to test"))
    judge: Endpoint | None = Field(None, title=_("Judge"))
    further_judges: Sequence[Endpoint] = Field(
        (),
        title=_("Further judges"),
        description=_("Each judge votes on every criterion. Choose none to let one judge decide."),
        max_length=MAX_JUDGES,
    )
    panel: Run.Panel = Field(
        Run.Panel.MAJORITY,
        title=_("Panel decision"),
        description=_(
            "Without a majority a criterion stays unjudged, unless a rule says otherwise. Used with several judges or "
            "several judgments."
        ),
    )
    judgments: Annotated[int, AskedAs(column="judgments_each")] = Field(
        1,
        title=_("Judgments per criterion"),
        description=_("How often each judge judges the same answer. The majority counts."),
        ge=1,
        le=MAX_REPEATS,
    )
    judge_temperature: float | None = Field(
        None, title=_("Judge temperature"), description=_("Leave empty for the published setting."), ge=0, le=2
    )
    judging: Annotated[Run.Judging, AskedAs(column="judging")] = Field(
        Run.Judging.PER_RUBRIC,
        title=_("Judging"),
        description=_(
            "One call per sample is cheaper, but a judge that sees all rubrics at once may decide differently."
        ),
    )
    sampling: Annotated[Run.Sampling, AskedAs(column="sampling")] = Field(
        Run.Sampling.PROTOCOL,
        title=_("Sampling (temperature, top_p, token limit)"),
        description=_(
            "Choose endpoint settings for models that refuse the benchmark's settings or need more "
            "tokens to think than it allows. The numbers then no longer follow the published protocol."
        ),
    )
    transport: Annotated[Run.Transport, AskedAs(column="transport")] = Field(
        Run.Transport.LIVE, title=_("Request mode")
    )
    prompts: Annotated[str, AskedAs(offered=True)] = Field(
        "",
        title=_("Prompts"),
        description=_("A prompt set of your own replaces the benchmark's questions and the judge's prompts."),
        max_length=64,
    )
    preset: Annotated[str, AskedAs(offered=True)] = Field(
        "",
        title=_("Counting rules"),
        description=_("How failures are counted. They also set the primary metric if you choose none."),
        max_length=40,
    )
    metric: Annotated[str, AskedAs(offered=True)] = Field(
        "",
        title=_("Primary metric"),
        description=_("The analysis plan is frozen at launch. The report marks everything else as exploratory."),
        max_length=40,
    )
    primary_dataset: Annotated[str, AskedAs(offered=True)] = Field(
        "",
        title=_("Primary data set"),
        description=_(
            "Planned comparisons are those on this data set; those on others are secondary. With all of them as one family "
            "of comparisons, each comparison has less power."
        ),
        max_length=40,
    )
    minimum: int = Field(
        MINIMUM,
        title=_("Samples needed for an interval"),
        description=_("Rates based on fewer samples are shown without an interval and are not drawn."),
        ge=MINIMUM,
        le=MAX_MINIMUM,
    )
    comparisons: Annotated[Sequence[Annotated[str, Field(max_length=210)]], AskedAs(option="--compare")] = Field(
        (), title=_("Planned comparisons"), description=_("MODEL:MODEL. Leave empty for every pair."), max_length=1000
    )
    outcomes: Annotated[Sequence[Annotated[str, Field(max_length=40)]], AskedAs(option="--outcome")] = Field(
        (),
        title=_("Rules for responses without an answer or a verdict"),
        description="OUTCOME=RULE. Outcomes: refused, empty, filtered, cut_off, failed, unknown, unasked; of the judge: "
        "unparsed, judge_failed, no_majority. Rules: judged, excluded, or a verdict. Default: those of the preset.",
        max_length=20,
    )
    policies: Annotated[
        Sequence[Annotated[str, Field(max_length=20)]], AskedAs(offered=True, option="--policy", column="policies")
    ] = Field(
        (),
        title=_("Fixed texts"),
        description=_(
            "Judged as if a model gave each of them to every question. A benchmark on which one wins can be beaten blindly."
        ),
        max_length=20,
    )
    policy_samples: Annotated[int, AskedAs(column="policy_samples")] = Field(
        POLICY_SAMPLES,
        title=_("Samples for fixed texts"),
        description=_(
            "Drawn by the seed from each data set. No model is asked; each text costs a judge's calls on each of them."
        ),
        ge=1,
        le=MAX_POLICY_SAMPLES,
    )
    datasets: Annotated[Sequence[str], AskedAs(RECORDS, offered=True)] = Field(
        (),
        title=_("Data sets"),
        description=_(
            "Each data set asks the question in a different way and costs one call per sample "
            "and model. Choose none to use all of them."
        ),
    )
    seed: Annotated[int, AskedAs(RECORDS, column="seed")] = Field(
        0,
        title=_("Seed"),
        description=_("Fixes this benchmark's random choices. The same seed asks the same questions."),
        ge=0,
        le=MAX_SEED,
    )
    answers: Annotated[int, AskedAs(RECORDS, column="answers_each")] = Field(
        1,
        title=_("Answers per question"),
        description=_("Several answers show how much a model's answers vary. Each costs a call and its judgments."),
        ge=1,
        le=MAX_REPEATS,
    )

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
        named = list(self.further_judges)
        if self.judge:
            named.insert(0, self.judge)
        judges = list(dict.fromkeys(named))
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
        if len(self.judges) > 1 or self.judgments > 1:
            return self.panel
        return ""
