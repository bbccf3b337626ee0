"""The numbers of a report as JSON, for its files, its bundle and the check of a bundle."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypedDict

from evaluation.metrics import MeasuredRate
from evaluation.numbers.averages import Contrast, MetricAverages
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.counting import RateRow
from evaluation.numbers.plans import PLANNED, Plan
from evaluation.numbers.report_numbers import ReportNumbers
from evaluation.numbers.scoring import ScoreRow
from evaluation.protocol import Protocol, Rate
from review.rules.shown_fields import shown_values


class SamplesCounted(TypedDict):
    """Samples counted, of those asked; a sample counts once in each data set."""

    counted: int
    asked: int


class RateOnDataset(TypedDict):
    """A rate on one data set."""

    dataset: str
    value: float | None


def as_dict(numbers: ReportNumbers, protocol: Protocol, plan: Plan, *, common: bool = False) -> dict[str, Any]:
    """All numbers that follow from the verdicts of a run; rates are null if nothing was counted.

    `common`: whether only samples were counted that every model answered.
    """
    planned = ""
    if plan.frozen and not common:
        planned = plan.metric
    samples: SamplesCounted = {"counted": numbers.samples[0], "asked": numbers.samples[1]}
    return {
        "rate": as_rate(numbers.rates[0]),
        "rates": [{**as_rate(rate), "planned": rate.name == planned} for rate in numbers.rates],
        "plan": {**plan.as_json, "frozen": plan.frozen},
        "samples": samples,
        "coverage": list(map(shown_values, numbers.coverage)),
        "errata": {"withdrawn": numbers.withdrawn, "with_withdrawn": list(map(as_row, numbers.with_withdrawn))},
        "cluster_unit": numbers.cluster_unit,
        "responses_failed": dict(numbers.failed),
        "overall": list(map(as_row, numbers.overall)),
        "facets": _by_facet(as_row, numbers.facets),
        "without": dict(numbers.without),
        "outcomes": list(map(asdict, numbers.endings)),
        "comparisons": list(map(as_comparison, numbers.comparisons)),
        "facet_comparisons": _by_facet(as_comparison, numbers.cells),
        "ranks": list(map(asdict, numbers.rankings)),
        "contrasts": list(map(_as_contrast, numbers.contrasts)),
        "changes": list(map(shown_values, numbers.changes)),
        "held_out": list(map(asdict, numbers.held_out)),
        "bottlenecks": list(map(asdict, numbers.bottlenecks)),
        "averages": list(map(_as_averages, numbers.averages)),
        "score_rules": list(map(asdict, protocol.scores)),
        "scores": list(map(as_scores, numbers.scores)),
        "score_facets": _by_facet(as_scores, numbers.score_facets),
    }


def _by_facet(form: Callable[[Any], dict[str, Any]], rows: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Facet -> its rows, in a form."""
    return {name: list(map(form, of_facet)) for name, of_facet in rows.items()}


def _as_contrast(contrast: Contrast) -> dict[str, Any]:
    values = contrast.values
    first: RateOnDataset = {"dataset": contrast.first, "value": values[0]}
    second: RateOnDataset = {"dataset": contrast.second, "value": values[1]}
    return {**shown_values(contrast), "first": first, "second": second}


def _as_averages(of_metric: MetricAverages) -> dict[str, Any]:
    rate, variant, means = of_metric
    return {"rate": rate, "variant": variant, **shown_values(means)}


def as_rate(rate: Rate) -> dict[str, Any]:
    weights: dict[str, int] = {}
    if rate.weights:
        weights = dict(rate.weights.of)
    return {**shown_values(rate), "weights": weights}


def as_comparison(comparison: ModelComparison) -> dict[str, Any]:
    value = {}
    if comparison.value:
        value = {"value": comparison.value}
    return {**value, **shown_values(comparison), "planned": comparison.role == PLANNED}


def as_row(row: RateRow) -> dict[str, Any]:
    """All rates by name. The first is also given on its own, as once it was the only one."""
    rates = {}
    for name, measured in row.rates.items():
        rates[name] = {"value": measured.value, **as_measured(measured)}
    verdicts = dict(sorted(row.verdicts.items()))
    return {**_place(row), **as_measured(row.measured), "rates": rates, "verdicts": verdicts}


def _place(row: RateRow | ScoreRow) -> dict[str, Any]:
    place = {"endpoint": row.endpoint, "dataset": row.dataset}
    if row.value:
        return {**place, "value": row.value, "label": row.label}
    return place


def as_measured(measured: MeasuredRate) -> dict[str, Any]:
    if measured.partial:
        return {**shown_values(measured), "incomplete": True}
    return shown_values(measured)


def as_scores(row: ScoreRow) -> dict[str, Any]:
    """A row as JSON-able values."""
    return {**_place(row), "scores": _shown_scores(row)}


def _shown_scores(row: ScoreRow) -> dict[str, Any]:
    return {name: shown_values(score) for name, score in row.scores.items()}


def by_model(numbers: ReportNumbers) -> dict[str, Any]:
    """Every count and rate, in the form of numbers.json in a bundle."""
    rows = []
    for facet, row in _of_all_facets(numbers.overall, numbers.facets):
        verdicts = {verdict: n for verdict, n in sorted(row.verdicts.items()) if n}
        rates = {name: _as_counted(rate) for name, rate in row.rates.items()}
        rows.append({**_place_in_bundle(facet, row), "verdicts": verdicts, "rates": rates})
    scores = []
    for facet, score_row in _of_all_facets(numbers.scores, numbers.score_facets):
        scores.append({**_place_in_bundle(facet, score_row), "scores": _shown_scores(score_row)})
    comparisons = _of_all_facets(numbers.comparisons, numbers.cells)
    return {
        "rows": rows,
        "scores": scores,
        "outcomes": list(map(asdict, numbers.endings)),
        "comparisons": [{"facet": facet, **asdict(comparison)} for facet, comparison in comparisons],
        "changes": list(map(asdict, numbers.changes)),
        "held_out": list(map(asdict, numbers.held_out)),
        "without": dict(sorted(numbers.without.items())),
    }


def _of_all_facets(overall: Iterable[Any], by_facet: Mapping[str, Iterable[Any]]) -> Iterator[tuple[str, Any]]:
    """The rows over all criteria, then those of each facet: the facet ('' for all), and the row."""
    for facet, rows in [("", overall), *sorted(by_facet.items())]:
        for row in rows:
            yield facet, row


def _place_in_bundle(facet: str, row: RateRow | ScoreRow) -> dict[str, Any]:
    return {"model": row.endpoint, "dataset": row.dataset, "value": row.value, "facet": facet}


def _as_counted(rate: MeasuredRate) -> dict[str, Any]:
    """A rate; `method` is that of the interval from `low` to `high`."""
    counted = asdict(rate)
    del counted["score"]
    return {**counted, "value": rate.value}
