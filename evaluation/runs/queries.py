"""Everything that is read of runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext_noop as _

from evaluation import errors, registry
from evaluation.models import Judgment, Response, Run, RunJudge
from evaluation.panel import INITIAL_JUDGES
from evaluation.protocol import Ask, DataSet, Judging, Protocol, Rubric, Sample
from evaluation.runs.settings import RunSettings
from generation.jobs import live_status
from generation.jobs import queries as jobs_queries
from generation.jobs.queries import ModelAsked
from generation.llm.types import Request
from generation.models import Endpoint, ProviderBatch, Release, ReleasedRubric, ReleasedSample
from generation.models.work import Work
from review.rules.case_spec import UNDETERMINED

Status = Work.Status
MOST_REPEATS = 20  # answers to a question, and judgments of one judge on a criterion
MOST_JUDGES = 9
TARGET, JUDGE = "target", "judge"
ROLES = {TARGET: _("Model under test"), JUDGE: _("Judge")}


def runs() -> QuerySet[Run]:
    """All runs, newest first."""
    return Run.objects.select_related("release", "judge", "created_by").prefetch_related(
        "endpoints", "further_judges__endpoint"
    )


def sample_value(row: ReleasedSample) -> Sample:
    """A released sample as the protocol sees it."""
    return Sample(row.key, row.task, row.exported["content"])


def question_text(row: ReleasedSample) -> str:
    """The question in the content of a sample, '' where it has none: what its images are about."""
    return str(row.exported["content"].get("question") or "")


def rubric_values(row: ReleasedSample) -> list[Rubric]:
    """The rubrics of a released sample as the protocol sees them, in their order."""
    return [Rubric(each.key, each.criterion, tuple(each.traps)) for each in row.rubrics.order_by("pk")]


def data_sets_in(release: Release) -> tuple[DataSet, ...]:
    """The data sets of the benchmark's protocol of which a release has samples."""
    present = release.counts.get("task", {})
    return tuple(one for one in registry.protocol(release.benchmark).datasets if one.task in present)


def data_sets_of(run: Run) -> tuple[DataSet, ...]:
    """The data sets that a run asks."""
    return tuple(one for one in data_sets_in(run.release) if not run.variants or one.name in run.variants)


def data_sets_asked(settings: RunSettings) -> tuple[DataSet, ...]:
    """The data sets that a run which is wanted asks, of those that there are; the usual ones where it names none."""
    there = data_sets_in(settings.release)
    return tuple(one for one in there if (one.name in settings.variants if settings.variants else one.usual))


def protocol_and_data_sets(settings: RunSettings) -> tuple[Protocol, tuple[DataSet, ...]]:
    """The protocol of a run that is wanted, and the data sets that it asks.

    Raises NoEndpoints, JudgeNeeded, NoJudgeNeeded, NotPerSample, UnknownDataSet, NoBatches, TooManyRepeats,
    EscalationNeedsThree, NoPanelInBatches, ChainWithoutStart.
    """
    judge, variants = settings.judge, settings.variants
    if not settings.endpoints:
        raise errors.NoEndpoints
    if never := [each.name for each in settings.asked if not each.url]:
        raise errors.NotCallable(", ".join(never))
    protocol = registry.protocol(settings.release.benchmark)
    if protocol.judge is None and (settings.judges or settings.judgments > 1):
        raise errors.NoJudgeNeeded
    if protocol.judge is not None and judge is None:
        raise errors.JudgeNeeded
    if settings.judging == Run.Judging.PER_SAMPLE and protocol.whole is None:
        raise errors.NotPerSample
    if not (1 <= settings.answers <= MOST_REPEATS and 1 <= settings.judgments <= MOST_REPEATS):
        raise errors.TooManyRepeats
    if len(settings.judges) > MOST_JUDGES:
        raise errors.TooManyRepeats
    if settings.panel == Run.Panel.ESCALATION and judge is not None and len(settings.judges) <= INITIAL_JUDGES:
        raise errors.EscalationNeedsThree
    if settings.transport == Run.Transport.BATCH and settings.rule:
        raise errors.NoPanelInBatches
    there = data_sets_in(settings.release)
    if unknown := sorted(set(variants) - {one.name for one in there}):
        raise errors.UnknownDataSet(f"{', '.join(unknown)}; known: {', '.join(one.name for one in there)}")
    if settings.transport == Run.Transport.BATCH and not any(each.batches for each in settings.asked):
        raise errors.NoBatches
    datasets = data_sets_asked(settings)
    _check_chains(protocol, settings, datasets)
    return protocol, datasets


