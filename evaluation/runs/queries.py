"""Queries on runs, and the requests that runs send."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from random import Random
from typing import Annotated, Any

from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, When
from django.utils.translation import gettext_noop as _
from pydantic import BaseModel

from evaluation import errors, registry
from evaluation.models import Judgment, Response, Run, RunEndpoint, RunJudge
from evaluation.numbers.rules import NOT_JUDGED
from evaluation.panel import INITIAL_JUDGES
from evaluation.protocol import Ask, DataSet, Judging, Protocol, Rubric, Sample
from evaluation.runs.settings import MAX_JUDGES, RunSettings
from generation.errors import NotCallable
from generation.jobs import live_status
from generation.jobs import queries as jobs_queries
from generation.jobs.queries import ModelAsked
from generation.llm.types import Request
from generation.models import Endpoint, ProviderBatch, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from generation.prompts import queries as prompts_queries
from review.rules.case_spec import UNDETERMINED
from review.rules.shown_fields import Hidden, Shown, shown

Status = Work.Status
TARGET, JUDGE = "target", "judge"
ROLES = {TARGET: _("Model under test"), JUDGE: _("Judge")}
SECOND_VERDICT = 1000  # above the number of any judgment of a run: 20 answers, judged 20 times each


# Whether a simulated model contributed to a run, as generator, under test or as judge.
_SIMULATED = (
    Q(release__simulated=True)
    | Q(judge__simulated=True)
    | Q(Exists(RunEndpoint.objects.filter(run=OuterRef("pk"), endpoint__simulated=True)))
    | Q(Exists(RunJudge.objects.filter(run=OuterRef("pk"), endpoint__simulated=True)))
)


def runs(*, text: str = "", benchmark: str = "", status: str = "") -> QuerySet[Run]:
    """All runs, newest first, with `is_simulated`.

    `text`: part of the name of a release, study, model or judge, or of its title.
    """
    rows = Run.objects.select_related("release", "judge", "created_by", "prompt_set").prefetch_related(
        "endpoints", "further_judges__endpoint"
    )
    rows = rows.annotate(is_simulated=_SIMULATED)
    if text:
        tested = RunEndpoint.objects.filter(run=OuterRef("pk"), endpoint__name__icontains=text)
        named = (
            Q(release__name__icontains=text)
            | Q(study__icontains=text)
            | Q(title__icontains=text)
            | Q(judge__name__icontains=text)
        )
        rows = rows.filter(named | Exists(tested))
    if benchmark:
        rows = rows.filter(release__benchmark=benchmark)
    if status:
        return rows.filter(status=status)
    return rows


def prompts_of(run: Run) -> AbstractContextManager[None]:
    """Ask, inside, with the prompts of the run's set."""
    return prompts_queries.using(run.release.benchmark, run.prompt_set)


def sample_value(row: ReleasedSample) -> Sample:
    """A released sample in the protocol's type."""
    return Sample(row.key, row.task, row.exported["content"])


def question_text(row: ReleasedSample) -> str:
    """The question in the content of a sample, shown with its images; '' if it has none."""
    return str(row.exported["content"].get("question") or "")


def rubric_value(row: ReleasedRubric) -> Rubric:
    """A released rubric in the protocol's type."""
    return Rubric(row.key, row.criterion, tuple(row.traps))


def rubric_values(row: ReleasedSample) -> list[Rubric]:
    """The rubrics of a released sample in the protocol's type, in order."""
    return [rubric_value(rubric) for rubric in row.rubrics.order_by("pk")]


def data_sets_in(release: Release) -> tuple[DataSet, ...]:
    """The protocol's data sets of which the release has samples."""
    present = release.counts.get("task", {})
    datasets = registry.protocol(release.benchmark).datasets
    return tuple([dataset for dataset in datasets if dataset.task in present])


def usual_data_sets(release: Release) -> tuple[DataSet, ...]:
    """Those of them that a run asks if it names none."""
    return tuple(dataset for dataset in data_sets_in(release) if dataset.by_default)


