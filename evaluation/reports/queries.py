"""The report of a run, and the judgments behind every number."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from django.db.models import Case, Count, Exists, F, Model, OuterRef, Q, QuerySet, TextField, Value, When

from evaluation import errors, registry
from evaluation.models import Judgment, Response, Run, VoidVerdict
from evaluation.numbers import scoring
from evaluation.numbers.plans import Plan
from evaluation.numbers.rates import rate_named
from evaluation.numbers.report_numbers import Options, ReportNumbers, count
from evaluation.numbers.rules import COMBINED as COMBINED
from evaluation.numbers.rules import (
    NO_RESPONSE,
    NOT_JUDGED,
    POLARITY,
    REWORDED,
    UNJUDGED,
    CriterionState,
    counted,
)
from evaluation.protocol import DataSet, Protocol, Rate
from evaluation.runs.plan import outcomes_of, plan_of
from evaluation.runs.queries import LeftOut, data_set_named, data_sets_of, is_simulated, left_out
from evaluation.runs.rows import cache_warming, result_cache
from evaluation.runs.selecting_models import selecting_models
from evaluation.runs.verdicts import read_scores, run_frame
from generation.models import Call, Facet, Release, ReleasedRubric, ReleasedSample, Sample, load_requests
from generation.samples import errata, queries
from review.rules.text import parts_around, whole_number

MAX_WEIGHT = 1000


@dataclass(frozen=True, slots=True)
class Oddity:
    """Responses of a model that people should look at.

    `ending`: the unknown ending that they have; '': they still begin like reasoning.
    """

    endpoint: str
    ending: str
    responses: int


@dataclass(frozen=True, slots=True)
class Unread:
    """How many verdicts were asked of judges, and how many could not be had, by error."""

    asked: int
    by_error: Mapping[str, int]

    @property
    def count(self) -> int:
        return sum(self.by_error.values())

    @property
    def share(self) -> float:
        if self.asked:
            return self.count / self.asked
        return 0.0


@dataclass(frozen=True)
class Report:
    """The report of a run: its analysis plan, and all numbers, counted when they are first read.

    Attributes:
        asked: the data sets that the run asked; `datasets`: the name and label of each column.
        labels: of the values of breakdowns.
        unranked: models that are not ranked.
        numbers_key: of the numbers in the cache; '' if they are not cached: the run is not over.
    """

    run: Run
    protocol: Protocol
    plan: Plan
    options: Options
    asked: tuple[DataSet, ...]
    endpoints: tuple[str, ...]
    labels: Mapping[str, str]
    unranked: tuple[str, ...]
    numbers_key: str

    @cached_property
    def numbers(self) -> ReportNumbers:
        return result_cache.cached(self.numbers_key, self._count, self.run)

    def _count(self) -> ReportNumbers:
        frame = run_frame(self.run, self.asked, self.plan.outcomes)
        if self.protocol.scores:
            frame = scoring.with_scores(frame, self.protocol.scores, read_scores(self.run))
        return count(frame, self.protocol, self.plan, self.labels, self.options, self.unranked)

    @property
    def is_waiting(self) -> bool:
        """Whether the run is large and over, and nobody has counted it since."""
        if self.run.rubrics_total < cache_warming.LARGE_RUN or not self.numbers_key:
            return False
        return not result_cache.is_cached(self.numbers_key)

    @cached_property
    def datasets(self) -> tuple[tuple[str, str], ...]:
        return self.protocol.columns(self.asked)

    @cached_property
    def simulated(self) -> bool:
        return is_simulated(self.run)

    @property
    def finished(self) -> bool:
        return self.run.status == Run.Status.FINISHED

    @cached_property
    def left_out(self) -> tuple[LeftOut, ...]:
        return tuple(left_out(self.run))

    @cached_property
    def oddities(self) -> tuple[Oddity, ...]:
        return oddities(self.run)

    @cached_property
    def unread(self) -> Unread:
        return unread(self.run)

    @cached_property
    def undecided(self) -> int:
        """How many samples are reported as wrong, without a decision: they count."""
        return errata.undecided_count(self.run.release)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates of the protocol that the release has data for."""
        return self.numbers.rates

    @property
    def rates_by_name(self) -> dict[str, Rate]:
        return {rate.name: rate for rate in self.rates}

    @property
    def facet_rates(self) -> tuple[Rate, ...]:
        """The rates of breakdowns, without those over control samples, which have no traps."""
        return tuple(rate for rate in self.rates if rate.arm == "trap")

    @property
    def rate(self) -> Rate:
        """The first rate, shown unless the reader chooses another."""
        return self.rates[0]

    @property
    def planned_rate(self) -> Rate:
        """The primary rate of the plan, or else the first one."""
        return rate_named(self.rates, self.plan.metric) or self.rate

    def shown_rate(self, name: str) -> Rate:
        """The rate of this name, or else the planned one."""
        return rate_named(self.rates, name) or self.planned_rate

    def is_planned(self, rate: Rate) -> bool:
        """Whether the rate answers the run's plan; everything else is exploratory."""
        return self.plan.frozen and rate.name == self.plan.metric and not self.options.common


