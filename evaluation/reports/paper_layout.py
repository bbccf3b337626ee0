"""A report in the layout of the benchmark's paper: its tables and figures, beside its numbers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, override

from evaluation import registry
from evaluation.numbers.counting import RateRow
from evaluation.numbers.rules import COMBINED
from evaluation.published import FilledRow, FilledTable, PaperColumn, filled, has_number
from evaluation.reports.documents import SIMULATED, SIMULATED_REVIEWERS
from evaluation.reports.queries import Report, samples_by_task, shares_of_samples
from review.charts.bars import Bar, BarChart, bars
from review.charts.radar import MIN_AXES, RadarChart, Series, radar
from review.charts.text_measure import MAX_SERIES
from review.common import csv_text, text_tables

PUBLISHED, OWN = "paper", "this run"


@dataclass(frozen=True, slots=True)
class PaperView:
    """A table as a page shows it, with the charts of a figure."""

    filled: FilledTable
    charts: tuple[BarChart | RadarChart, ...]

    @property
    def template(self) -> str:
        """The template of each of its charts."""
        return f"review/charts/{self.filled.table.drawn}.html"


def views(tables: Sequence[FilledTable]) -> tuple[PaperView, ...]:
    """The tables as a page shows them."""
    shown = []
    for place, each in enumerate(tables):
        shown.append(PaperView(each, tuple(_charts(each, f"paper-{place}"))))
    return tuple(shown)


def _charts(each: FilledTable, name: str) -> Iterator[BarChart | RadarChart]:
    if each.table.drawn == "radar":
        yield from _radars(each, name)
    elif each.table.drawn == "bars" and _is_of_samples(each.table.columns):
        yield from _bars_of_samples(each, name)
    elif each.table.drawn == "bars":
        yield from _bars(each, name)


def _bars_of_samples(each: FilledTable, name: str) -> Iterator[BarChart]:
    """A chart for each row, with a bar for each column."""
    for place, row in enumerate(each.rows):
        marks = []
        for column, value in zip(each.table.columns, row.values, strict=True):
            if value is not None:
                marks.append(Bar(column.label, value))
        yield bars(marks, name=f"{name}-{place}", title=row.model)


def _bars(each: FilledTable, name: str) -> Iterator[BarChart]:
    """A chart for each column, with a bar for each row."""
    for place, column in enumerate(each.table.columns):
        marks = []
        for row in each.rows:
            value = row.values[place]
            if value is not None:
                marks.append(Bar(_name(row), value, percent=False, hollow=row.published))
        if marks:
            yield bars(marks, name=f"{name}-{place}", title=column.label)


def _radars(each: FilledTable, name: str) -> Iterator[RadarChart]:
    """A chart for each group of columns: shapes are rows, spokes are columns with a number."""
    rows = [row for row in each.rows if not row.mean]
    spokes_of: dict[str, list[int]] = {}  # the places of the columns of each group
    for index, column in enumerate(each.table.columns):
        spokes = spokes_of.setdefault(column.group, [])
        if has_number([row.values[index] for row in rows]):
            spokes.append(index)
    for place, (group, spokes) in enumerate(spokes_of.items()):
        if len(spokes) < MIN_AXES or len(rows) > MAX_SERIES:
            continue
        axes = [each.table.columns[index].heading for index in spokes]
        shapes = []
        for row in rows:
            shapes.append(Series(_name(row), [row.values[index] for index in spokes]))
        yield radar(axes, shapes, name=f"{name}-{place}", title=group, percent=False)


def _name(row: FilledRow) -> str:
    if row.published:
        return f"{row.model} ({gettext('paper')})"
    return row.model


def paper_tables(report: Report) -> tuple[FilledTable, ...]:
    """The tables of the paper, with the report's models where it has numbers for them."""
    tables = registry.published(report.run.release.benchmark)
    return tuple([filled(table, own_numbers(report, table.columns)) for table in tables])


def own_numbers(report: Report, columns: Sequence[PaperColumn]) -> dict[str, list[float | None]]:
    """Model -> its number for each column, where it has any; of samples, one row for all models."""
    if _is_of_samples(columns):
        values = [_of_samples(report, column) for column in columns]
        about = gettext("samples of this release")
        if "drafts" in _measures(columns):
            about = gettext("all drafts of this release's batches")
        if has_number(values):
            return {about: values}
        return {}
    own = {}
    for endpoint in report.endpoints:
        values = [_number(report, endpoint, column) for column in columns]
        if has_number(values):
            own[endpoint] = values
    if own and all(column.measure == "errors" and column.facet for column in columns):
        own[gettext("all samples of this release")] = _distribution(report, columns)
    return own


def _of_samples(report: Report, column: PaperColumn) -> float | None:
    """The number of a column about samples; None for a share of none."""
    release = report.run.release
    by_task = samples_by_task(release)
    if column.measure == "drafts":
        shares: Mapping[str, tuple[int, int]] = release.about.get("draft_shares", {}).get(column.name, {})
        hits, total = shares.get(column.value, (0, 0))
    elif column.facet:
        hits, total = shares_of_samples(release, column.facet, column.name).get(column.value, (0, 0))
    else:
        hits = total = by_task.get(column.value, 0)
    if column.measure == "count":
        return float(total)
    if column.measure == "share":
        hits, total = total, by_task[""]
    if total:
        return hits / total
    return None


def _distribution(report: Report, columns: Sequence[PaperColumn]) -> list[float | None]:
    """The share of the release's samples with each column's facet value, to compare errors with."""
    counts = []
    for column in columns:
        shares = shares_of_samples(report.run.release, column.facet, "")
        _hits, count = shares.get(column.value, (0, 0))
        counts.append(count)
    total = sum(counts)
    if not total:
        return [None] * len(counts)
    return [count / total for count in counts]