def _check_chains(protocol: Protocol, settings: RunSettings, datasets: Sequence[DataSet]) -> None:
    """Raises ChainWithoutStart where questions are asked without those whose answers they need."""
    if protocol.ask_on is None:
        return
    for task in dict.fromkeys(one.task for one in datasets):
        first = ReleasedSample.objects.filter(release=settings.release, task=task).order_by("position").first()
        asks = questions(protocol, first, settings.seed, datasets) if first else []
        if missing := {ask.after for ask in asks if ask.after} - {ask.variant for ask in asks}:
            raise errors.ChainWithoutStart(f"{task}: {', '.join(sorted(missing))}")


def questions(protocol: Protocol, sample: ReleasedSample, seed: int, datasets: Iterable[DataSet]) -> list[Ask]:
    """What is asked about a sample: the protocol's questions that belong to one of these data sets."""
    variants = {one.variant for one in datasets if one.task == sample.task}
    return [ask for ask in protocol.ask(sample_value(sample), seed) if ask.variant in variants]


def question(protocol: Protocol, sample: ReleasedSample, seed: int, variant: str) -> Ask:
    """What is asked about a sample in one variant. Raises LookupError where the protocol has no such question any more."""
    for ask in protocol.ask(sample_value(sample), seed):
        if ask.variant == variant:
            return ask
    raise LookupError(f"{sample.key}: no question in variant {variant!r}")


def to_send(ask: Ask, sampling: str, repeat: int = 0) -> Request:
    """What a model under test is sent: with the benchmark's sampling settings, or with the endpoint's own alone.

    `repeat`: which answer to the question; each is asked and paid for by itself.
    """
    request = replace(ask.request, repeat=repeat)
    if sampling == Run.Sampling.PROTOCOL:
        return request
    return replace(request, temperature=None, top_p=None, max_tokens=None)


def to_judge(request: Request, run: Run, *, answer: int, judgment: int = 0) -> Request:
    """What a judge is sent: at the run's temperature, each judgment of each answer asked and paid for by itself.

    Also where two answers read alike: else their verdicts would be one, and judging would look surer than it is.
    """
    repeat = answer * run.judgments_each + judgment
    temperature = run.judge_temperature if request.temperature is None else request.temperature
    return replace(request, temperature=temperature, repeat=repeat)


def judges_of(run: Run) -> list[Endpoint]:
    """The judges of a run in the order of its panel, the first one first."""
    further = run.further_judges.select_related("endpoint").order_by("pk")
    return [*([run.judge] if run.judge else []), *(row.endpoint for row in further)]


def as_launched(run: Run, endpoint: Endpoint) -> Endpoint:
    """The same endpoint with its settings as they were at the launch. Not to be saved."""
    return endpoint.with_launch_settings(run.endpoint_settings.get(str(endpoint.pk), {}))


def further_judges(run: Run) -> list[str]:
    """The names of the judges after the first, in the order of the panel."""
    return [row.endpoint.name for row in sorted(run.further_judges.all(), key=lambda row: row.pk)]


def models_asked(run: Run) -> list[ModelAsked]:
    """The models under test and the judge, with settings, reported versions and prompts."""
    tested = run.tested.select_related("endpoint").order_by("pk")
    roles = [(TARGET, row.endpoint) for row in tested] + [(JUDGE, judge) for judge in judges_of(run)]
    return jobs_queries.models_asked(run, roles, run.endpoint_settings)


def example_questions(run: Run) -> list[Request]:
    """How models are asked in a run: the question about its first sample of each task in each variant."""
    protocol, datasets = registry.protocol(run.release.benchmark), data_sets_of(run)
    found = []
    for task in dict.fromkeys(one.task for one in datasets):
        first = ReleasedSample.objects.filter(release=run.release, task=task).order_by("position").first()
        if first is not None:
            found += [to_send(ask, run.sampling) for ask in questions(protocol, first, run.seed, datasets)]
    return found


