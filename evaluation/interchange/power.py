"""What a release will be able to show, before any model is asked: interval widths, and the differences it can detect."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count
from django.utils.translation import gettext_noop

from evaluation import registry
from evaluation.protocol import DataSet
from evaluation.reports.numbers.counting import COMBINED
from evaluation.reports.numbers.verdict_table import samples_of
from evaluation.runs import queries
from evaluation.statistics import planning
from evaluation.statistics.intervals import MINIMUM
from generation.models import Release, ReleasedRubric
from generation.samples import queries as samples_queries

RATE = 0.3
MOST_MODELS = 1000
CORRELATION = 0.3  # of criteria of one source record
DIFFERENCE = 0.1


@dataclass(frozen=True, slots=True)
class CellPower:
    """What one cell will tell about each model. `half_width`, `detectable` and `power` are None where it is too small.

    `facet` and `value` are empty for the whole data set. `clusters`: source records. `detectable`: the smallest difference
    between two models that is found in four of five studies; `power`: the chance to find the difference that was asked about.
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


def release_power(
    release: Release,
    models: int,
    *,
    datasets: Sequence[DataSet] | None = None,
    facets: bool = True,
    rate: float = RATE,
    correlation: float = CORRELATION,
    difference: float = DIFFERENCE,
    minimum: int = MINIMUM,
) -> list[CellPower]:
    """Each data set, then each value of each facet in it, for `models` models that are compared in pairs (Holm's first step).

    `rate`: what is expected of a model; `correlation`: of the criteria of one source record. `minimum`: samples
    below which no interval is given. Control samples, which have no traps, are left out.
    """
    protocol = registry.protocol(release.benchmark)
    shown = list(datasets if datasets is not None else queries.data_sets_in(release))
    labels = {term.code: term.label for term in samples_queries.terms(release.benchmark)}
    pairs = max(1, models * (models - 1) // 2)
    sizes = _sizes(release, [view.name for view in protocol.facets] if facets else [])
    places: list[tuple[str, str, set[str]]] = [(one.name, one.label, {one.task}) for one in shown]
    if protocol.pooled and len(shown) > 1:
        places.append((COMBINED, gettext_noop("Combined"), {one.task for one in shown}))

    def cell(place: tuple[str, str, set[str]], facet: str, value: str, label: str) -> CellPower:
        name, dataset_label, tasks = place
        together: dict[int, int] = defaultdict(int)
        for task in tasks:
            for record, n in sizes[facet, value].get(task, {}).items():
                together[record] += n
        found = planning.expected(rate, list(together.values()), correlation, minimum=minimum)
        detectable = power = None
        if found.half_width is not None:
            detectable = planning.detectable_difference(rate, found.effective_n, pairs=pairs)
            other = rate + difference if rate + difference <= 1 else rate - difference
            power = planning.power_of_difference(rate, other, found.effective_n, pairs=pairs)
        return CellPower(
            *(name, dataset_label, facet, value, label, found.n, found.clusters, found.effective_n),
            *(found.half_width, detectable, power),
        )

    cells = [cell(place, "", "", "") for place in places]
    for view in protocol.facets if facets else ():
        named = dict(view.values) or labels
        values = sorted(value for facet, value in sizes if facet == view.name)
        cells += [cell(place, view.name, value, named.get(value, value)) for place in places for value in values]
    return [each for each in cells if each.criteria]


def _sizes(release: Release, facets: Sequence[str]) -> dict[tuple[str, str], dict[str, Counter[int]]]:
    """(facet, value), or ('', '') for all -> task -> cluster -> criteria; clusters are those of a report."""
    place, _tasks, (cluster, is_control) = samples_of(release)
    known = zip(place.known.tolist(), cluster.tolist(), is_control.tolist(), strict=True)
    of = {sample: cluster for sample, cluster, control in known if not control}
    found: dict[tuple[str, str], dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    rubrics = ReleasedRubric.objects.filter(sample__release=release).order_by()
    rows = [("", "", *row) for row in rubrics.values_list("sample__task", "sample").annotate(n=Count("pk"))]
    if facets:
        columns = ("facets__name", "facets__value", "sample__task", "sample")
        rows += rubrics.filter(facets__name__in=facets).values_list(*columns).annotate(n=Count("pk"))
    for name, value, task, sample, n in rows:
        if sample in of:
            found[name, value][task][of[sample]] += n
    return found