def report(run: Run, options: Options | None = None) -> Report:
    """The report of a run, from a fixed number of queries."""
    options = options or Options()
    protocol = registry.protocol(run.release.benchmark)
    endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    datasets = tuple(data_sets_of(run))
    labels = queries.term_labels(run.release.benchmark)
    plan = plan_of(run, protocol, endpoints)
    unranked: tuple[str, ...] = ()
    if not options.all_ranked:
        unranked = selecting_models(run)
    basis: list[Any] = [plan, datasets, endpoints, sorted(labels.items()), protocol.rates, protocol.scores]
    basis += [protocol.facets, protocol.contrasts, protocol.rivals, protocol.wrong, protocol.pooled]
    basis += [unranked, options.common, sorted(options.weights.items())]
    key = result_cache.key_of(run, "report", *basis)
    return Report(run, protocol, plan, options, datasets, endpoints, labels, unranked, key)


def oddity_of(outcome: str, detail: str, like_reasoning: bool) -> str | None:
    """The unknown ending of a response; '' if it begins like reasoning; None if nothing is odd."""
    if outcome == Response.Outcome.UNKNOWN:
        return detail.rpartition(": ")[2].removesuffix(".")
    if like_reasoning:
        return ""
    return None


def unread(run: Run) -> Unread:
    """The verdicts that no judge gave in a form that can be read; the votes of a panel.

    Without withdrawn samples, as `oddities`.
    """
    if run.judge_id is None or run.origin == Run.Origin.IMPORTED:
        return Unread(0, {})
    rows: QuerySet[Any] = run.judgments.all()
    sample = "rubric__sample"
    if run.panel:
        rows, sample = run.votes.all(), "judgment__rubric__sample"
    ended = rows.filter(status__in=("done", "failed")).exclude(error__in=(NO_RESPONSE, NOT_JUDGED)).order_by()
    ended = without_withdrawn(run, ended, sample)
    counts = ended.values_list("error").annotate(n=Count("pk")).order_by("error")
    key = result_cache.key_of(run, "unread")
    by_error: dict[str, int] = result_cache.cached(key, lambda: dict(counts), run)
    failures = dict(by_error)
    failures.pop("", None)  # those that were read
    return Unread(sum(by_error.values()), failures)


def oddities(run: Run) -> tuple[Oddity, ...]:
    """The oddities of a run's responses, by model and ending."""
    odd = Response.objects.filter(Q(like_reasoning=True) | Q(outcome=Response.Outcome.UNKNOWN), run=run).order_by()
    odd = without_withdrawn(run, odd, "sample")
    said = Case(When(outcome=Response.Outcome.UNKNOWN, then=F("detail")), default=Value(""), output_field=TextField())
    rows = odd.annotate(said=said).values_list("endpoint__name", "outcome", "said").annotate(n=Count("pk"))
    counts: Counter[tuple[str, str]] = Counter()
    for endpoint, outcome, text, n in rows:
        counts[endpoint, oddity_of(outcome, text, like_reasoning=True) or ""] += n
    return tuple([Oddity(*key, n) for key, n in sorted(counts.items())])