def data_sets_of(run: Run) -> tuple[DataSet, ...]:
    """The data sets that a run asks: one of each task, for verdicts that were made elsewhere."""
    available = data_sets_in(run.release)
    if run.variants:
        return _named(run.variants, available)
    if run.origin == Run.Origin.IMPORTED:
        first = registry.protocol(run.release.benchmark).first_of_task.values()
        return tuple([dataset for dataset in available if dataset in first])
    return available


def _named(names: Collection[str], datasets: Iterable[DataSet]) -> tuple[DataSet, ...]:
    return tuple([dataset for dataset in datasets if dataset.name in names])


def data_set_named(run: Run, name: str) -> DataSet | None:
    """The data set of this name, if the run asks it."""
    for dataset in data_sets_of(run):
        if dataset.name == name:
            return dataset
    return None


def data_sets_asked(settings: RunSettings) -> tuple[DataSet, ...]:
    """The data sets that a run with these settings would ask; by default the usual ones."""
    if settings.datasets:
        return _named(settings.datasets, data_sets_in(settings.release))
    return usual_data_sets(settings.release)


def first_samples(release: Release, datasets: Iterable[DataSet]) -> list[ReleasedSample]:
    """The first sample of each task of these data sets, which stands for all of the task.

    A public one, if there is any: what a server says of it is shown to readers of results.
    """
    public_first = Case(When(split=ReleasedSample.Split.PUBLIC, then=0), default=1)
    samples = ReleasedSample.objects.filter(release=release).order_by(public_first, "position")
    firsts: list[ReleasedSample] = []
    for task in dict.fromkeys([dataset.task for dataset in datasets]):
        firsts.extend(samples.filter(task=task)[:1])
    return firsts


def counts_by_task(release: Release) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers of samples and of rubrics of each task of a release."""
    samples = ReleasedSample.objects.filter(release=release).order_by().values_list("task")
    rubrics = ReleasedRubric.objects.filter(sample__release=release).order_by().values_list("sample__task")
    return dict(samples.annotate(n=Count("pk"))), dict(rubrics.annotate(n=Count("pk")))


def protocol_and_data_sets(settings: RunSettings) -> tuple[Protocol, tuple[DataSet, ...]]:
    """Check the settings of a run; returns the protocol, and the data sets to ask.

    Raises NoEndpoints, NotCallable, JudgeNeeded, NoJudgeNeeded, NotPerSample, UnknownDataSet,
    UnknownPolicy, NoBatches, TooManyRepeats, EscalationNeedsThree, NoPanelInBatches,
    ChainWithoutStart.
    """
    judge, variants = settings.judge, settings.datasets
    if not settings.endpoints:
        raise errors.NoEndpoints
    not_callable = [endpoint.name for endpoint in settings.asked if not endpoint.is_usable]
    if not_callable:
        raise NotCallable(", ".join(not_callable))
    protocol = registry.protocol(settings.release.benchmark)
    if protocol.judge is None and (settings.judges or settings.judgments > 1):
        raise errors.NoJudgeNeeded
    if protocol.judge is not None and judge is None:
        raise errors.JudgeNeeded
    if settings.judging == Run.Judging.PER_SAMPLE and protocol.sample_judging is None:
        raise errors.NotPerSample
    if len(settings.judges) > MAX_JUDGES:
        raise errors.TooManyRepeats
    if settings.panel == Run.Panel.ESCALATION and judge is not None and len(settings.judges) <= INITIAL_JUDGES:
        raise errors.EscalationNeedsThree
    if settings.transport == Run.Transport.BATCH and settings.rule:
        raise errors.NoPanelInBatches
    known = [dataset.name for dataset in data_sets_in(settings.release)]
    unknown = sorted(set(variants).difference(known))
    if unknown:
        raise errors.UnknownDataSet(f"{', '.join(unknown)}; known: {', '.join(known)}")
    if settings.transport == Run.Transport.BATCH and not any(endpoint.batches for endpoint in settings.asked):
        raise errors.NoBatches
    check_policies(settings.policies, protocol)
    datasets = data_sets_asked(settings)
    _check_chains(protocol, settings, datasets)
    return protocol, datasets


def check_policies(policies: Iterable[str], protocol: Protocol) -> None:
    """Raises UnknownPolicy if the benchmark does not use one of these fixed texts."""
    unknown = [name for name in policies if name not in protocol.policies]
    if unknown:
        known = ", ".join(protocol.policies) or "–"
        raise errors.UnknownPolicy(f"{', '.join(unknown)}; known: {known}")


def _check_chains(protocol: Protocol, settings: RunSettings, datasets: Sequence[DataSet]) -> None:
    """Raises ChainWithoutStart if a question is asked without the one whose answer it needs."""
    if protocol.ask_on is None:
        return
    for first in first_samples(settings.release, datasets):
        asks = questions(protocol, first, settings.seed, datasets)
        needed = {ask.after for ask in asks} - {""}
        missing = needed.difference([ask.variant for ask in asks])
        if missing:
            raise errors.ChainWithoutStart(f"{first.task}: {', '.join(sorted(missing))}")


def questions(protocol: Protocol, sample: ReleasedSample, seed: int, datasets: Iterable[DataSet]) -> list[Ask]:
    """The protocol's questions about a sample that belong to these data sets."""
    variants = {dataset.variant for dataset in datasets if dataset.task == sample.task}
    return [ask for ask in protocol.ask(sample_value(sample), seed) if ask.variant in variants]


