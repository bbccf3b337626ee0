"""A report as JSON and CSV, each number with numerator, denominator, interval and exclusions."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

from django.utils.translation import override

from evaluation.judges import summary
from evaluation.metrics import MeasuredRate
from evaluation.numbers import values
from evaluation.numbers.counting import OutcomeCount
from evaluation.numbers.held_out import HeldOutGap
from evaluation.reports import score_lines
from evaluation.reports.documents import SIMULATED, as_latex
from evaluation.reports.documents import as_markdown as as_markdown
from evaluation.reports.headlines import answer
from evaluation.reports.queries import Report
from evaluation.runs.queries import models_asked
from review.common import csv_text
from review.rules.shown_fields import shown_values


def as_dict(report: Report) -> dict[str, Any]:
    """The report as JSON-serializable values; rates are null if nothing was counted."""
    run = report.run
    with override("en"):
        said = answer(report, report.planned_rate)
    judge = judge_model = None
    if run.judge:
        judge, judge_model = run.judge.name, run.judge.model
    notice = {}
    if report.simulated:
        notice = {"notice": SIMULATED}
    left_out = []
    for each in report.left_out:
        left_out.append({**shown_values(each), "at": str(each.left_out_at)})
    return {
        "answer": {"sentences": list(said.sentences), "citation": said.citation},
        "run": run.pk,
        "release": run.release.name,
        "release_version": run.release.version,
        "release_sha256": run.release.sha256,
        "benchmark": run.release.benchmark,
        "judge": judge,
        "judge_model": judge_model,
        "judge_temperature": run.judge_temperature,
        "sampling": run.sampling,
        "prompts": run.prompts,
        "prompts_sha256": run.prompts_sha256,
        "seed": run.seed,
        "models": list(map(asdict, models_asked(run))),
        "finished": report.finished,
        "simulated": report.simulated,
        **notice,
        "simulated_reviewers": bool(run.release.simulated_samples),
        "datasets": [{"name": name, "label": label} for name, label in report.datasets],
        "endpoints": list(report.endpoints),
        "left_out": left_out,
        "common_samples": report.options.common,
        **values.as_dict(report.numbers, report.protocol, report.plan, common=report.options.common),
        **summary.as_dict(run, report.numbers.judged),
        "oddities": list(map(asdict, report.oddities)),
        "unread": asdict(report.unread),
        "undecided_reports": report.undecided,
        "cost": str(run.cost),
        "estimated": run.estimated,
    }


RATE_COLUMNS = (
    "facet", "value", "endpoint", "dataset", "rate", "share", "low", "high", "numerator", "denominator", "left_out",
    "method", "clusters", "n", "best", "worst",
)  # fmt: skip
CHANGE_COLUMNS = (
    "label", "rate", "first", "second", "endpoint", "first_rate", "second_rate", "gain", "low", "high", "p", "p_adjusted",
    "clusters", "kept", "broken", "fixed", "stayed", "fix_rate", "break_rate",
)  # fmt: skip
COMPARISON_COLUMNS = (
    "facet", "value", "dataset", "rate", "first", "second", "first_rate", "second_rate", "difference", "low", "high", "p",
    "p_adjusted", "odds_ratio", "cohens_h", "only_first", "only_second", "p_samples", "clusters", "n", "planned", "role",
    "corrected_difference", "corrected_low", "corrected_high", "corrected_p", "corrected_p_adjusted",
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
    corrected = {}
    for row in validation["comparisons"]:
        columns = {}
        for name, value in row["corrected"].items():
            if name == "value":
                name = "difference"
            columns[f"corrected_{name}"] = value
        corrected[validation["rate"], row["dataset"], row["first"], row["second"]] = columns
    return corrected


def _csv_rows(report: Report, table: str) -> Iterator[Sequence[object]]:
    if table == COMPARISONS:
        yield COMPARISON_COLUMNS
        corrected = _corrected(report)
        for facet, comparisons in {"": report.numbers.comparisons, **report.numbers.cells}.items():
            for item in comparisons:
                line = {"facet": facet, **values.as_comparison(item)}
                if not facet:
                    line |= corrected.get((item.rate, item.dataset, item.first, item.second), {})
                yield _line(COMPARISON_COLUMNS, line)
    elif table == CHANGES:
        yield CHANGE_COLUMNS
        for change in report.numbers.changes:
            yield _line(CHANGE_COLUMNS, shown_values(change))
    elif table == PUBLIC:
        yield from _with_head(HeldOutGap, report.numbers.held_out)
    elif table == OUTCOMES:
        yield from _with_head(OutcomeCount, report.numbers.endings)
    elif table == score_lines.SCORES:
        yield score_lines.SCORE_COLUMNS
        yield from score_lines.csv_rows(report)
    else:
        yield RATE_COLUMNS
        for facet, rows in {"": report.numbers.overall, **report.numbers.facets}.items():
            if table not in ("", facet or OVERALL):
                continue
            for row in rows:
                for name, measured in row.rates.items():
                    if not measured.is_empty:
                        yield [facet, row.value, row.endpoint, row.dataset, name, *_share(measured)]


def _with_head(kind: type[HeldOutGap | OutcomeCount], rows: Iterable[Any]) -> Iterator[Sequence[object]]:
    """The names of the fields, then the values of each row."""
    yield [column.name for column in fields(kind)]
    for row in rows:
        yield astuple(row)


def _share(rate: MeasuredRate) -> list[object]:
    """The columns of a rate, from `share`."""
    counted = [rate.numerator, rate.denominator, rate.excluded, rate.method, rate.clusters, rate.n]
    return [rate.value, rate.low, rate.high, *counted, rate.best, rate.worst]


def _line(columns: Sequence[str], values: Mapping[str, object]) -> list[object]:
    return [values.get(column) for column in columns]


def tables(report: Report) -> list[str]:
    """The names of tables that `as_csv` can write separately."""
    scores = []
    if report.protocol.scores:
        scores = [score_lines.SCORES]
    return [OVERALL, COMPARISONS, OUTCOMES, CHANGES, PUBLIC, *scores, *report.numbers.facets]


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
