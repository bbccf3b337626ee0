"""The statistical power of a release, before any model is asked.

Expected widths of intervals, and the differences between models that can be detected.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count
from django.utils.translation import gettext_noop
from pydantic import Field

from evaluation import registry
from evaluation.numbers.late import pl
from evaluation.numbers.rules import COMBINED, REWORDED
from evaluation.protocol import DataSet, FacetView
from evaluation.runs import queries
from evaluation.runs.settings import RunSettings
from evaluation.runs.verdicts import load_samples
from evaluation.statistics import planning
from evaluation.statistics.intervals import MINIMUM
from generation.jobs.settings import Settings
from generation.models import Release, ReleasedRubric
from generation.samples import queries as samples_queries

MAX_MODELS = 1000
# Default expectations.
RATE = 0.3
CORRELATION = 0.3  # between criteria of one source record
DIFFERENCE = 0.1


class Expectations(Settings):
    """How many models are compared, and what to expect of them."""

    models: int = Field(title="Number of models that are compared.", ge=1, le=MAX_MODELS)
    rate: float = Field(RATE, title="Expected rate.", ge=0, le=1)
    correlation: float = Field(CORRELATION, title="Correlation between the criteria of one source record.", ge=0, le=1)
    difference: float = Field(DIFFERENCE, title="Difference for which to compute the power.", ge=0, le=1)


@dataclass(frozen=True, slots=True)
class CellPower:
    """The precision of one cell for each model; `facet` and `value` are '' for the whole data set.

    `clusters`: source records. `effective`: effective number of criteria.
    `half_width`: expected half-width of the interval of a rate.
    `detectable`: the smallest difference between two models that four of five studies would detect.
    `power`: the probability of detecting the given difference.
    The last three are None if the cell is too small.
    """

    dataset: str
    dataset_label: str
    facet: str
    value: str
    label: str
    criteria: int
    clusters: int
    effective: float
    half_width: float | None
    detectable: float | None
    power: float | None


def expected_power(settings: RunSettings) -> list[CellPower]:
    """The power of each data set for a run with these settings."""
    return release_power(
        settings.release,
        Expectations(models=len(settings.tested)),
        datasets=queries.data_sets_asked(settings),
        facets=False,
        minimum=settings.minimum,
        primary=settings.primary_dataset,
    )


def release_power(
    release: Release,
    expected: Expectations,
    *,
    datasets: Sequence[DataSet] | None = None,
    facets: bool = True,
    minimum: int = MINIMUM,
    primary: str = "",
) -> list[CellPower]:
    """The power of each data set, then of each facet value in it.

    Models are compared in pairs, at the level of Holm's first step: all data sets are one family,
    unless a plan names its `primary` one.
    `minimum`: number of samples below which no interval is given.
    Control samples, which have no traps, and withdrawn ones are left out.
    """
    protocol = registry.protocol(release.benchmark)
    if datasets is None:
        datasets = queries.usual_data_sets(release)
    views: Sequence[FacetView] = ()
    if facets:
        views = protocol.facets
    labels = samples_queries.term_labels(release.benchmark)
    rate, correlation, difference = expected.rate, expected.correlation, expected.difference
    pairs = max(1, expected.models * (expected.models - 1) // 2)
    sizes = _sizes(release, [view.name for view in views])
    groups: list[tuple[str, str, set[str]]] = [(dataset.name, dataset.label, {dataset.task}) for dataset in datasets]
    if protocol.pools(datasets):
        groups.append((COMBINED, gettext_noop("Combined"), {dataset.task for dataset in datasets}))

    if primary:
        family = pairs
    else:
        family = pairs * len(groups)

    def cell(group: tuple[str, str, set[str]], facet: str, value: str, label: str) -> CellPower:
        name, dataset_label, tasks = group
        criteria_of: dict[int, int] = defaultdict(int)  # cluster -> criteria
        for task in tasks:
            for record, n in sizes[facet, value].get(task, {}).items():
                criteria_of[record] += n
        criteria = [criteria_of[record] for record in sorted(criteria_of)]  # the draws of the power follow their order
        precision = planning.expected_precision(rate, criteria, correlation, minimum=minimum)
        detectable = power = None
        if precision.half_width is not None:
            tests = family
            if facet:
                tests = pairs
            detectable = planning.detectable_difference(rate, criteria, correlation, pairs=tests)
            if rate + difference <= 1:
                other = rate + difference
            else:
                other = rate - difference
            power = planning.power_of_difference(rate, other, criteria, correlation, pairs=tests)
        return CellPower(
            *(name, dataset_label, facet, value, label, precision.n, precision.clusters, precision.effective_n),
            *(precision.half_width, detectable, power),
        )

    cells = [cell(group, "", "", "") for group in groups]
    for view in views:
        value_labels = dict(view.values) or labels
        values = sorted([value for facet, value in sizes if facet == view.name])
        for group in groups:
            cells += [cell(group, view.name, value, value_labels.get(value, value)) for value in values]
    return [power for power in cells if power.criteria]


def _sizes(release: Release, facets: Sequence[str]) -> dict[tuple[str, str], dict[str, Counter[int]]]:
    """(facet, value) -> task -> cluster -> number of criteria; clusters are those of a report.

    The key ('', '') is for all criteria.
    """
    samples = load_samples(release).filter(pl.col("arm") != REWORDED)
    known = samples.filter(~pl.col("is_control") & ~pl.col("withdrawn")).select("sample", "cluster")
    cluster_of = dict(known.iter_rows())
    sizes: dict[tuple[str, str], dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    rubrics = ReleasedRubric.objects.filter(sample__release=release).order_by()
    rows = [("", "", *row) for row in rubrics.values_list("sample__task", "sample").annotate(n=Count("pk"))]
    if facets:
        columns = ("facets__name", "facets__value", "sample__task", "sample")
        rows += rubrics.filter(facets__name__in=facets).values_list(*columns).annotate(n=Count("pk"))
    for name, value, task, sample, n in rows:
        if sample in cluster_of:
            sizes[name, value][task][cluster_of[sample]] += n
    return sizes