def judgments(
    run: Run,
    *,
    endpoint: str = "",
    dataset: str = "",
    facet: str = "",
    value: str = "",
    verdict: str = "",
    arm: str = "",
) -> QuerySet[Judgment]:
    """The judgments behind a number, in release order.

    `verdict`: one or several, joined by commas; 'unjudged' selects judgments without one. `arm`:
    only on trap or on control samples.
    """
    rows = (
        Judgment.objects.filter(run=run)
        .select_related("response__endpoint", "rubric__sample", "response__sample")
        .order_by("rubric__sample__position", "response__endpoint__name", "rubric__pk")
    )
    if endpoint:
        rows = rows.filter(response__endpoint__name=endpoint)
    if dataset and dataset != COMBINED:
        selected = data_set_named(run, dataset)
        if selected:
            rows = rows.filter(rubric__sample__task=selected.task, response__variant=selected.variant)
        else:
            rows = rows.none()
    if arm:
        rows = rows.filter(rubric__sample__version__sample__arm=arm)
    elif verdict:
        reworded = ReleasedSample.objects.filter(release=run.release, version__sample__arm=REWORDED)
        rows = _without(rows, reworded, "rubric__sample")
    if facet == POLARITY and value:
        lookups = {"sample__version__rubrics__key": F("key"), "sample__version__rubrics__polarity": value}
        rows = rows.filter(rubric__in=ReleasedRubric.objects.filter(sample__release=run.release_id, **lookups))
    elif facet and value:
        rows = rows.filter(rubric__facets__name=facet, rubric__facets__value=value)
    if verdict:
        return _counting_as(run, rows, verdict.split(","))
    return rows


def _counting_as(run: Run, rows: QuerySet[Judgment], verdicts: Collection[str]) -> QuerySet[Judgment]:
    """Those that count as one of these verdicts, as the frame counts them.

    There are few states of a judgment, so each is decided once, by the rule of the frame.
    """
    rows = without_withdrawn(run, rows, "rubric__sample")
    rules = outcomes_of(run, registry.protocol(run.release.benchmark))
    matches = Q(pk__in=[])
    for outcome, said, status, error in _states(run):
        if counted(rules, CriterionState(outcome, said, status, error, void="")).verdict in verdicts:
            matches |= Q(response__outcome=outcome, verdict=said, status=status, error=error)
    voids = VoidVerdict.objects.filter(run=run)
    if not voids.exists():
        return rows.filter(matches)
    about = Q(rubric=None) | Q(rubric=OuterRef("rubric"))
    is_void = Q(Exists(voids.filter(about, response=OuterRef("response"))))
    if UNJUDGED in verdicts:
        return rows.filter(is_void | matches)
    return rows.filter(matches & ~is_void)


Row = TypeVar("Row", bound=Model)


def without_withdrawn(run: Run, rows: QuerySet[Row], sample: str) -> QuerySet[Row]:
    """Those on samples that are not withdrawn. `sample`: the lookup of their sample."""
    withdrawn = errata.withdrawn(run.release).values("sample")
    samples = ReleasedSample.objects.filter(release=run.release, version__sample__in=withdrawn)
    return _without(rows, samples, sample)


def _without(rows: QuerySet[Row], samples: QuerySet[ReleasedSample], sample: str) -> QuerySet[Row]:
    """Those on other samples. No condition where there are none: it would slow every page."""
    if samples.exists():
        return rows.exclude(**{f"{sample}__in": samples})
    return rows


def _states(run: Run) -> list[tuple[str, str, str, str]]:
    """The states of a run's judgments: outcome of the response, verdict, status, error."""
    states = Judgment.objects.filter(run=run).order_by()
    states_of_run = states.values_list("response__outcome", "verdict", "status", "error").distinct()
    key = result_cache.key_of(run, "states")
    found: list[tuple[str, str, str, str]] = result_cache.cached(key, lambda: list(states_of_run), run)
    return found


