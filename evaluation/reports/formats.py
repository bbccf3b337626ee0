"""A report as JSON and CSV, each number with numerator, denominator, interval and exclusions."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

from django.utils.translation import override

from evaluation.judges import summary
from evaluation.reports import score_lines
from evaluation.reports.answer import answer
from evaluation.reports.documents import SIMULATED, as_latex
from evaluation.reports.documents import as_markdown as as_markdown
from evaluation.reports.numbers import values
from evaluation.reports.numbers.changes import MOVES
from evaluation.reports.numbers.held_out import HeldOutGap
from evaluation.reports.queries import Report
from evaluation.runs.queries import models_asked
from review.common import csv_text


def as_dict(report: Report) -> dict[str, Any]:
    """The report as JSON-serializable values; rates are null if nothing was counted."""
    run = report.run
    with override("en"):
        said = answer(report, report.planned_rate)
    return {
        "answer": {"sentences": list(said.sentences), "citation": said.citation},
        "run": run.pk,
        "release": run.release.name,
        "release_version": run.release.version,
        "release_sha256": run.release.sha256,
        "benchmark": run.release.benchmark,
        "judge": run.judge.name if run.judge else None,
        "judge_model": run.judge.model if run.judge else None,
        "judge_temperature": run.judge_temperature,
        "sampling": run.sampling,
        "prompts": run.prompts,
        "prompts_sha256": run.prompts_sha256,
        "models": [asdict(model) for model in models_asked(run)],
        "seed": run.seed,
        "finished": report.finished,
        "simulated": report.simulated,
        **({"notice": SIMULATED} if report.simulated else {}),
        "simulated_reviewers": bool(run.release.simulated_samples),
        "datasets": [{"name": name, "label": label} for name, label in report.datasets],
        "endpoints": list(report.endpoints),
        "left_out": [
            {
                "endpoint": each.endpoint.name,
                "role": each.role,
                "at": str(each.left_out_at),
                "because": each.left_out_because,
            }
            for each in report.left_out
        ],
        "common_samples": report.options.common,
        **values.as_dict(report.numbers, report.protocol, report.plan, report.endpoints, common=report.options.common),
        **summary.as_dict(run, report.numbers.judged),
        "oddities": [asdict(oddity) for oddity in report.oddities],
        "unread": asdict(report.unread),
        "cost": str(report.cost),
        "estimated": report.estimated,
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
    "p_adjusted", "odds_ratio", "cohens_h", "only_first", "only_second", "p_samples", "clusters", "n", "planned", "role",
    "corrected_difference", "corrected_low", "corrected_high", "corrected_p", "corrected_p_adjusted",
)  # fmt: skip
ENDING_COLUMNS = ("endpoint", "dataset", "kind", "responses", "criteria", "counted", "rule")
CHANGE_COLUMNS = (
    "label", "rate", "first", "second", "endpoint", "first_rate", "second_rate", "gain", "low", "high", "p", "p_adjusted",
    "clusters", *MOVES, "fix_rate", "break_rate",
)  # fmt: skip
CHANGES, PUBLIC = "changes", "held-out"
# CSV tables besides the breakdowns.
COMPARISONS, OUTCOMES, OVERALL = "comparisons", "outcomes", "overall"


def as_csv(report: Report, table: str = "") -> str:
    """The rates of the report, a line for each rate of each row; undefined values are empty.

    `facet` and `value` are empty for rates over all criteria. `table`: only 'overall' or one
    breakdown; or 'comparisons', 'outcomes', 'changes', 'held-out' or 'scores', which have other
    columns.
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
                line = {"facet": facet, **values.as_comparison(item)}
                if not facet:
                    line |= corrected.get((item.rate, item.dataset, item.first, item.second), {})
                yield [line.get(column) for column in COMPARISON_COLUMNS]
    elif table == CHANGES:
        yield CHANGE_COLUMNS
        yield from (
            [values.as_change(item).get(column) for column in CHANGE_COLUMNS] for item in report.numbers.changes
        )
    elif table == PUBLIC:
        yield [column.name for column in fields(HeldOutGap)]
        yield from (list(asdict(gap).values()) for gap in report.numbers.held_out)
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
                    of_rate = values.as_measured(measured)
                    shares = (of_rate[column] for column in RATE_COLUMNS.values() if column)
                    yield [facet, row.value, row.endpoint, row.dataset, name, *shares]


def tables(report: Report) -> list[str]:
    """The names of tables that `as_csv` can write separately."""
    scores = [score_lines.SCORES] if report.protocol.scores else []
    return [OVERALL, COMPARISONS, OUTCOMES, CHANGES, PUBLIC, *scores, *report.facets]


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
