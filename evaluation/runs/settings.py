"""The settings of a run."""

from collections.abc import Sequence

from django.utils.translation import gettext_lazy as _

from evaluation.errors import EscalationNeedsThree
from evaluation.models import MAX_SEED, Run
from evaluation.panel import INITIAL_JUDGES, escalation_order
from evaluation.statistics.intervals import MINIMUM
from generation.jobs.settings import RECORDS, LaunchSettings, setting, settings_class
from generation.models import Endpoint, PromptSet, Release
from generation.prompts import queries as prompts_queries

RELEASE_HELP = "NAME for the latest version, or NAME@VERSION."
MAX_REPEATS = 20  # answers to a question, and judgments of one judge on a criterion
MAX_JUDGES = 9
MAX_MINIMUM = 10_000  # the largest sensible minimum of samples
POLICY_SAMPLES, MAX_POLICY_SAMPLES = 50, 1000  # of each data set


@settings_class
class RunSettings(LaunchSettings):
    """The settings of a run to estimate or launch."""

    release: Release = setting(_("Release"), RELEASE_HELP, section=RECORDS)
    endpoints: Sequence[Endpoint] = setting(_("Models to test"), option="--endpoint")
    judge: Endpoint | None = setting(_("Judge"), default=None)
    further_judges: Sequence[Endpoint] = setting(
        _("Further judges"),
        _("Each judge votes on every criterion. Choose none to let one judge decide."),
        entries=MAX_JUDGES,
        default=(),
    )
    panel: str = setting(
        _("Panel decision"),
        _(
            "Without a majority a criterion stays unjudged, unless a rule says otherwise. Used with several judges or "
            "several judgments."
        ),
        choices=Run.Panel.choices,
        default=Run.Panel.MAJORITY,
    )
    judgments: int = setting(
        _("Judgments per criterion"),
        _("How often each judge judges the same answer. The majority counts."),
        least=1,
        most=MAX_REPEATS,
        column="judgments_each",
        default=1,
    )
    judge_temperature: float | None = setting(
        _("Judge temperature"), _("Leave empty for the published setting."), least=0, most=2, default=None
    )
    judging: str = setting(
        _("Judging"),
        _("One call per sample is cheaper, but a judge that sees all rubrics at once may decide differently."),
        choices=Run.Judging.choices,
        column="judging",
        default=Run.Judging.PER_RUBRIC,
    )
    sampling: str = setting(
        _("Sampling (temperature, top_p, token limit)"),
        _(
            "Choose endpoint settings for models that refuse the benchmark's settings or need more "
            "tokens to think than it allows. The numbers then no longer follow the published protocol."
        ),
        choices=Run.Sampling.choices,
        column="sampling",
        default=Run.Sampling.PROTOCOL,
    )
    transport: str = setting(
        _("Request mode"), choices=Run.Transport.choices, column="transport", default=Run.Transport.LIVE
    )
    prompts: str = setting(
        _("Prompts"),
        _("A prompt set of your own replaces the benchmark's questions and the judge's prompts."),
        most=64,
        choices=(),
        default="",
    )
    preset: str = setting(
        _("Counting rules"),
        _("How failures are counted. They also set the primary metric if you choose none."),
        most=40,
        choices=(),
        default="",
    )
    metric: str = setting(
        _("Primary metric"),
        _("The analysis plan is frozen at launch. The report marks everything else as exploratory."),
        most=40,
        choices=(),
        default="",
    )
    primary_dataset: str = setting(
        _("Primary data set"),
        _(
            "Planned comparisons are those on this data set; those on others are secondary. With all of them as one family "
            "of comparisons, each comparison has less power."
        ),
        most=40,
        choices=(),
        default="",
    )
    minimum: int = setting(
        _("Samples needed for an interval"),
        _("Rates based on fewer samples are shown without an interval and are not drawn."),
        least=MINIMUM,
        most=MAX_MINIMUM,
        default=MINIMUM,
    )
    comparisons: Sequence[str] = setting(
        _("Planned comparisons"),
        _("MODEL:MODEL. Leave empty for every pair."),
        most=210,
        entries=1000,
        option="--compare",
        default=(),
    )
    outcomes: Sequence[str] = setting(
        _("Rules for responses without an answer or a verdict"),
        "OUTCOME=RULE. Outcomes: refused, empty, filtered, cut_off, failed, unknown, unasked; of the judge: unparsed,"
        " judge_failed, no_majority. Rules: judged, excluded, or a verdict. Default: those of the preset.",
        most=40,
        entries=20,
        option="--outcome",
        default=(),
    )
    policies: Sequence[str] = setting(
        _("Fixed texts"),
        _(
            "Judged as if a model gave each of them to every question. A benchmark on which one wins can be beaten blindly."
        ),
        most=20,
        entries=20,
        choices=(),
        option="--policy",
        column="policies",
        default=(),
    )
    policy_samples: int = setting(
        _("Samples for fixed texts"),
        _("Drawn by the seed from each data set. No model is asked; each text costs a judge's calls on each of them."),
        least=1,
        most=MAX_POLICY_SAMPLES,
        column="policy_samples",
        default=POLICY_SAMPLES,
    )
    datasets: Sequence[str] = setting(
        _("Data sets"),
        _(
            "Each data set asks the question in a different way and costs one call per sample "
            "and model. Choose none to use all of them."
        ),
        section=RECORDS,
        choices=(),
        default=(),
    )
    seed: int = setting(
        _("Seed"),
        _("Fixes this benchmark's random choices. The same seed asks the same questions."),
        section=RECORDS,
        least=0,
        most=MAX_SEED,
        column="seed",
        default=0,
    )
    answers: int = setting(
        _("Answers per question"),
        _("Several answers show how much a model's answers vary. Each costs a call and its judgments."),
        section=RECORDS,
        least=1,
        most=MAX_REPEATS,
        column="answers_each",
        default=1,
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
        if len(self.judges) > 1 or self.judgments > 1:
            return self.panel
        return ""
