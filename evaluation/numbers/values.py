"""The numbers of a report as JSON, for its files, its bundle and the check of a bundle."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evaluation.metrics import MeasuredRate
from evaluation.numbers.averages import averages_of, contrasts_of
from evaluation.numbers.comparing import ModelComparison
from evaluation.numbers.counting import RateRow
from evaluation.numbers.plans import PLANNED, Plan
from evaluation.numbers.report_numbers import ReportNumbers
from evaluation.numbers.scoring import ScoreRow
from evaluation.protocol import Protocol, Rate
from review.rules.answers import shown_values


def as_dict(
    numbers: ReportNumbers, protocol: Protocol, plan: Plan, endpoints: Sequence[str], *, common: bool = False
) -> dict[str, Any]:
    """All numbers that follow from the verdicts of a run; rates are null if nothing was counted.

    `common`: whether only samples were counted that every model answered.
    """
    planned = ""
    if plan.frozen and not common:
        planned = plan.metric
    return {
        "rate": as_rate(numbers.rates[0]),
        "rates": [{**as_rate(rate), "planned": rate.name == planned} for rate in numbers.rates],
        "plan": {**plan.as_json, "frozen": plan.frozen},
        "samples": {"counted": numbers.samples[0], "asked": numbers.samples[1]},
        "coverage": [shown_values(of_model) for of_model in numbers.coverage],
        "errata": {
            "withdrawn": numbers.withdrawn,
            "with_withdrawn": [as_row(row) for row in numbers.with_withdrawn],
        },
        "cluster_unit": numbers.cluster_unit,
        "responses_failed": dict(numbers.failed),
        "overall": [as_row(row) for row in numbers.overall],
        "facets": {name: [as_row(row) for row in rows] for name, rows in numbers.facets.items()},
        "without": dict(numbers.without),
        "outcomes": [asdict(ending) for ending in numbers.endings],
        "comparisons": [as_comparison(comparison) for comparison in numbers.comparisons],
        "facet_comparisons": {
            name: [as_comparison(comparison) for comparison in rows] for name, rows in numbers.cells.items()
        },
        "ranks": [asdict(ranking) for ranking in numbers.rankings],
        "contrasts": [
            {
                **shown_values(contrast),
                "first": {"dataset": contrast.first, "value": contrast.values[0]},
                "second": {"dataset": contrast.second, "value": contrast.values[1]},
            }
            for contrast in contrasts_of(protocol, numbers.rates, numbers.overall, endpoints)
        ],
        "changes": [shown_values(change) for change in numbers.changes],
        "held_out": [asdict(gap) for gap in numbers.held_out],
        "bottlenecks": [asdict(bottleneck) for bottleneck in numbers.bottlenecks],
        "averages": [
            {"rate": rate, "variant": variant, **shown_values(rows)}
            for rate, variant, rows in averages_of(protocol, numbers.rates, numbers.overall)
        ],
        "score_rules": [asdict(rule) for rule in protocol.scores],
        "scores": [as_scores(row) for row in numbers.scores],
        "score_facets": {name: [as_scores(row) for row in rows] for name, rows in numbers.score_facets.items()},
    }


def as_rate(rate: Rate) -> dict[str, Any]:
    return {**shown_values(rate), "weights": dict(rate.weights.of) if rate.weights else {}}


def as_comparison(comparison: ModelComparison) -> dict[str, Any]:
    value = {}
    if comparison.value:
        value = {"value": comparison.value}
    return {**value, **shown_values(comparison), "planned": comparison.role == PLANNED}


def as_row(row: RateRow) -> dict[str, Any]:
    """All rates by name. The first is also given on its own, as once it was the only one."""
    return {
        **_place(row),
        **as_measured(row.measured),
        "rates": {name: {"value": measured.value, **as_measured(measured)} for name, measured in row.rates.items()},
        "verdicts": dict(sorted(row.verdicts.items())),
    }


def _place(row: RateRow | ScoreRow) -> dict[str, Any]:
    place = {"endpoint": row.endpoint, "dataset": row.dataset}
    if row.value:
        return {**place, "value": row.value, "label": row.label}
    return place


def as_measured(measured: MeasuredRate) -> dict[str, Any]:
    return {**shown_values(measured), **({"incomplete": True} if measured.partial else {})}


def as_scores(row: ScoreRow) -> dict[str, Any]:
    """A row as JSON-able values."""
    return {**_place(row), "scores": {name: shown_values(score) for name, score in row.scores.items()}}


def by_model(numbers: ReportNumbers) -> dict[str, Any]:
    """Every count and rate, in the form of numbers.json in a bundle."""
    rate_rows = [("", row) for row in numbers.overall]
    rate_rows += [(name, row) for name, rows in sorted(numbers.facets.items()) for row in rows]
    score_rows = [("", row) for row in numbers.scores]
    score_rows += [(name, row) for name, rows in sorted(numbers.score_facets.items()) for row in rows]
    comparisons = [("", comparison) for comparison in numbers.comparisons]
    comparisons += [(name, comparison) for name, cells in sorted(numbers.cells.items()) for comparison in cells]
    return {
        "rows": [
            {
                "model": row.endpoint,
                "dataset": row.dataset,
                "value": row.value,
                "facet": facet,
                "verdicts": {verdict: n for verdict, n in sorted(row.verdicts.items()) if n},
                "rates": {name: _as_counted(rate) for name, rate in row.rates.items()},
            }
            for facet, row in rate_rows
        ],
        "scores": [
            {
                "model": row.endpoint,
                "dataset": row.dataset,
                "value": row.value,
                "facet": facet,
                "scores": as_scores(row)["scores"],
            }
            for facet, row in score_rows
        ],
        "outcomes": [asdict(row) for row in numbers.endings],
        "comparisons": [{"facet": facet, **asdict(comparison)} for facet, comparison in comparisons],
        "changes": [asdict(change) for change in numbers.changes],
        "held_out": [asdict(gap) for gap in numbers.held_out],
        "without": dict(sorted(numbers.without.items())),
    }


def _as_counted(rate: MeasuredRate) -> dict[str, Any]:
    """A rate; `method` is that of the interval from `low` to `high`."""
    counted = asdict(rate)
    del counted["score"]
    return {**counted, "value": rate.value}
