"""Rates, and the answers behind every number."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, F, Q, QuerySet
from django.utils.translation import gettext_noop

from evaluation import errors, registry
from evaluation.metrics import UNJUDGED
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import EXCLUDED, JUDGE_FAILED, UNPARSED, FacetView, Protocol, Rate
from evaluation.reports.numbers.averages import Averages, averages
from evaluation.reports.numbers.counting import COMBINED as COMBINED
from evaluation.reports.numbers.counting import Row as Row
from evaluation.reports.numbers.report_numbers import Numbers, Options, numbers
from evaluation.reports.numbers.verdict_table import BROKEN, POLARITY
from evaluation.runs.plan import Plan, outcomes_of, plan_of
from evaluation.runs.queries import data_sets_of, is_simulated
from evaluation.runs.services import NO_RESPONSE, NOT_JUDGED
from generation.models import Call, ReleasedRubric, ReleasedSample, Sample
from generation.models.work import Work
from generation.samples import queries

Status = Work.Status
MOST_WEIGHT = 1000


def percents(runs: Iterable[Run]) -> dict[int, int]:
    """Run -> `RunProgress.percent` for several runs at once: three queries however many there are."""
    ids = [run.pk for run in runs]
    whole: dict[int, int] = defaultdict(int)
    ended: dict[int, int] = defaultdict(int)
    over = Q(status__in=[Status.DONE, Status.DROPPED, Status.FAILED])
    responses = Response.objects.filter(run__in=ids).order_by().values_list("run")
    for run_id, n, n_over in responses.annotate(n=Count("pk"), over=Count("pk", filter=over)):
        whole[run_id] += n
        ended[run_id] += n_over
    for run_id, n, made_in_all in Run.objects.filter(pk__in=ids).values_list("pk", "rubrics_total", "responses_total"):
        whole[run_id] = max(whole[run_id], made_in_all) + n
    judgments = Judgment.objects.filter(over, run__in=ids).order_by().values_list("run")
    for run_id, n in judgments.annotate(n=Count("pk")):
        ended[run_id] += n
    return {pk: 100 * ended[pk] // whole[pk] if whole[pk] else 0 for pk in ids}


@dataclass(frozen=True, slots=True)
class Contrast:
    """A rate of one endpoint on two data sets of the protocol's `contrasts`; `difference`: the first minus the second."""

    endpoint: str
    label: str
    rate: str
    first: str  # the names of the data sets
    second: str
    values: tuple[float | None, float | None]

    @property
    def difference(self) -> float | None:
        one, other = self.values
        return None if one is None or other is None else one - other


@dataclass(frozen=True, slots=True)
class Report:
    """All rates of a run. `numbers`: everything that was counted. `plan`: what was to be answered."""

    run: Run
    protocol: Protocol
    plan: Plan
    options: Options
    datasets: tuple[tuple[str, str], ...]
    endpoints: tuple[str, ...]
    numbers: Numbers
    simulated: bool
    finished: bool
    cost: Decimal

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The protocol's, without those for which the release has nothing."""
        return self.numbers.rates

    @property
    def facet_rates(self) -> tuple[Rate, ...]:
        """Those that are counted in breakdowns: control samples have no traps."""
        return tuple(rate for rate in self.rates if rate.arm == "trap")

    @property
    def rate(self) -> Rate:
        """The first of the rates: what is drawn unless another is chosen."""
        return self.rates[0]

    @property
    def views(self) -> tuple[FacetView, ...]:
        return self.numbers.views

    @property
    def overall(self) -> tuple[Row, ...]:
        return self.numbers.overall

    @property
    def facets(self) -> Mapping[str, tuple[Row, ...]]:
        """Facet -> its rows."""
        return self.numbers.facets

    @property
    def without(self) -> Mapping[str, int]:
        """Facet -> how many judgments have no value of it, and so are in none of its rows."""
        return self.numbers.without

    @property
    def responses_failed(self) -> Mapping[str, int]:
        """Endpoint -> responses without a text."""
        return self.numbers.failed

    def is_planned(self, rate: Rate) -> bool:
        """Whether this is what the run was launched to find out; all else is exploratory."""
        return self.plan.frozen and rate.name == self.plan.metric and not self.options.common

    @property
    def averages(self) -> tuple[tuple[str, str, Averages], ...]:
        """(rate, variant, the unweighted means over models and over data sets), of each variant that has several of either."""
        variants = {one.name: one.variant for one in self.protocol.datasets}
        found = []
        for rate in self.rates:
            of: dict[str, dict[tuple[str, str], float | None]] = {}
            for row in self.overall:
                if row.dataset in variants and row.rates[rate.name].denominator:
                    cells = of.setdefault(variants[row.dataset], {})
                    cells[row.dataset, row.endpoint] = row.rates[rate.name].value
            found += [(rate.name, variant, averages(cells)) for variant, cells in of.items() if len(cells) > 1]
        return tuple(found)

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """What the protocol sets against each other, where the run asked both: by contrast, endpoint and rate."""
        rows = {(row.endpoint, row.dataset): row for row in self.overall}
        return tuple(
            Contrast(endpoint, label, rate.name, first, second, (one.value, other.value))
            for first, second, label in self.protocol.contrasts
            for endpoint in self.endpoints
            if (endpoint, first) in rows and (endpoint, second) in rows
            for rate in self.rates
            for one, other in [(rows[endpoint, first].rates[rate.name], rows[endpoint, second].rates[rate.name])]
        )