def question(protocol: Protocol, sample: ReleasedSample, seed: int, variant: str, model: str = "") -> Ask:
    """The question about a sample in a variant, as a model of this name is asked it.

    Raises LookupError if it no longer exists.
    """
    for ask in protocol.ask(sample_value(sample), seed):
        if ask.variant == variant:
            return asked_of(protocol, sample, ask, model)
    raise LookupError(f"{sample.key}: no question in variant {variant!r}")


def asked_of(protocol: Protocol, sample: ReleasedSample, ask: Ask, model: str) -> Ask:
    """The question as a model of this name is asked it."""
    if protocol.ask_model is None:
        return ask
    return protocol.ask_model(sample_value(sample), ask, model)


def model_request(ask: Ask, sampling: str, repeat: int = 0) -> Request:
    """The request for a model under test.

    `sampling`: whether the benchmark's sampling settings apply, or only the endpoint's. `repeat`:
    the number of the answer; each is a call of its own.
    """
    request = replace(ask.request, repeat=repeat)
    if sampling == Run.Sampling.PROTOCOL:
        return request
    return replace(request, temperature=None, top_p=None, max_tokens=None)


def judge_request(request: Request, run: Run, *, answer: int, judgment: int = 0) -> Request:
    """The request for a judge, at the run's temperature.

    Each judgment of each answer is a call of its own, even if two answers are identical: a shared
    verdict would make the judge look more consistent than it is. At temperature 0, a judge that is
    asked once is asked once for equal texts: equal requests are paid for once.
    """
    if request.temperature is None:
        temperature = run.judge_temperature
    else:
        temperature = request.temperature
    if temperature == 0 and run.judgments_each == 1:
        return replace(request, temperature=temperature, repeat=0)
    repeat = answer * run.judgments_each + judgment
    return replace(request, temperature=temperature, repeat=repeat)


def second_judge_request(request: Request, run: Run, *, answer: int) -> Request:
    """The request for a second verdict on an answer: a call of its own at any temperature."""
    return replace(judge_request(request, run, answer=answer), repeat=SECOND_VERDICT + answer)


def judges_of(run: Run) -> list[Endpoint]:
    """The judges of a run in the order of its panel."""
    judges = []
    if run.judge:
        judges.append(run.judge)
    for further in run.further_judges.select_related("endpoint").order_by("pk"):
        judges.append(further.endpoint)
    return judges


