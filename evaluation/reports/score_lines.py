"""Scores beside verdicts as table lines, box plots, and values in files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from evaluation.reports.numbers.scoring import MeasuredScore, ScoreRow
from evaluation.reports.numbers.values import SCORE
from evaluation.reports.queries import Report
from review.charts.boxes import Box, BoxChart, boxes
from review.common import text_tables
from review.rules.shown_values import shown

SCORES = "scores"  # name of the CSV table
SCORE_COLUMNS = ("facet", "value", "endpoint", "dataset", "score", "n", "without", "mean", "low", "high", "sd", "clusters",
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
        score = row.scores[rule.name]
        label = f"{row.endpoint}: {gettext(labels[row.dataset])}" if several else row.endpoint
        rows.append(Box(label, score.box, score.mean, format_interval(score) or gettext("too few"), score.n))
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
            mean=_figure(score.mean),
            interval=format_interval(score),
            quartiles=" / ".join(map(_figure, score.box[1:4])),
            too_few=score.too_few,
            n=score.n,
            without=score.without,
        )
        for row in rows
        for rule in report.protocol.scores
        for score in [row.scores[rule.name]]
        if score.n or not row.value
    )


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def format_interval(score: MeasuredScore) -> str:
    """'0.120–0.180'; '' if there is none."""
    return "" if score.low is None or score.high is None else f"{score.low:.3f}–{score.high:.3f}"


def csv_rows(report: Report) -> list[list[Any]]:
    """A line for each score of each row, under `SCORE_COLUMNS`."""
    result = []
    for facet, rows in {"": report.numbers.scores, **report.numbers.score_facets}.items():
        for row in rows:
            for name, score in row.scores.items():
                key = {"facet": facet, "value": row.value, "endpoint": row.endpoint, "dataset": row.dataset}
                line = {**key, "score": name, **shown(score, SCORE)}
                result.append([line[column] for column in SCORE_COLUMNS])
    return result


def as_markdown(report: Report) -> list[str]:
    """The section of scores; empty if there are none."""
    figures = score_figures(report)
    if figures is None:
        return []
    lines = ["", "## Scores", "", *(f"{label}: {rule}" for label, rule in figures.rules)]
    for table in figures.tables:
        facet = [table.label] if table.label else []
        head = ["Model", "Data set", *facet, "Score", "Mean", "95 % interval", "Quartiles", "N", "Without"]
        rows = [
            (
                *(line.endpoint, line.dataset, *([line.value] if facet else []), line.score, line.mean or "–"),
                *("too few" if line.too_few else line.interval or "–", line.quartiles or "–", line.n, line.without),
            )
            for line in table.lines
        ]
        lines += ["", *([f"### {table.label}", ""] if facet else []), *text_tables.markdown(head, rows)]
    return lines


def means(report: Report) -> tuple[list[object], list[list[object]]]:
    """Head and rows of a table: models by data set, with the mean of each score and N."""
    labels, rules = dict(report.datasets), report.protocol.scores
    return ["Model", "Data set", *(rule.label for rule in rules), "N"], [
        [
            row.endpoint,
            gettext(labels[row.dataset]),
            *(_figure(row.scores[rule.name].mean) or "–" for rule in rules),
            max(score.n for score in row.scores.values()),
        ]
        for row in report.numbers.scores
    ]