def endpoints_of(run: Run) -> QuerySet[Endpoint]:
    """The endpoints that a run puts to the test, and its judges where it has some."""
    further = RunJudge.objects.filter(run=run).values("endpoint")
    return Endpoint.objects.filter(Q(pk=run.judge_id) | Q(runs=run) | Q(pk__in=further)).distinct()


def language_of(row: ReleasedSample) -> str:
    """The language of a released sample (ISO 639-1), '' where it is unknown: models are expected to answer in it."""
    language = row.version.case.language
    return "" if language == UNDETERMINED else language


def judgment_input(row: Judgment) -> tuple[Sample, Rubric, Response]:
    """What a judgment is about. Asks the database nothing where `response` and `rubric__sample` were fetched with it."""
    rubric = row.rubric
    return sample_value(rubric.sample), Rubric(rubric.key, rubric.criterion, tuple(rubric.traps)), row.response


def judged_by(protocol: Protocol, rubric: Rubric) -> Judging:
    """How a judge decides on a rubric. Raises NoJudgeNeeded."""
    how = protocol.judging(rubric.key)
    if how is None:
        raise errors.NoJudgeNeeded
    return how


def joint_judgment_input(rows: Sequence[Judgment]) -> tuple[Sample, dict[int, Rubric], Response]:
    """What judgments of one response are about; the rubrics under the judgments' numbers, in the order of the release."""
    wanted = Judgment.objects.filter(pk__in=[row.pk for row in rows])
    full = list(wanted.select_related("rubric__sample", "response__sample").order_by("rubric__pk"))
    rubrics = {each.pk: Rubric(each.rubric.key, each.rubric.criterion, tuple(each.rubric.traps)) for each in full}
    return sample_value(full[0].rubric.sample), rubrics, full[0].response


def provider_batches_of(run: Run) -> QuerySet[ProviderBatch]:
    """The provider batches that were made of a run's requests, oldest first."""
    return ProviderBatch.objects.filter(job=run).select_related("endpoint").order_by("pk")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is; `judgments.total` grows while responses arrive, so the whole is `rubrics_total`.

    `votes`: of a panel, whose judgments are decided from them; they are no part of the whole.
    """

    responses: live_status.Progress
    judgments: live_status.Progress
    votes: live_status.Progress
    rubrics_total: int

    @property
    def percent(self) -> int:
        """Whole per cent of responses and judgments ended, rounded down."""
        return 100 * self.ended // self.total if self.total else 0

    @property
    def total(self) -> int:
        return self.responses.total + self.rubrics_total

    @property
    def ended(self) -> int:
        return self.responses.ended + self.judgments.ended

    @property
    def open(self) -> int:
        return self.total - self.ended

    @property
    def failed(self) -> int:
        return self.responses.failed + self.judgments.failed

    @property
    def running(self) -> int:
        return self.responses.running + self.judgments.running + self.votes.running

    @property
    def queued(self) -> int:
        return self.responses.queued + self.judgments.queued


def count_rubrics(run: Run) -> int:
    """How many judgments the responses of a run come to, once they are there."""
    responses, protocol = Response.objects.filter(run=run), registry.protocol(run.release.benchmark)
    left_out = [
        responses.filter(sample__rubrics__key=key).exclude(variant__in=how.variants).count()
        for key, how in protocol.by_rubric.items()
        if how.variants
    ]
    return int(responses.aggregate(n=Count("sample__rubrics"))["n"]) - sum(left_out)


def rubrics_by_key(release: Release, protocol: Protocol) -> dict[str, dict[str, int]]:
    """Task -> key -> how many rubrics, of those that are judged in a way of their own."""
    rows = ReleasedRubric.objects.filter(sample__release=release, key__in=protocol.by_rubric).order_by()
    found: dict[str, dict[str, int]] = {}
    for task, key, n in rows.values_list("sample__task", "key").annotate(n=Count("pk")) if protocol.by_rubric else ():
        found.setdefault(task, {})[key] = n
    return found


def is_simulated(run: Run) -> bool:
    """Whether any simulated model had a part in this run's numbers: as generator, under test or as judge."""
    return run.release.simulated or endpoints_of(run).filter(simulated=True).exists()


def judgments_of(response: Response) -> QuerySet[Judgment]:
    """All judgments of one response, in the order of its rubrics."""
    return Judgment.objects.filter(response=response).select_related("rubric").order_by("rubric__pk")