def polarities(run: Run) -> list[str]:
    """The polarities that rubrics of the release have, in alphabetical order."""
    lookups = {
        "key": F("sample__version__rubrics__key"),
        "sample__version__rubrics__polarity__in": ["must", "must not"],
    }
    rubrics = ReleasedRubric.objects.filter(sample__release=run.release_id, **lookups).order_by()
    return sorted(rubrics.values_list("sample__version__rubrics__polarity", flat=True).distinct())


def shares_of_samples(release: Release, facet: str, other: str) -> dict[str, tuple[int, int]]:
    """Value of `facet` -> (samples that also have `other`, samples). `other`: FACET=VALUE.

    Without withdrawn samples, as all numbers of a report.
    """
    name, _sign, value = other.partition("=")
    rows = Facet.objects.filter(rubric__sample__in=errata.standing(release), name=facet).order_by()
    also = Facet.objects.filter(rubric__sample=OuterRef("rubric__sample"), name=name, value=value)
    counts = rows.annotate(also=Exists(also)).values_list("value", "also")
    shares: dict[str, tuple[int, int]] = {}
    for facet_value, has_other, n in counts.annotate(n=Count("rubric__sample", distinct=True)):
        hits, total = shares.get(facet_value, (0, 0))
        shares[facet_value] = hits + n * has_other, total + n
    return shares


def samples_by_task(release: Release) -> dict[str, int]:
    """Task -> its samples, without withdrawn ones; '' is all tasks."""
    by_task = dict(errata.standing(release).order_by().values_list("task").annotate(n=Count("pk")))
    return by_task | {"": sum(by_task.values())}


def has_controls(run: Run) -> bool:
    """Whether the release has control samples."""
    return ReleasedSample.objects.filter(release=run.release_id, version__sample__arm=Sample.Arm.CONTROL).exists()


def parse_options(protocol: Protocol, *, common: bool = False, weights: str = "", all_ranked: bool = False) -> Options:
    """Parse a reader's options. `weights`: VALUE:NUMBER pairs, joined by commas.

    Raises WrongWeights.
    """
    usual: dict[str, int] = {}
    for rate in protocol.rates:
        if rate.weights:
            usual |= rate.weights.of
    chosen: dict[str, int] = {}
    for pair in weights.split(","):
        text = pair.strip()
        if not text:
            continue
        value, number = parts_around(":", text)
        weight = whole_number(number)
        if value not in usual or weight is None or weight > MAX_WEIGHT:
            names = ", ".join(sorted(usual)) or "–"
            raise errors.WrongWeights(f"{text!r}; write VALUE:NUMBER, 0 to {MAX_WEIGHT}. Values: {names}.")
        chosen[value] = weight
    changed = {value: weight for value, weight in chosen.items() if weight != usual[value]}
    return Options(common, changed, all_ranked)


def judgment(run: Run, judgment_id: int, reader: object) -> Judgment | None:
    """One judgment that `reader` may see, with its released sample, response and rubric loaded."""
    related = ("response__endpoint", "rubric__sample__release")
    rows = queries.visible_to(reader, Judgment.objects.filter(run=run, pk=judgment_id), "rubric__sample")
    return rows.select_related(*related).first()


def calls_behind(judgment: Judgment) -> tuple[list[Call], list[Call]]:
    """The ledger lines of the response, and those of the judgment and its votes."""
    response = f"response:{judgment.response_id}"
    subjects = [response, f"judgment:{judgment.pk}"]
    for vote in judgment.votes.values_list("pk", flat=True):
        subjects.append(f"vote:{vote}")
    calls = list(Call.objects.filter(subject__in=subjects).select_related("endpoint").order_by("pk"))
    load_requests(calls)
    of_response, of_judgment = [], []
    for call in calls:
        if call.subject == response:
            of_response.append(call)
        else:
            of_judgment.append(call)
    return of_response, of_judgment


def tokens_of_judge(judgment: Judgment) -> tuple[int, int]:
    """The input tokens that the judge's successful calls for this verdict read, and cached ones."""
    _responses, judged = calls_behind(judgment)
    tokens_in = tokens_cached = 0
    for call in judged:
        if not call.error and call.hit_of_id is None:
            tokens_in += call.tokens_in
            tokens_cached += call.tokens_cached
    return tokens_in, tokens_cached