def report(run: Run, options: Options | None = None) -> Report:
    """The numbers of a run, from a fixed number of queries."""
    options = options or Options()
    protocol = registry.protocol(run.release.benchmark)
    endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    asked = data_sets_of(run)
    labels = {term.code: term.label for term in queries.terms(run.release.benchmark)}
    pooled = ((COMBINED, gettext_noop("Combined")),) if protocol.pooled and len(asked) > 1 else ()
    plan = plan_of(run, protocol, endpoints)
    return Report(
        run=run,
        protocol=protocol,
        plan=plan,
        options=options,
        datasets=(*((one.name, one.label) for one in asked), *pooled),
        endpoints=endpoints,
        numbers=numbers(run, protocol, plan, asked, endpoints, labels, options),
        simulated=is_simulated(run),
        finished=run.status == Run.Status.FINISHED,
        cost=run.cost,
    )


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

    `verdict` may be several, joined by commas; 'unjudged' stands for having none. `arm`: on trap or on control samples alone.
    """
    found = (
        Judgment.objects.filter(run=run)
        .select_related("response__endpoint", "rubric__sample", "response__sample")
        .order_by("rubric__sample__position", "response__endpoint__name", "rubric__pk")
    )
    if endpoint:
        found = found.filter(response__endpoint__name=endpoint)
    if dataset and dataset != COMBINED:
        at = next((one for one in data_sets_of(run) if one.name == dataset), None)
        found = found.filter(rubric__sample__task=at.task, response__variant=at.variant) if at else found.none()
    if arm:
        found = found.filter(rubric__sample__version__sample__arm=arm)
    if facet == POLARITY and value:
        of = {"sample__version__rubrics__key": F("key"), "sample__version__rubrics__polarity": value}
        found = found.filter(rubric__in=ReleasedRubric.objects.filter(sample__release=run.release_id, **of))
    elif facet and value:
        found = found.filter(rubric__facets__name=facet, rubric__facets__value=value)
    return found.filter(_counted_as(run, verdict.split(","))) if verdict else found


def _counted_as(run: Run, verdicts: Iterable[str]) -> Q:
    """Judgments with one of these verdicts, and those that failed and are counted as one by the rules of the run."""
    rules = outcomes_of(run, registry.protocol(run.release.benchmark))
    failed = Q(verdict="", status=Status.FAILED) & ~Q(error__in=[NO_RESPONSE, NOT_JUDGED])
    of_failures = {UNPARSED: failed & Q(error=BROKEN), JUDGE_FAILED: failed & ~Q(error=BROKEN)}
    found, unjudged = Q(verdict__in=set(verdicts) - {UNJUDGED}), Q(verdict="")
    for failure, of in of_failures.items():
        if (rule := rules.get(failure, EXCLUDED)) != EXCLUDED:
            unjudged &= ~of
            found |= of if rule in verdicts else Q()
    return found | unjudged if UNJUDGED in verdicts else found


def polarities(run: Run) -> list[str]:
    """The polarities of the rubrics of the release, in alphabetical order; none where nobody gave any."""
    of = {"key": F("sample__version__rubrics__key"), "sample__version__rubrics__polarity__in": ["must", "must not"]}
    rubrics = ReleasedRubric.objects.filter(sample__release=run.release_id, **of).order_by()
    return sorted(rubrics.values_list("sample__version__rubrics__polarity", flat=True).distinct())


def has_controls(run: Run) -> bool:
    """Whether there are control samples in the release."""
    return ReleasedSample.objects.filter(release=run.release_id, version__sample__arm=Sample.Arm.CONTROL).exists()


def options_from(protocol: Protocol, *, common: bool = False, weights: str = "", all_ranked: bool = False) -> Options:
    """What a reader asks for. `weights`: VALUE:NUMBER, joined by commas, of the values by which a rate weighs.

    Raises WrongWeights.
    """
    known = {value for rate in protocol.rates for value in rate.weights}
    chosen: dict[str, int] = {}
    for text in filter(None, (each.strip() for each in weights.split(","))):
        value, _sign, number = (part.strip() for part in text.partition(":"))
        if (
            value not in known
            or not number.isdecimal()
            or len(number) > len(str(MOST_WEIGHT))
            or int(number) > MOST_WEIGHT
        ):
            names = ", ".join(sorted(known)) or "–"
            raise errors.WrongWeights(f"{text!r}; write VALUE:NUMBER, 0 to {MOST_WEIGHT}. Values: {names}.")
        chosen[value] = int(number)
    return Options(common, chosen, all_ranked)


def judgment(run: Run, judgment_id: int) -> Judgment | None:
    """One judgment with everything it is about: the sample as released, the response, the rubric."""
    about = ("response__endpoint", "rubric__sample__release")
    return Judgment.objects.filter(run=run, pk=judgment_id).select_related(*about).first()


def calls_behind(judgment: Judgment) -> tuple[list[Call], list[Call]]:
    """The ledger of the response, and that of the judgment with its votes."""
    response = f"response:{judgment.response_id}"
    judged = [f"judgment:{judgment.pk}", *(f"vote:{pk}" for pk in judgment.votes.values_list("pk", flat=True))]
    calls = Call.objects.filter(subject__in=[response, *judged]).select_related("endpoint").order_by("pk")
    found = list(calls)
    return [c for c in found if c.subject == response], [c for c in found if c.subject in judged]