def models_of(run: Run) -> list[Endpoint]:
    """The models under test of a run, in the order in which they were named."""
    return [tested.endpoint for tested in run.tested.select_related("endpoint").order_by("pk")]


def judge_names(run: Run) -> str:
    """The judges of a run with their models: 'gpt-judge (gpt-5), …'; '' if there are none."""
    return ", ".join([f"{judge.name} ({judge.model})" for judge in judges_of(run)])


def judges_asked(run: Run) -> list[Endpoint]:
    """The judges of a run that are not left out."""
    return [judge for judge in judges_of(run) if str(judge.pk) not in run.judges_left_out]


def endpoint_as_launched(run: Run, endpoint: Endpoint) -> Endpoint:
    """The endpoint with its settings at launch. Do not save it."""
    return endpoint.with_launch_settings(run.endpoint_settings.get(str(endpoint.pk), {}))


def further_judges(run: Run) -> list[str]:
    """The names of the judges after the first, in the order of the panel."""
    return [row.endpoint.name for row in sorted(run.further_judges.all(), key=lambda row: row.pk)]


def models_asked(run: Run) -> list[ModelAsked]:
    """The models under test and the judge, with settings, reported versions and prompts."""
    roles = [(TARGET, endpoint) for endpoint in models_of(run)]
    roles += [(JUDGE, judge) for judge in judges_of(run)]
    return jobs_queries.models_asked(run, roles, run.endpoint_settings)


def first_sample(run: Run) -> ReleasedSample | None:
    """The sample with which a run begins."""
    row = Response.objects.filter(run=run).select_related("sample").order_by("pk").first()
    if row:
        return row.sample
    return None


def endpoints_of(run: Run) -> QuerySet[Endpoint]:
    """The endpoints under test in a run, and its judges."""
    further = RunJudge.objects.filter(run=run).values("endpoint")
    return Endpoint.objects.filter(Q(pk=run.judge_id) | Q(runs=run) | Q(pk__in=further)).distinct()


def language_of(row: ReleasedSample) -> str:
    """The language of a sample (ISO 639-1) that models should answer in; '' if unknown."""
    language = row.version.case.language
    if language == UNDETERMINED:
        return ""
    return language


def judgment_input(row: Judgment) -> tuple[Sample, Rubric, Response]:
    """The sample, rubric and response of a judgment.

    Makes no query if `response` and `rubric__sample` are loaded.
    """
    return sample_value(row.rubric.sample), rubric_value(row.rubric), row.response


def judging_of(protocol: Protocol, rubric: Rubric, run: Run) -> Judging:
    """How a judge decides on a rubric in a run. Raises NoJudgeNeeded if code decides."""
    judging = protocol.judging(rubric.key, run.plan.get("preset", ""))
    if judging is None:
        raise errors.NoJudgeNeeded
    return judging


def example_judgings(
    protocol: Protocol,
    row: ReleasedSample,
    rubrics: Sequence[Rubric],
    judging: str,
    variant: str = "",
    preset: str = "",
) -> list[tuple[str, Request, type[BaseModel]]]:
    """(rubric key, request, shape of the reply) of a judge's calls on an answer that nobody gave.

    The key is '' where one call decides on all `rubrics`. `variant`: '' for the first that is
    judged. Empty if code reads the benchmark's answers.
    """
    sample, answer = sample_value(row), "(the response)"
    if judging == Run.Judging.PER_SAMPLE and protocol.sample_judging is not None:
        whole = protocol.sample_judging
        return [("", whole.judge(sample, rubrics, variant, answer), whole.shape)]
    examples: list[tuple[str, Request, type[BaseModel]]] = []
    for rubric in rubrics:
        each = protocol.judging(rubric.key, preset)
        if each is not None:
            first_judged = variant or min(each.variants, default="")
            examples.append((rubric.key, each.judge(sample, rubric, first_judged, answer), each.shape))
    return examples


