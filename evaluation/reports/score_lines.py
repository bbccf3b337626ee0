"""Scores beside verdicts as table lines, box plots, and values in files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from evaluation.numbers.scoring import MeasuredScore, ScoreRow
from evaluation.protocol import ScoreRule
from evaluation.reports.queries import Report
from review.charts.boxes import Box, BoxChart, boxes
from review.charts.text_measure import format_share
from review.common import text_tables
from review.rules.shown_fields import shown_values

SCORES = "scores"  # name of the CSV table
SCORE_COLUMNS = ("facet", "value", "endpoint", "dataset", "score", "n", "without", "mean", "low", "high", "sd", "clusters",
           "p5", "q1", "median", "q3", "p95")  # fmt: skip


ScoreLine = tuple[ScoreRow, ScoreRule, MeasuredScore]
ScoreTable = tuple[str, tuple[ScoreLine, ...]]


@dataclass(frozen=True, slots=True)
class ScoreFigures:
    """The scores on a report page: their rules, a box plot of each, and tables."""

    rules: tuple[tuple[str, str], ...]
    charts: tuple[BoxChart, ...]
    tables: tuple[ScoreTable, ...]  # '' overall, or the label of a breakdown; its lines


def score_figures(report: Report) -> ScoreFigures | None:
    """The scores of a report page; None without scores, or before any is counted."""
    rules = report.protocol.scores
    if not rules or not report.numbers.scores:
        return None
    tables = [("", score_lines(report, report.numbers.scores))]
    for view in report.numbers.views:
        if rows := report.numbers.score_facets.get(view.name):
            tables.append((gettext(view.label), score_lines(report, rows)))
    return ScoreFigures(
        rules=tuple([(gettext(rule.label), gettext(rule.rule)) for rule in rules]),
        charts=tuple([_chart(report, rule) for rule in rules]),
        tables=tuple(tables),
    )


def _chart(report: Report, rule: ScoreRule) -> BoxChart:
    labels = dict(report.datasets)
    several = len(report.datasets) > 1
    rows = []
    for row in report.numbers.scores:
        score = row.scores[rule.name]
        if several:
            label = f"{row.endpoint}: {gettext(labels[row.dataset])}"
        else:
            label = row.endpoint
        rows.append(Box(label, score.box, score.mean, format_interval(score) or gettext("too few"), score.n))
    return boxes(rows, low=rule.low, high=rule.high, name=f"boxes-{rule.name}", title=gettext(rule.label))


def score_lines(report: Report, rows: Sequence[ScoreRow]) -> tuple[ScoreLine, ...]:
    """A line for each score of each row, without values of a breakdown that have no scores."""
    lines = []
    for row in rows:
        for rule in report.protocol.scores:
            score = row.scores[rule.name]
            if score.n or not row.value:
                lines.append((row, rule, score))
    return tuple(lines)


def quartiles(score: MeasuredScore) -> str:
    """'0.120 / 0.150 / 0.180'; '' if there are none."""
    return " / ".join([format_share(quartile, percent=False) for quartile in score.box[1:4]])


def format_interval(score: MeasuredScore) -> str:
    """'0.120–0.180'; '' if there is none."""
    if score.low is None or score.high is None:
        return ""
    return f"{score.low:.3f}–{score.high:.3f}"


def csv_rows(report: Report) -> list[list[Any]]:
    """A line for each score of each row, under `SCORE_COLUMNS`."""
    result = []
    for facet, rows in {"": report.numbers.scores, **report.numbers.score_facets}.items():
        for row in rows:
            for name, score in row.scores.items():
                key = {"facet": facet, "value": row.value, "endpoint": row.endpoint, "dataset": row.dataset}
                line = {**key, "score": name, **shown_values(score)}
                result.append([line[column] for column in SCORE_COLUMNS])
    return result


def as_markdown(report: Report) -> list[str]:
    """The section of scores; empty if there are none."""
    figures = score_figures(report)
    if figures is None:
        return []
    lines = ["", "## Scores", ""]
    lines += [f"{label}: {rule}" for label, rule in figures.rules]
    datasets = dict(report.datasets)
    for label, table in figures.tables:
        head = ["Model", "Data set", "Score", "Mean", "95 % interval", "Quartiles", "N", "Without"]
        if label:
            head.insert(2, label)
        rows = []
        for row, rule, score in table:
            interval = format_interval(score) or "–"
            if score.too_few:
                interval = "too few"
            place = [row.endpoint, datasets[row.dataset]]
            if label:
                place.append(row.label)
            mean = format_share(score.mean, percent=False) or "–"
            rows.append((*place, rule.label, mean, interval, quartiles(score) or "–", score.n, score.without))
        if label:
            lines += ["", f"### {label}"]
        lines += ["", *text_tables.markdown(head, rows)]
    return lines


def means(report: Report) -> tuple[list[object], list[list[object]]]:
    """Head and rows of a table: models by data set, with the mean of each score and N."""
    labels, rules = dict(report.datasets), report.protocol.scores
    rows: list[list[object]] = []
    for row in report.numbers.scores:
        shares = [format_share(row.scores[rule.name].mean, percent=False) or "–" for rule in rules]
        n = max([score.n for score in row.scores.values()])
        rows.append([row.endpoint, gettext(labels[row.dataset]), *shares, n])
    return ["Model", "Data set", *[rule.label for rule in rules], "N"], rows
