"""The numbers of a report as JSON, for its files, its bundle and the check of a bundle."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evaluation.metrics import MeasuredRate
from evaluation.protocol import Protocol, Rate
from evaluation.reports.numbers.averages import averages_of, contrasts_of
from evaluation.reports.numbers.changes import Change
from evaluation.reports.numbers.comparing import ModelComparison
from evaluation.reports.numbers.counting import RateRow
from evaluation.reports.numbers.report_numbers import ReportNumbers
from evaluation.reports.numbers.scoring import MeasuredScore, ScoreRow
from evaluation.verdicts.plans import PLANNED, Plan


def as_dict(
    numbers: ReportNumbers, protocol: Protocol, plan: Plan, endpoints: Sequence[str], *, common: bool = False
) -> dict[str, Any]:
    """All numbers that follow from the verdicts of a run; rates are null if nothing was counted.

    `common`: whether only samples were counted that every model answered.
    """
    planned = plan.metric if plan.frozen and not common else ""
    return {
        "rate": as_rate(numbers.rates[0]),
        "rates": [{**as_rate(rate), "planned": rate.name == planned} for rate in numbers.rates],
        "plan": {**plan.as_json, "frozen": plan.frozen},
        "samples": {"counted": numbers.samples[0], "asked": numbers.samples[1]},
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
                "endpoint": contrast.endpoint,
                "label": str(contrast.label),
                "rate": contrast.rate,
                "first": {"dataset": contrast.first, "value": contrast.values[0]},
                "second": {"dataset": contrast.second, "value": contrast.values[1]},
                "difference": contrast.difference,
            }
            for contrast in contrasts_of(protocol, numbers.rates, numbers.overall, endpoints)
        ],
        "changes": [as_change(change) for change in numbers.changes],
        "held_out": [asdict(gap) for gap in numbers.held_out],
        "bottlenecks": [asdict(bottleneck) for bottleneck in numbers.bottlenecks],
        "averages": [
            {"rate": rate, "variant": variant, "datasets": rows.by_dataset, "models": rows.by_model}
            for rate, variant, rows in averages_of(protocol, numbers.rates, numbers.overall)
        ],
        "score_rules": [
            {"name": rule.name, "label": str(rule.label), "rule": str(rule.rule), "low": rule.low, "high": rule.high}
            for rule in protocol.scores
        ],
        "scores": [as_scores(row) for row in numbers.scores],
        "score_facets": {name: [as_scores(row) for row in rows] for name, rows in numbers.score_facets.items()},
    }


def as_rate(rate: Rate) -> dict[str, Any]:
    return {
        "name": rate.name,
        "label": str(rate.label),
        "rule": str(rate.rule),
        "interval": rate.interval,
        "unit": rate.unit,
        "arm": rate.arm,
        "weights": dict(rate.weights.of) if rate.weights else {},
    }


def as_comparison(comparison: ModelComparison) -> dict[str, Any]:
    values = asdict(comparison)
    first, second = values.pop("rates")
    value = values.pop("value")
    planned = comparison.role == PLANNED
    return {
        **({"value": value} if value else {}),
        **values,
        "planned": planned,
        "first_rate": first,
        "second_rate": second,
    }


def as_change(change: Change) -> dict[str, Any]:
    values = asdict(change)
    first, second = values.pop("rates")
    return {**values, **values.pop("moves"), "first_rate": first, "second_rate": second}


def as_row(row: RateRow) -> dict[str, Any]:
    """All rates by name. The first is also given on its own, as once it was the only one."""
    return {
        "endpoint": row.endpoint,
        "dataset": row.dataset,
        **({"value": row.value, "label": row.label} if row.value else {}),
        **as_measured(row.measured),
        "rates": {name: {"value": measured.value, **as_measured(measured)} for name, measured in row.rates.items()},
        "verdicts": dict(sorted(row.verdicts.items())),
    }


def as_measured(measured: MeasuredRate) -> dict[str, Any]:
    bounds = measured.bounds
    return {
        "rate": measured.value,
        "numerator": measured.numerator,
        "denominator": measured.denominator,
        "unjudged": measured.excluded,
        "low": measured.low,
        "high": measured.high,
        "method": measured.method,
        "clusters": measured.clusters,
        "n": measured.n,
        "best": bounds.best if bounds else None,
        "worst": bounds.worst if bounds else None,
        **({"incomplete": True} if measured.partial else {}),
    }


def as_scores(row: ScoreRow) -> dict[str, Any]:
    """A row as JSON-able values."""
    key = {"endpoint": row.endpoint, "dataset": row.dataset}
    breakdown = {"value": row.value, "label": row.label} if row.value else {}
    return {**key, **breakdown, "scores": {name: as_score(score) for name, score in row.scores.items()}}


def as_score(score: MeasuredScore) -> dict[str, Any]:
    """One score as JSON-serializable values."""
    parts = dict(zip(("p5", "q1", "median", "q3", "p95"), score.box or (None,) * 5, strict=True))
    plain = {name: getattr(score, name) for name in ("n", "without", "mean", "low", "high", "clusters")}
    return {**plain, "sd": score.deviation, **parts}


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
                "facet": facet,
                "value": row.value,
                "verdicts": {verdict: n for verdict, n in sorted(row.verdicts.items()) if n},
                "rates": {name: _as_counted(rate) for name, rate in row.rates.items()},
            }
            for facet, row in rate_rows
        ],
        "scores": [
            {
                "model": row.endpoint,
                "dataset": row.dataset,
                "facet": facet,
                "value": row.value,
                "scores": {name: as_score(score) for name, score in row.scores.items()},
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
    names = ("numerator", "denominator", "excluded", "value", "clusters", "n", "method", "low", "high", "partial")
    return {
        **{name: getattr(rate, name) for name in names},
        "bounds": asdict(rate.bounds) if rate.bounds else None,
    }