def joint_judgment_input(rows: Sequence[Judgment]) -> tuple[Sample, dict[int, Rubric], Response]:
    """The sample, rubrics and response of judgments that share a response.

    The rubrics are keyed by judgment id. Their order is random, as judges are more lenient towards
    some places of a list, but derived from the run's seed and the sample: every model's answer to a
    sample is judged in the same order, and so it is again. The stored request has it.
    """
    judgments = Judgment.objects.filter(pk__in=[row.pk for row in rows])
    rows_loaded = list(judgments.select_related("rubric__sample", "response__sample", "run").order_by("rubric__pk"))
    key, seed = rows_loaded[0].rubric.sample.key, rows_loaded[0].run.seed
    rows_loaded.sort(key=lambda judgment: _place_in_prompt(seed, key, judgment.rubric.key))
    rubrics = {judgment.pk: rubric_value(judgment.rubric) for judgment in rows_loaded}
    return sample_value(rows_loaded[0].rubric.sample), rubrics, rows_loaded[0].response


def shuffled_rubrics(run: Run, sample: str, rubrics: Sequence[Rubric]) -> list[Rubric]:
    """The rubrics of the sample of this key, in the order of `joint_judgment_input`."""
    return sorted(rubrics, key=lambda rubric: _place_in_prompt(run.seed, sample, rubric.key))


def _place_in_prompt(seed: int, sample: str, rubric: str) -> float:
    return Random(f"{seed}/{sample}/{rubric}").random()


def provider_batches_of(run: Run) -> QuerySet[ProviderBatch]:
    """The provider batches of a run, oldest first."""
    return ProviderBatch.objects.filter(job=run).select_related("endpoint").order_by("pk")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run.

    `judgments.total` grows while responses arrive; `rubrics_total` is the final number. `votes`: of
    a panel, which decide its judgments; they do not count in the totals. `policies`: answers
    that are fixed texts.
    """

    responses: live_status.Progress
    judgments: live_status.Progress
    votes: live_status.Progress
    policies: live_status.Progress
    rubrics_total: int

    @property
    @shown
    def percent(self) -> int:
        """The percentage of responses and judgments that have ended, rounded down."""
        if self.total:
            return 100 * self.ended // self.total
        return 0

    @property
    def total(self) -> int:
        return self.responses.total + self.rubrics_total + self.policies.total

    @property
    def ended(self) -> int:
        return self.responses.ended + self.judgments.ended + self.policies.ended

    @property
    def failed(self) -> int:
        return self.responses.failed + self.judgments.failed + self.policies.failed

    @property
    def running(self) -> int:
        return self.responses.running + self.judgments.running + self.votes.running + self.policies.running

    @property
    def queued(self) -> int:
        return self.responses.queued + self.judgments.queued + self.policies.queued

    @property
    @shown
    def calls(self) -> int:
        return self.responses.calls

    @property
    @shown
    def cost(self) -> Decimal:
        return self.responses.cost


def count_rubrics(run: Run) -> int:
    """The number of judgments that all responses of a run need."""
    protocol = registry.protocol(run.release.benchmark)
    responses = Response.objects.filter(run=run).exclude(status=Status.DROPPED)  # those of a model that was left out
    needed = int(responses.aggregate(n=Count("sample__rubrics"))["n"])
    for key, judging in protocol.by_rubric.items():
        if judging.variants:
            needed -= responses.filter(sample__rubrics__key=key).exclude(variant__in=judging.variants).count()
    return needed


def rubrics_by_key(release: Release, protocol: Protocol) -> dict[str, dict[str, int]]:
    """Task -> rubric key -> number of rubrics, for keys with their own way of judging."""
    counts: dict[str, dict[str, int]] = {}
    if not protocol.by_rubric:
        return counts
    rows = ReleasedRubric.objects.filter(sample__release=release, key__in=protocol.by_rubric).order_by()
    for task, key, n in rows.values_list("sample__task", "key").annotate(n=Count("pk")):
        counts.setdefault(task, {})[key] = n
    return counts


def is_simulated(run: Run) -> bool:
    """Whether a simulated model contributed to the run, as generator, under test or as judge."""
    return Run.objects.filter(_SIMULATED, pk=run.pk).exists()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A model under test or a judge without which a run goes on."""

    endpoint: Hidden[Endpoint]
    role: str
    left_out_at: Annotated[datetime, Shown("at")]
    left_out_because: Annotated[str, Shown("because")]

    @property
    @Shown("endpoint")
    def model(self) -> str:
        return self.endpoint.name


