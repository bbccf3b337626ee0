"""A report as JSON and CSV, each number with numerator, denominator, interval and exclusions."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from evaluation.judges import summary
from evaluation.metrics import MeasuredRate
from evaluation.protocol import Rate
from evaluation.reports import score_lines
from evaluation.reports.documents import SIMULATED, as_latex
from evaluation.reports.documents import as_markdown as as_markdown
from evaluation.reports.numbers.changes import MOVES, Change
from evaluation.reports.numbers.comparing import Comparison
from evaluation.reports.numbers.counting import Row
from evaluation.reports.queries import Report
from evaluation.runs.queries import models_asked
from review.common import csv_text


def as_dict(report: Report) -> dict[str, Any]:
    """The report as JSON-serializable values; rates are null if nothing was counted."""
    run = report.run
    return {
        "run": run.pk,
        "release": run.release.name,
        "release_version": run.release.version,
        "release_sha256": run.release.sha256,
        "benchmark": run.release.benchmark,
        "judge": run.judge.name if run.judge else None,
        "judge_model": run.judge.model if run.judge else None,
        "judge_temperature": run.judge_temperature,
        "sampling": run.sampling,
        "models": [asdict(model) for model in models_asked(run)],
        "seed": run.seed,
        "finished": report.finished,
        "simulated": report.simulated,
        **({"notice": SIMULATED} if report.simulated else {}),
        "simulated_reviewers": bool(run.release.simulated_samples),
        "rate": _rate(report.rate),
        "rates": [{**_rate(rate), "planned": report.is_planned(rate)} for rate in report.rates],
        "plan": {**report.plan.as_json, "frozen": report.plan.frozen},
        "common_samples": report.options.common,
        "samples": {"counted": report.numbers.samples[0], "asked": report.numbers.samples[1]},
        "datasets": [{"name": name, "label": label} for name, label in report.datasets],
        "endpoints": list(report.endpoints),
        "responses_failed": dict(report.responses_failed),
        "left_out": [
            {"endpoint": each.endpoint.name, "at": str(each.left_out_at), "because": each.left_out_because}
            for each in report.left_out
        ],
        "overall": [_row(row) for row in report.overall],
        "facets": {name: [_row(row) for row in rows] for name, rows in report.facets.items()},
        "without": dict(report.without),
        "outcomes": [asdict(ending) for ending in report.numbers.endings],
        "comparisons": [_comparison(comparison) for comparison in report.numbers.comparisons],
        "facet_comparisons": {
            name: [_comparison(comparison) for comparison in rows] for name, rows in report.numbers.cells.items()
        },
        "ranks": [asdict(ranking) for ranking in report.numbers.rankings],
        "contrasts": [
            {
                "endpoint": contrast.endpoint,
                "label": str(contrast.label),
                "rate": contrast.rate,
                "first": {"dataset": contrast.first, "value": contrast.values[0]},
                "second": {"dataset": contrast.second, "value": contrast.values[1]},
                "difference": contrast.difference,
            }
            for contrast in report.contrasts
        ],
        "changes": [_change(change) for change in report.numbers.changes],
        "bottlenecks": [asdict(bottleneck) for bottleneck in report.numbers.bottlenecks],
        "averages": [
            {"rate": rate, "variant": variant, "datasets": rows.by_dataset, "models": rows.by_model}
            for rate, variant, rows in report.averages
        ],
        **score_lines.as_dict(report),
        **summary.as_dict(run, report.numbers.judged),
        "oddities": [asdict(oddity) for oddity in report.oddities],
        "cost": str(report.cost),
        "estimated": report.estimated,
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "name": rate.name,
        "label": str(rate.label),
        "rule": str(rate.rule),
        "interval": rate.interval,
        "unit": rate.unit,
        "arm": rate.arm,
        "weights": dict(rate.weights),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    values = asdict(comparison)
    first, second = values.pop("rates")
    value = values.pop("value")
    return {**({"value": value} if value else {}), **values, "first_rate": first, "second_rate": second}


def _change(change: Change) -> dict[str, Any]:
    values = asdict(change)
    first, second = values.pop("rates")
    return {**values, **values.pop("moves"), "first_rate": first, "second_rate": second}


def _row(row: Row) -> dict[str, Any]:
    """All rates by name. The first is also given on its own, as once it was the only one."""
    return {
        "endpoint": row.endpoint,
        "dataset": row.dataset,
        **({"value": row.value, "label": row.label} if row.value else {}),
        **_measured(row.measured),
        "rates": {name: {"value": measured.value, **_measured(measured)} for name, measured in row.rates.items()},
        "verdicts": dict(sorted(row.verdicts.items())),
    }


def _measured(measured: MeasuredRate) -> dict[str, Any]:
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


RATE_COLUMNS = {
    "facet": "",
    "value": "",
    "endpoint": "",
    "dataset": "",
    "rate": "",
    "share": "rate",
    "low": "low",
    "high": "high",
    "numerator": "numerator",
    "denominator": "denominator",
    "left_out": "unjudged",
    "method": "method",
    "clusters": "clusters",
    "n": "n",
    "best": "best",
    "worst": "worst",
}
COMPARISON_COLUMNS = (
    "facet", "value", "dataset", "rate", "first", "second", "first_rate", "second_rate", "difference", "low", "high", "p",
    "p_adjusted", "odds_ratio", "cohens_h", "only_first", "only_second", "p_samples", "clusters", "n", "planned",
    "corrected_difference", "corrected_low", "corrected_high", "corrected_p", "corrected_p_adjusted",
)  # fmt: skip
ENDING_COLUMNS = ("endpoint", "dataset", "kind", "responses", "criteria", "counted", "rule")
CHANGE_COLUMNS = (
    "label", "rate", "first", "second", "endpoint", "first_rate", "second_rate", "gain", "low", "high", "p", "p_adjusted",
    "clusters", *MOVES, "fix_rate", "break_rate",
)  # fmt: skip
CHANGES = "changes"
# CSV tables besides the breakdowns.
COMPARISONS, OUTCOMES, OVERALL = "comparisons", "outcomes", "overall"


def as_csv(report: Report, table: str = "") -> str:
    """The rates of the report, a line for each rate of each row; undefined values are empty.

    `facet` and `value` are empty for rates over all criteria. `table`: only 'overall' or one
    breakdown; or 'comparisons', 'outcomes', 'changes' or 'scores', which have other columns.
    """
    return csv_text.table(_csv_rows(report, table))


def _corrected(report: Report) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    """Rate, data set and models -> the columns of the difference corrected by physicians."""
    validation = summary.validation(report.run) or {"rate": "", "comparisons": []}
    return {
        (validation["rate"], row["dataset"], row["first"], row["second"]): {
            f"corrected_{'difference' if name == 'value' else name}": value for name, value in row["corrected"].items()
        }
        for row in validation["comparisons"]
    }


def _csv_rows(report: Report, table: str) -> Iterator[Sequence[object]]:
    if table == COMPARISONS:
        yield COMPARISON_COLUMNS
        corrected = _corrected(report)
        for facet, comparisons in {"": report.numbers.comparisons, **report.numbers.cells}.items():
            for item in comparisons:
                line = {"facet": facet, **_comparison(item)}
                if not facet:
                    line |= corrected.get((item.rate, item.dataset, item.first, item.second), {})
                yield [line.get(column) for column in COMPARISON_COLUMNS]
    elif table == CHANGES:
        yield CHANGE_COLUMNS
        yield from ([_change(item).get(column) for column in CHANGE_COLUMNS] for item in report.numbers.changes)
    elif table == OUTCOMES:
        yield ENDING_COLUMNS
        yield from ([getattr(item, column) for column in ENDING_COLUMNS] for item in report.numbers.endings)
    elif table == score_lines.SCORES:
        yield score_lines.SCORE_COLUMNS
        yield from score_lines.csv_rows(report)
    else:
        yield list(RATE_COLUMNS)
        for facet, rows in {"": report.overall, **report.facets}.items():
            for row in rows if not table or table == (facet or OVERALL) else ():
                for name, measured in row.rates.items():
                    if measured.is_empty:
                        continue
                    values = _measured(measured)
                    shares = (values[column] for column in RATE_COLUMNS.values() if column)
                    yield [facet, row.value, row.endpoint, row.dataset, name, *shares]


def tables(report: Report) -> list[str]:
    """The names of tables that `as_csv` can write separately."""
    scores = [score_lines.SCORES] if report.protocol.scores else []
    return [OVERALL, COMPARISONS, OUTCOMES, CHANGES, *scores, *report.facets]


def as_json(report: Report) -> str:
    """The report as one JSON object on one line."""
    return json.dumps(as_dict(report), ensure_ascii=False)


# File extension -> the function that writes the report, and the media type.
FORMATS = {
    "json": (as_json, "application/json"),
    "md": (as_markdown, "text/markdown; charset=utf-8"),
    "latex": (as_latex, "text/x-tex; charset=utf-8"),
    "csv": (as_csv, "text/csv; charset=utf-8"),
}
