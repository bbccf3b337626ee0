"""Rates, and the answers behind every number."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils.translation import gettext_noop

from evaluation import registry
from evaluation.metrics import UNJUDGED, MeasuredRate, measure
from evaluation.models import Judgment, Response, Run
from evaluation.protocol import DataSet, FacetView, Protocol, Rate
from evaluation.runs.queries import data_sets_of, is_simulated
from generation.models import Call, Facet
from generation.models.work import Work
from generation.samples import queries

Status = Work.Status
COMBINED = "combined"


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
class Row:
    """What one endpoint came to on one data set ('combined': all of them pooled), for one value of a facet or overall.

    `verdicts`: verdict -> how often, 'unjudged' among them; `rates`: what the protocol's rates make of it, by name.
    """

    endpoint: str
    dataset: str
    value: str  # of the facet; empty overall
    label: str
    verdicts: Mapping[str, int]
    rates: Mapping[str, MeasuredRate]

    @property
    def measured(self) -> MeasuredRate:
        """The first of the rates."""
        return next(iter(self.rates.values()))


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
    """All rates of a run. `facets` maps a facet's name to its rows, `without` to the number of judgments that have no value of
    it and so are in none of them; `responses_failed` counts by endpoint."""

    run: Run
    protocol: Protocol
    datasets: tuple[tuple[str, str], ...]
    endpoints: tuple[str, ...]
    overall: tuple[Row, ...]
    facets: Mapping[str, tuple[Row, ...]]
    without: Mapping[str, int]
    responses_failed: Mapping[str, int]
    simulated: bool
    finished: bool
    cost: Decimal

    @property
    def rates(self) -> tuple[Rate, ...]:
        return self.protocol.rates

    @property
    def rate(self) -> Rate:
        """The first of the rates: what is drawn unless another is chosen."""
        return self.protocol.rates[0]

    @property
    def views(self) -> tuple[FacetView, ...]:
        return self.protocol.facets

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


def report(run: Run) -> Report:
    """The numbers of a run, counted by the database: three queries, and one for each facet, however many rates there are."""
    protocol = registry.protocol(run.release.benchmark)
    endpoints = tuple(run.tested.order_by("pk").values_list("endpoint__name", flat=True))
    asked = data_sets_of(run)
    labels = {term.code: term.label for term in queries.terms(run.release.benchmark)}
    failed = Response.objects.filter(run=run, status=Status.FAILED).order_by()
    pooled = ((COMBINED, gettext_noop("Combined")),) if protocol.pooled and len(asked) > 1 else ()
    return Report(
        run=run,
        protocol=protocol,
        datasets=(*((one.name, one.label) for one in asked), *pooled),
        endpoints=endpoints,
        overall=_rows(run, protocol, endpoints, asked, None, labels),
        facets={view.name: _rows(run, protocol, endpoints, asked, view, labels) for view in protocol.facets},
        without=_without(run, protocol),
        responses_failed=dict(failed.values_list("endpoint__name").annotate(n=Count("pk"))),
        simulated=is_simulated(run),
        finished=run.status == Run.Status.FINISHED,
        cost=run.cost,
    )


def _rows(
    run: Run,
    protocol: Protocol,
    endpoints: Iterable[str],
    datasets: Sequence[DataSet],
    view: FacetView | None,
    labels: Mapping[str, str],
) -> tuple[Row, ...]:
    verdicts = _verdicts(run, datasets, view.name if view else None)
    values = sorted({value for _endpoint, _dataset, value in verdicts})
    if view and view.values:
        labels = dict(view.values)
        values.sort(key=lambda value: list(labels).index(value) if value in labels else len(labels))
    rows = []
    for value in values if view else [""]:
        for endpoint in endpoints:
            counts = {one.name: verdicts[endpoint, one.name, value] for one in datasets}
            if protocol.pooled and len(datasets) > 1:
                counts[COMBINED] = sum(counts.values(), Counter())
            for dataset, said in counts.items():
                rates = {rate.name: measure(rate, said) for rate in protocol.rates}
                rows.append(Row(endpoint, dataset, value, labels.get(value, value), said, rates))
    return tuple(rows)


def _without(run: Run, protocol: Protocol) -> dict[str, int]:
    """Facet -> how many judgments of a run have no value of it. Those of all facets in one query."""
    has = {view.name: Facet.objects.filter(rubric=OuterRef("rubric"), name=view.name) for view in protocol.facets}
    counts = {f"without_{name}": Count("pk", filter=~Exists(found)) for name, found in has.items()}
    told = Judgment.objects.filter(run=run).aggregate(**counts)
    return {name: told[f"without_{name}"] for name in has}


def _verdicts(
    run: Run, datasets: Iterable[DataSet], facet: str | None
) -> defaultdict[tuple[str, str, str], Counter[str]]:
    """(endpoint, data set, facet value) -> verdict -> how often; judgments without a verdict count as unjudged."""
    names = {(one.task, one.variant): one.name for one in datasets}
    judged = Judgment.objects.filter(run=run).order_by()
    keys = ["response__endpoint__name", "rubric__sample__task", "response__variant"]
    if facet:
        judged = judged.filter(rubric__facets__name=facet).annotate(facet=F("rubric__facets__value"))
        keys.append("facet")
    found: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for *key, verdict, n in judged.values_list(*keys, "verdict").annotate(n=Count("pk")):
        endpoint, task, variant, value = (*key, "")[:4]
        if (task, variant) in names:
            found[endpoint, names[task, variant], value][verdict or UNJUDGED] += n
    return found


def judgments(
    run: Run,
    *,
    endpoint: str = "",
    dataset: str = "",
    facet: str = "",
    value: str = "",
    verdict: str = "",
) -> QuerySet[Judgment]:
    """The judgments behind a number, in release order.

    `verdict` may be several, joined by commas; 'unjudged' stands for having none.
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
    if facet and value:
        found = found.filter(rubric__facets__name=facet, rubric__facets__value=value)
    if verdict:
        found = found.filter(verdict__in=["" if each == UNJUDGED else each for each in verdict.split(",")])
    return found


def judgment(run: Run, judgment_id: int) -> Judgment | None:
    """One judgment with everything it is about: the sample as released, the response, the rubric."""
    about = ("response__endpoint", "rubric__sample__release")
    return Judgment.objects.filter(run=run, pk=judgment_id).select_related(*about).first()


def calls_behind(judgment: Judgment) -> tuple[list[Call], list[Call]]:
    """The ledger of the response, and that of the judgment."""
    response, judged = f"response:{judgment.response_id}", f"judgment:{judgment.pk}"
    calls = Call.objects.filter(subject__in=[response, judged]).select_related("endpoint").order_by("pk")
    found = list(calls)
    return [c for c in found if c.subject == response], [c for c in found if c.subject == judged]
