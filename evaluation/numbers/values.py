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
from review.rules.shown_values import shown


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
        "coverage": [shown(of_model, COVERAGE) for of_model in numbers.coverage],
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
                **shown(contrast, CONTRAST),
                "first": shown(contrast, "dataset=first value=values.0"),
                "second": shown(contrast, "dataset=second value=values.1"),
            }
            for contrast in contrasts_of(protocol, numbers.rates, numbers.overall, endpoints)
        ],
        "changes": [shown(change, CHANGE) for change in numbers.changes],
        "held_out": [asdict(gap) for gap in numbers.held_out],
        "bottlenecks": [asdict(bottleneck) for bottleneck in numbers.bottlenecks],
        "averages": [
            {"rate": rate, "variant": variant, "datasets": rows.by_dataset, "models": rows.by_model}
            for rate, variant, rows in averages_of(protocol, numbers.rates, numbers.overall)
        ],
        "score_rules": [asdict(rule) for rule in protocol.scores],
        "scores": [as_scores(row) for row in numbers.scores],
        "score_facets": {name: [as_scores(row) for row in rows] for name, rows in numbers.score_facets.items()},
    }


COVERAGE = "endpoint criteria settled counted complete"
RATE = "name label rule interval unit arm"
MEASURED = (
    "rate=value numerator denominator unjudged=excluded low high method clusters n best=bounds.best worst=bounds.worst"
)
COMPARISON = (
    "dataset rate first second first_rate=rates.0 second_rate=rates.1 difference low high p p_adjusted clusters n "
    "odds_ratio cohens_h only_first only_second p_samples role"
)
CHANGE = (
    "label rate first second endpoint first_rate=rates.0 second_rate=rates.1 gain low high p p_adjusted clusters "
    "kept=moves.kept broken=moves.broken fixed=moves.fixed stayed=moves.stayed fix_rate break_rate"
)
CONTRAST = "endpoint label rate difference"
BY_MODEL = "model=endpoint dataset value"
SCORE = "n without mean low high sd=deviation clusters p5=box.0 q1=box.1 median=box.2 q3=box.3 p95=box.4"


def as_rate(rate: Rate) -> dict[str, Any]:
    return {**shown(rate, RATE), "weights": dict(rate.weights.of) if rate.weights else {}}


def as_comparison(comparison: ModelComparison) -> dict[str, Any]:
    value = {"value": comparison.value} if comparison.value else {}
    return {**value, **shown(comparison, COMPARISON), "planned": comparison.role == PLANNED}


def as_row(row: RateRow) -> dict[str, Any]:
    """All rates by name. The first is also given on its own, as once it was the only one."""
    return {
        **_place(row),
        **as_measured(row.measured),
        "rates": {name: {"value": measured.value, **as_measured(measured)} for name, measured in row.rates.items()},
        "verdicts": dict(sorted(row.verdicts.items())),
    }


def _place(row: RateRow | ScoreRow) -> dict[str, Any]:
    return shown(row, "endpoint dataset value label" if row.value else "endpoint dataset")


def as_measured(measured: MeasuredRate) -> dict[str, Any]:
    return {**shown(measured, MEASURED), **({"incomplete": True} if measured.partial else {})}


def as_scores(row: ScoreRow) -> dict[str, Any]:
    """A row as JSON-able values."""
    return {**_place(row), "scores": {name: shown(score, SCORE) for name, score in row.scores.items()}}


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
                **shown(row, BY_MODEL),
                "facet": facet,
                "verdicts": {verdict: n for verdict, n in sorted(row.verdicts.items()) if n},
                "rates": {name: _as_counted(rate) for name, rate in row.rates.items()},
            }
            for facet, row in rate_rows
        ],
        "scores": [
            {**shown(row, BY_MODEL), "facet": facet, "scores": as_scores(row)["scores"]} for facet, row in score_rows
        ],
        "outcomes": [asdict(row) for row in numbers.endings],
        "comparisons": [{"facet": facet, **asdict(comparison)} for facet, comparison in comparisons],
        "changes": [asdict(change) for change in numbers.changes],
        "held_out": [asdict(gap) for gap in numbers.held_out],
        "without": dict(sorted(numbers.without.items())),
    }


def _as_counted(rate: MeasuredRate) -> dict[str, Any]:
    """A rate; `method` is that of the interval from `low` to `high`."""
    names = "numerator denominator excluded value clusters n method low high partial"
    return {**shown(rate, names), "bounds": asdict(rate.bounds) if rate.bounds else None}