def _measures(columns: Sequence[PaperColumn]) -> set[str]:
    return {column.measure for column in columns}


def _is_of_samples(columns: Sequence[PaperColumn]) -> bool:
    """Whether a table is about samples and not about models."""
    return _measures(columns) <= {"samples", "count", "share", "drafts"}


def _number(report: Report, endpoint: str, column: PaperColumn) -> float | None:
    """What a column shows of a model; None where the report has no such number."""
    dataset = column.dataset or report.protocol.whole([name for name, _label in report.datasets])
    match column.measure:
        case "printed":
            return None
        case "rate":
            row = _row(report, endpoint, dataset, column)
            if row and column.name in row.rates:
                return row.rates[column.name].value
            return None
        case "score" | "scored":
            for each in report.numbers.scores:
                if (each.endpoint, each.dataset) == (endpoint, dataset) and column.name in each.scores:
                    measured = each.scores[column.name]
                    if column.measure == "score":
                        return measured.mean
                    return float(measured.n)
            return None
        case "errors":
            of_whole = {dataset}
            if not column.facet:
                of_whole = dict(report.datasets).keys() - {COMBINED}
            total = 0
            for part in _rows(report, column):
                if part.endpoint == endpoint and part.dataset in of_whole:
                    total += _errors(report, part)
            if total:
                return _errors(report, _row(report, endpoint, dataset, column)) / total
            return None
    for change in report.numbers.changes:
        if (change.first, change.endpoint, change.rate) == (dataset, endpoint, column.name):
            return {"gain": change.gain, "fixed": change.fix_rate, "broken": change.break_rate}[column.measure]
    return None


def _rows(report: Report, column: PaperColumn) -> Sequence[RateRow]:
    """The rows of a column's facet, or those of all data sets."""
    if column.facet:
        return report.numbers.facets.get(column.facet, ())
    return report.numbers.overall


def _row(report: Report, endpoint: str, dataset: str, column: PaperColumn) -> RateRow | None:
    for row in _rows(report, column):
        if (row.endpoint, row.dataset, row.value) == (endpoint, dataset, column.value):
            return row
    return None


def _errors(report: Report, row: RateRow | None) -> int:
    """The verdicts of a row that count against the model."""
    errors = 0
    if row:
        for verdict in report.protocol.failing_verdicts:
            errors += row.verdicts.get(verdict, 0)
    return errors


@override("en")
def as_markdown(report: Report) -> str:
    """Each table of the paper in Markdown."""
    lines = [f"# {report.run.release}: in the layout of the paper", ""]
    lines += [f"> **{notice}**" for notice in _notices(report)]
    for each in paper_tables(report):
        lines += [
            "",
            f"## {each.table.name}. {each.table.title}",
            "",
            f"{each.table.place}. {each.table.note}".strip(),
            "",
        ]
        lines += text_tables.markdown(_head(each), _cells(each), numbers=len(each.table.columns))
    return "\n".join(lines) + "\n"


def as_csv(report: Report) -> str:
    """All tables as one, a line for each number."""
    rows: list[Sequence[object]] = [("table", "group", "model", "from", "column", "value")]
    for each in paper_tables(report):
        for row in each.rows:
            source = OWN
            if row.published:
                source = PUBLISHED
            for column, cell in zip(each.table.columns, row.cells, strict=True):
                number = cell.replace(",", "")
                if cell == "–":
                    number = ""
                rows.append((each.table.name, row.group, row.model, source, column.label, number))
    return csv_text.table(rows)


def as_json(report: Report) -> str:
    """The tables as JSON, with the numbers as they are printed."""
    tables = [_table_values(each) for each in paper_tables(report)]
    return json.dumps({"run": report.run.pk, "simulated": report.simulated, "tables": tables}, ensure_ascii=False)


def _table_values(each: FilledTable) -> dict[str, Any]:
    table = each.table
    return {
        "name": table.name,
        "title": table.title,
        "place": table.place,
        "note": table.note,
        "columns": table.labels,
        "rows": [_row_values(row) for row in each.rows],
    }


def _row_values(row: FilledRow) -> dict[str, Any]:
    return {
        "group": row.group,
        "model": row.model,
        "published": row.published,
        "mean": row.mean,
        "values": row.cells,
    }


def as_latex(report: Report) -> str:
    """Each table of the paper in LaTeX, with booktabs."""
    lines = ["% needs \\usepackage{booktabs}"]
    for each in paper_tables(report):
        notices = " ".join(_notices(report))
        caption = f"{each.table.name}. {each.table.title}. {each.table.place}. {each.table.note} {notices}".strip()
        lines += text_tables.latex(caption, _head(each), _cells(each))
    return "\n".join(lines) + "\n"


def _head(each: FilledTable) -> list[str]:
    group = []
    if each.table.groups:
        group = ["Group"]
    return [*group, "Model", "From", *each.table.labels]


def _cells(each: FilledTable) -> list[list[str]]:
    lines = []
    for row in each.rows:
        cells = [row.model, OWN, *row.cells]
        if row.published:
            cells[1] = PUBLISHED
        if each.table.groups:
            cells.insert(0, row.group)
        lines.append(cells)
    return lines


def _notices(report: Report) -> list[str]:
    notices = []
    if report.simulated:
        notices.append(SIMULATED)
    if report.run.release.simulated_samples:
        notices.append(SIMULATED_REVIEWERS)
    if not report.finished:
        notices.append("Results so far.")
    return notices


FORMATS = {"md": as_markdown, "csv": as_csv, "json": as_json, "latex": as_latex}
