"""The charts of a report as files, found by their names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from django.utils.translation import gettext

from evaluation.reports.figures import ReportFigures, Section
from evaluation.reports.headlines import run_dates
from evaluation.reports.paper_layout import PaperView
from evaluation.reports.queries import Report
from review.charts.bars import BarChart
from review.charts.boxes import BoxChart
from review.charts.flow import FlowChart
from review.charts.heat_map import HeatMap
from review.charts.radar import RadarChart
from review.charts.standalone import Chart, svg
from review.common import csv_text

CHARTS = (BarChart, BoxChart, HeatMap, RadarChart)


@dataclass(frozen=True, slots=True)
class NamedChart:
    """A chart with a description: its rate, and its facet if it has one."""

    chart: Chart
    shows: str


def chart_named(figures: ReportFigures, name: str, of_paper: Sequence[PaperView] = ()) -> NamedChart | None:
    """The chart of this name in the figures, or in those of the paper; None if there is none."""
    for named in _charts(figures, gettext(figures.rate.label)):
        if named.chart.name == name:
            return named
    for view in of_paper:
        for chart in view.charts:
            if chart.name == name:
                return NamedChart(chart, view.filled.table.title)
    return None


def _charts(value: Any, shows: str) -> Iterator[NamedChart]:
    if isinstance(value, CHARTS):
        yield NamedChart(value, shows)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _charts(item, shows)
    elif is_dataclass(value):
        if isinstance(value, Section):
            shows = f"{gettext(value.rate.label)}, {value.label}"
        for field in fields(value):
            yield from _charts(getattr(value, field.name), shows)


def as_svg(report: Report, named: NamedChart) -> str:
    """The chart as a self-contained SVG, with warnings about simulated or partial data."""
    run, chart = report.run, named.chart
    notes = [
        gettext("Run %(n)s on %(release)s, SHA-256 %(sha)s…")
        % {"n": run.pk, "release": run.release, "sha": run.release.sha256[:12]},
        run_dates(run),
    ]
    if report.simulated:
        notes.append(gettext("Simulated models: not evidence"))
    if run.release.simulated_samples:
        notes.append(gettext("Simulated reviewers: not evidence"))
    if not report.finished:
        notes.append(gettext("Results so far: unfinished items count as not judged."))
    title = named.shows
    if chart.title:
        title = f"{named.shows}: {chart.title}"
    return svg(chart, title, notes)


def as_csv(chart: Chart) -> str:
    """The numbers of the chart: shares from 0 to 1, or counts; empty where nothing is drawn."""
    return csv_text.table(_csv_rows(chart))


def _csv_rows(chart: Chart) -> Iterator[Sequence[object]]:
    if isinstance(chart, BarChart) and chart.ticks:
        yield "label", "series", "value", "low", "high", "numerator", "denominator"
        for mark in chart.marks:
            shares: list[object] = ["", "", ""]
            if mark.text:
                shares = [_share(position) for position in (mark.width, mark.low, mark.high)]
            counts = ["", ""]
            if mark.count:
                counts = mark.count.split("/")
            yield mark.label, mark.series, *shares, *counts
    elif isinstance(chart, BarChart):
        yield "label", "series", "count"
        for mark in chart.marks:
            yield mark.label, mark.series, mark.text
    elif isinstance(chart, BoxChart):
        yield "label", "n", "mean", "p5", "q1", "median", "q3", "p95"
        for drawn in chart.marks:
            box = drawn.box
            yield box.label, box.count, _number(drawn.text), *[round(item, 4) for item in box.parts]
    elif isinstance(chart, FlowChart):
        yield "before", "after", "what", "count"
        states = [node.label for node in chart.nodes[: len(chart.nodes) // 2]]
        for stream in chart.streams:
            yield states[stream.before], states[stream.after], stream.label, stream.count
    elif isinstance(chart, HeatMap):
        yield "row", "column", "value"
        for label, cells in chart.rows:
            for column, cell in zip(chart.columns, cells, strict=True):
                yield label, column, cell.value
    else:
        yield "axis", "series", "value"
        for axis in chart.axes:
            for shape in chart.shapes:
                value = None
                for point in shape.points:
                    if point.axis == axis.label:
                        value = point.value
                        break
                yield axis.label, shape.sign.label, value


def _share(position: float | None) -> float | None:
    """The share from 0 to 1 at a position on the scale."""
    if position is None:
        return None
    return round(position / 100, 4)


def _number(text: str) -> float | str:
    """A number as such: as a text, a negative one would look like a formula."""
    try:
        return float(text)
    except ValueError:
        return text