def left_out(run: Run) -> list[LeftOut]:
    """The models and judges that were left out of a run, in their order."""
    left = []
    for row in run.tested.filter(left_out_at__isnull=False).select_related("endpoint").order_by("pk"):
        if row.left_out_at:
            left.append(LeftOut(row.endpoint, TARGET, row.left_out_at, row.left_out_because))
    if not run.judges_left_out:
        return left
    for judge in judges_of(run):
        entry = run.judges_left_out.get(str(judge.pk))
        if entry:
            left.append(LeftOut(judge, JUDGE, datetime.fromisoformat(entry["at"]), entry["because"]))
    return left


@dataclass(frozen=True, slots=True)
class ModelState:
    """How far a model under test or a judge of a panel is: its rows by status."""

    endpoint: Endpoint
    role: str
    is_left_out: bool
    open: int
    done: int
    failed: int
    not_asked: int

    @property
    def name(self) -> str:
        return self.endpoint.name


def model_states(run: Run) -> list[ModelState]:
    """The state of each model under test and each judge of a panel, in their order."""
    states = []
    tested = list(run.tested.select_related("endpoint").order_by("pk"))
    if tested:
        counts = _counts_by_status(run.responses.values_list("endpoint", "status"))
        for row in tested:
            is_left_out = row.left_out_at is not None
            states.append(_model_state(row.endpoint, TARGET, is_left_out, counts[row.endpoint_id]))
    if run.panel:
        counts = _counts_by_status(run.votes.values_list("judge", "status"))
        for judge in judges_of(run):
            is_left_out = str(judge.pk) in run.judges_left_out
            states.append(_model_state(judge, JUDGE, is_left_out, counts[judge.pk]))
    return states


def _counts_by_status(rows: QuerySet[Any]) -> dict[int, Counter[str]]:
    """Endpoint -> its rows by status. `rows`: of an endpoint and a status."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for pk, status, n in rows.order_by().annotate(n=Count("pk")):
        counts[pk][status] += n
    return counts


def _model_state(endpoint: Endpoint, role: str, is_left_out: bool, counts: Counter[str]) -> ModelState:
    return ModelState(
        endpoint,
        role,
        is_left_out,
        open=counts[Status.QUEUED] + counts[Status.RUNNING],
        done=counts[Status.DONE],
        failed=counts[Status.FAILED],
        not_asked=counts[Status.DROPPED],
    )


def count_not_done(run: Run) -> int:
    """How much of what a run was launched for was not done: rows that failed, or are open.

    An answer that was refused, filtered or cut off is a result, and so are the judgments that the
    plan leaves out. 1 at least if nothing was judged.
    """
    responses = Response.objects.filter(run=run)
    not_asked = Q(status__in=(Status.QUEUED, Status.RUNNING, Status.DROPPED))
    undone = responses.filter(not_asked | Q(outcome=Response.Outcome.FAILED)).count() + len(left_out(run))
    unjudged = Judgment.objects.filter(run=run, response__status=Status.DONE).exclude(status=Status.DONE)
    undone += unjudged.exclude(error=NOT_JUDGED).count()
    return undone or int(not Judgment.objects.filter(run=run, status=Status.DONE).exists())
