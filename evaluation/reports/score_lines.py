"""Scores beside verdicts as table lines, box plots, and values in files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from evaluation.reports.numbers.scoring import MeasuredScore, ScoreRow
from evaluation.reports.queries import Report
from review.charts.boxes import Box, BoxChart, boxes

SCORES = "scores"  # name of the CSV table
COLUMNS = ("facet", "value", "endpoint", "dataset", "score", "n", "without", "mean", "low", "high", "sd", "clusters",
           "p5", "q1", "median", "q3", "p95")  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One score of one model on one data set, formatted."""

    endpoint: str
    dataset: str
    value: str
    score: str
    mean: str
    interval: str
    quartiles: str
    too_few: bool
    n: int
    without: int


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The lines of one breakdown; `label` is empty overall."""

    label: str
    lines: tuple[ScoreLine, ...]


@dataclass(frozen=True, slots=True)
class ScoreFigures:
    """The scores on a report page: their rules, a box plot of each, and tables."""

    rules: tuple[tuple[str, str], ...]
    charts: tuple[BoxChart, ...]
    tables: tuple[ScoreTable, ...]


def score_figures(report: Report) -> ScoreFigures | None:
    """The scores of a report page; None without scores, or before any is counted."""
    rules = report.protocol.scores
    if not rules or not report.numbers.scores:
        return None
    views = [view for view in report.views if report.numbers.score_facets.get(view.name)]
    tables = [ScoreTable("", score_lines(report, report.numbers.scores))]
    tables += [
        ScoreTable(gettext(view.label), score_lines(report, report.numbers.score_facets[view.name])) for view in views
    ]
    return ScoreFigures(
        rules=tuple((gettext(rule.label), gettext(rule.rule)) for rule in rules),
        charts=tuple(_chart(report, rule) for rule in rules),
        tables=tuple(tables),
    )


def _chart(report: Report, rule: Any) -> BoxChart:
    labels = dict(report.datasets)
    several = len(report.datasets) > 1
    rows = []
    for row in report.numbers.scores:
        found = row.scores[rule.name]
        label = f"{row.endpoint}: {gettext(labels[row.dataset])}" if several else row.endpoint
        rows.append(Box(label, found.box, found.mean, format_interval(found) or gettext("too few"), found.n))
    return boxes(rows, low=rule.low, high=rule.high, name=f"boxes-{rule.name}", title=gettext(rule.label))


def score_lines(report: Report, rows: Sequence[ScoreRow]) -> tuple[ScoreLine, ...]:
    """A line for each score of each row, without values of a breakdown that have no scores."""
    labels = dict(report.datasets)
    return tuple(
        ScoreLine(
            endpoint=row.endpoint,
            dataset=gettext(labels[row.dataset]),
            value=gettext(row.label) if row.value else "",
            score=gettext(rule.label),
            mean=_figure(found.mean),
            interval=format_interval(found),
            quartiles=" / ".join(map(_figure, found.box[1:4])),
            too_few=found.too_few,
            n=found.n,
            without=found.without,
        )
        for row in rows
        for rule in report.protocol.scores
        for found in [row.scores[rule.name]]
        if found.n or not row.value
    )


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def format_interval(found: MeasuredScore) -> str:
    """'0.120–0.180'; empty where there is none."""
    return "" if found.low is None or found.high is None else f"{found.low:.3f}–{found.high:.3f}"


# Files


def as_values(row: ScoreRow) -> dict[str, Any]:
    """A row as JSON-able values."""
    about = {"endpoint": row.endpoint, "dataset": row.dataset}
    more = {"value": row.value, "label": row.label} if row.value else {}
    return {**about, **more, "scores": {name: measured(each) for name, each in row.scores.items()}}


def measured(found: MeasuredScore) -> dict[str, Any]:
    """One score with everything that was counted."""
    parts = dict(zip(("p5", "q1", "median", "q3", "p95"), found.box or (None,) * 5, strict=True))
    plain = {name: getattr(found, name) for name in ("n", "without", "mean", "low", "high", "clusters")}
    return {**plain, "sd": found.deviation, **parts}


def as_dict(report: Report) -> dict[str, Any]:
    """What the report as JSON says of scores; all of it is empty where the benchmark has none."""
    rules = [
        {"name": each.name, "label": str(each.label), "rule": str(each.rule), "low": each.low, "high": each.high}
        for each in report.protocol.scores
    ]
    facets = {name: [as_values(row) for row in rows] for name, rows in report.numbers.score_facets.items()}
    return {"score_rules": rules, "scores": [as_values(row) for row in report.numbers.scores], "score_facets": facets}


def csv_rows(report: Report) -> list[list[Any]]:
    """A line for each score of each row, under `COLUMNS`."""
    found = []
    for facet, rows in {"": report.numbers.scores, **report.numbers.score_facets}.items():
        for row in rows:
            for name, each in row.scores.items():
                about = {"facet": facet, "value": row.value, "endpoint": row.endpoint, "dataset": row.dataset}
                line = {**about, "score": name, **measured(each)}
                found.append([line[column] for column in COLUMNS])
    return found


def as_markdown(report: Report) -> list[str]:
    """The section of scores; nothing where there are none."""
    found = score_figures(report)
    if found is None:
        return []
    lines = ["", "## Scores", "", *(f"{label}: {rule}" for label, rule in found.rules)]
    for table in found.tables:
        head = ["Model", "Data set", *([table.label] if table.label else []), "Score", "Mean", "95 % interval"]
        head += ["Quartiles", "N", "Without"]
        lines += ["", *([f"### {table.label}", ""] if table.label else [])]
        lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for each in table.lines:
            cells = [each.endpoint, each.dataset, *([each.value] if table.label else []), each.score, each.mean or "–"]
            cells += ["too few" if each.too_few else each.interval or "–", each.quartiles or "–"]
            lines.append("| " + " | ".join([*cells, str(each.n), str(each.without)]) + " |")
    return lines


def latex_lines(report: Report) -> list[list[str]]:
    """Head and lines of a table for a paper: models by data set, each score as its mean with N."""
    if not report.numbers.scores:
        return []
    labels, rules = dict(report.datasets), report.protocol.scores
    lines = [["Model", "Data set", *(str(rule.label) for rule in rules), "N"]]
    for row in report.numbers.scores:
        means = [_figure(row.scores[rule.name].mean) or "–" for rule in rules]
        n = max(each.n for each in row.scores.values())
        lines.append([row.endpoint, gettext(labels[row.dataset]), *means, str(n)])
    return lines
