"""A report as charts and tables, with links from every number to the answers behind it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.utils.translation import gettext

from evaluation.labels import value_name
from evaluation.metrics import MeasuredRate
from evaluation.models import Response
from evaluation.numbers.averages import Contrast
from evaluation.numbers.comparing import ModelComparison, Ranking
from evaluation.numbers.counting import OutcomeCount, RateRow
from evaluation.numbers.rules import COMBINED, POLARITY, UNJUDGED
from evaluation.protocol import FacetView, Protocol, Rate
from evaluation.reports.comparison_lines import held_out_cells
from evaluation.reports.headlines import answered_datasets
from evaluation.reports.queries import Report
from evaluation.reports.score_lines import ScoreFigures, score_figures
from review.charts.bars import Bar, BarChart, bars
from review.charts.heat_map import HeatMap, heat
from review.charts.radar import MIN_AXES, RadarChart, Series, radar
from review.charts.text_measure import MAX_SERIES

CELLS_SHOWN = 30  # comparisons in a breakdown, smallest p first; the downloaded file has all

Item = TypeVar("Item", Contrast, ModelComparison, Ranking)

# The address of the answers behind a number, from endpoint, dataset, facet, value, verdict, and
# optionally arm and outcome ('' for any).
Link = Callable[..., str]


@dataclass(frozen=True, slots=True)
class RateLine:
    """One rate as a table line, with links to the judgments counted, hit and excluded."""

    rate: Rate
    row: RateRow
    dataset: str
    value: str
    counted_href: str
    hits_href: str
    unjudged_href: str

    @property
    def measured(self) -> MeasuredRate:
        return self.row.rates[self.rate.name]

    @property
    def drawn(self) -> float | None:
        """The rate; None if there is nothing or too little to draw."""
        if self.measured.too_few:
            return None
        return self.measured.value

    @property
    def href(self) -> str:
        """The answers that make up the rate; if none do, those that it is a share of."""
        if self.measured.numerator:
            return self.hits_href
        return self.counted_href

    @property
    def note(self) -> str:
        """Why a rate is not drawn."""
        if self.measured.too_few:
            return gettext("too few")
        return ""


Cells = Mapping[tuple[str, str, str], RateLine]  # by endpoint, data set and value of a facet


@dataclass(frozen=True, slots=True)
class Section:
    """The section of one facet.

    Attributes:
        rate: the rate that is drawn.
        radars: one per data set, where legible.
        heats: one heat map of the pooled data sets, or one per data set if they are not pooled.
        lines: the table of the drawn rate.
        table: all rates, row by row.
        without: the number of judgments without a value of the facet.
        few: the rows whose drawn rate has too little data for an interval; in no other table.
        names: the name of each value.
        comparisons: the comparisons of models in the cells.
    """

    name: str
    label: str
    rate: Rate
    note: str
    names: Mapping[str, str]
    radars: tuple[RadarChart, ...]
    heats: tuple[HeatMap, ...]
    lines: tuple[RateLine, ...]
    table: tuple[tuple[RateLine, ...], ...]
    without: int
    few: tuple[tuple[RateLine, ...], ...]
    few_lines: tuple[RateLine, ...]
    comparisons: tuple[ModelComparison, ...]


@dataclass(frozen=True, slots=True)
class ReportFigures:
    """All charts and tables of the report page.

    `bars`: one chart per data set on a common scale (Figure 3 of the paper). `lines`: the shown
    rate; `table`: the same rows with a line for each rate. `endings`: with the address of the
    judgments.
    """

    rate: Rate
    bars: tuple[BarChart, ...]
    lines: tuple[RateLine, ...]
    table: tuple[tuple[RateLine, ...], ...]
    differences: tuple[Contrast, ...]
    comparisons: tuple[ModelComparison, ...]
    ranks: tuple[Ranking, ...]
    endings: tuple[tuple[OutcomeCount, str], ...]
    sections: tuple[Section, ...]
    scores: ScoreFigures | None = None
    held_out: tuple[tuple[str, ...], ...] = ()

    @property
    def pooled_comparisons(self) -> tuple[ModelComparison, ...]:
        """The comparisons on all data sets together, or all of them if none are pooled."""
        return tuple(each for each in self.comparisons if each.dataset == COMBINED) or self.comparisons

    @property
    def dataset_comparisons(self) -> tuple[ModelComparison, ...]:
        """The comparisons on each data set, where others pool them."""
        return tuple(each for each in self.comparisons if each not in self.pooled_comparisons)

    @property
    def is_uneven(self) -> bool:
        """Whether some criteria have no verdict that counts."""
        return any(ending.counted < ending.criteria for ending, _href in self.endings)


def rate_named(report: Report, name: str) -> Rate:
    """The rate of this name, or else the planned one."""
    return next((rate for rate in report.rates if rate.name == name), report.planned_rate)


def figures(report: Report, link: Link, *, sort: str = "", rate: str = "") -> ReportFigures:
    """The charts and tables of a report.

    Args:
        link: builds the address of the answers behind a number.
        sort: the column that sorts the overall table: 'endpoint', 'dataset' or 'rate' (the shown
            one), with '-' for descending.
        rate: the name of the rate to show. By default the planned one, and in a section the
            facet's own.
    """
    shown_rate = rate_named(report, rate)
    position = report.rates.index(shown_rate)
    lines = _table(report, report.overall, "", link)
    table = _sorted(lines, position, sort)
    sections = [_section(report, rate, view, link) for view in report.views if report.facets[view.name]]
    endings = [(ending, _link_of(ending, link)) for ending in report.numbers.endings]
    return ReportFigures(
        rate=shown_rate,
        bars=_bars(report, [row[position] for row in lines]),
        lines=_nonempty(row[position] for row in table),
        table=table,
        differences=_of_rate(report.contrasts, shown_rate),
        comparisons=_of_rate(report.numbers.comparisons, shown_rate),
        ranks=_of_rate(report.numbers.rankings, shown_rate),
        endings=tuple(endings),
        sections=tuple(sections),
        scores=score_figures(report),
        held_out=tuple(held_out_cells(report, shown_rate)),
    )


def first_chart(report: Report, rate: Rate, link: Link) -> BarChart:
    """The bars of a rate on the data set that the answer of the report names first."""
    position = report.rates.index(rate)
    first = answered_datasets(report)[0]
    lines = [row[position] for row in _table(report, report.overall, "", link)]
    return next(chart for chart in _bars(report, lines) if chart.name == _bars_name(first))


def _link_of(ending: OutcomeCount, link: Link) -> str:
    """The address of the judgments on responses that ended so."""
    outcome = "answered"
    if ending.kind in Response.Outcome.values:
        outcome = ending.kind
    return link(ending.endpoint, ending.dataset, "", "", "", "", outcome)


def _bars(report: Report, lines: Sequence[RateLine]) -> tuple[BarChart, ...]:
    charts = []
    for dataset, label in report.datasets:
        rows = []
        for line in lines:
            if line.row.dataset != dataset:
                continue
            measured, note = line.measured, ""
            if measured.too_few:
                note = gettext("too few for an interval")
            rows.append(
                Bar(
                    label=line.row.endpoint,
                    value=measured.value,
                    low=measured.low,
                    high=measured.high,
                    numerator=measured.numerator,
                    denominator=measured.denominator,
                    href=line.href,
                    percent=line.rate.percent,
                    note=note,
                )
            )
        charts.append(bars(rows, name=_bars_name(dataset), title=gettext(label)))
    return tuple(charts)


def _bars_name(dataset: str) -> str:
    return f"bars-{dataset}"


def _of_rate(items: Iterable[Item], rate: Rate) -> tuple[Item, ...]:
    return tuple(item for item in items if item.rate == rate.name)


def _section(report: Report, chosen_rate: str, view: FacetView, link: Link) -> Section:
    rate = rate_named(report, chosen_rate or view.rate)
    if rate not in report.facet_rates:
        rate = report.facet_rates[0]
    facet, rows = view.name, report.facets[view.name]
    names = {row.value: value_name(row.value, gettext(row.label)) for row in rows}
    position = report.facet_rates.index(rate)
    lines = _table(report, rows, facet, link)
    drawn_lines = [row[position] for row in lines]
    cells = {(line.row.endpoint, line.row.dataset, line.row.value): line for line in drawn_lines}
    judged = [row for row in lines if any(row[position].row.verdicts.values())]
    few = tuple(row for row in judged if row[position].measured.too_few)
    table = [row for row in judged if not row[position].measured.too_few]
    note = ""
    if view.note:  # gettext('') returns the catalogue's header
        note = gettext(view.note)
    radars = []
    if view.picture == "radar":
        radars = _radars(report, cells, facet, names, rate)
    compared = sorted(report.numbers.cells.get(facet, ()), key=_by_p)
    return Section(
        name=facet,
        label=gettext(view.label),
        rate=rate,
        note=note,
        names=names,
        radars=tuple(radars),
        heats=tuple(_heats(report, cells, facet, names, rate)),
        lines=_nonempty(row[position] for row in table),
        table=tuple(table),
        without=report.numbers.without[facet],
        few=few,
        few_lines=tuple(row[position] for row in few),
        comparisons=tuple(compared[:CELLS_SHOWN]),
    )


def _by_p(comparison: ModelComparison) -> tuple[bool, float]:
    """The order of comparisons: by p, those without one last."""
    return comparison.p_adjusted is None, comparison.p_adjusted or 0.0


def _radars(report: Report, cells: Cells, facet: str, names: Mapping[str, str], rate: Rate) -> list[RadarChart]:
    """A radar for each data set on which it is legible: a spoke for each value with a rate."""
    radars: list[RadarChart] = []
    if len(report.endpoints) > MAX_SERIES:
        return radars
    for dataset, label in report.datasets:
        of_value = {value: [cells[each, dataset, value] for each in report.endpoints] for value in names}
        axes = [value for value, lines in of_value.items() if any(line.drawn is not None for line in lines)]
        if len(axes) < MIN_AXES:
            continue
        series = []
        for place, endpoint in enumerate(report.endpoints):
            spokes = [of_value[value][place] for value in axes]
            drawn, hrefs, notes = _columns(spokes)
            series.append(Series(endpoint, drawn, hrefs, notes))
        axis_names = [names[value] for value in axes]
        name = f"radar-{facet}-{dataset}"
        radars.append(radar(axis_names, series, name=name, title=gettext(label), percent=rate.percent))
    return radars


def _heats(report: Report, cells: Cells, facet: str, names: Mapping[str, str], rate: Rate) -> Iterator[HeatMap]:
    """A heat map of all data sets pooled or, where they are not, of each: values by models."""
    pooled = [named for named in report.datasets if named[0] == COMBINED]
    for dataset, label in pooled or report.datasets:
        rows = []
        for value in names:
            rows.append(_columns([cells[endpoint, dataset, value] for endpoint in report.endpoints]))
        yield heat(
            list(names.values()),
            report.endpoints,
            [drawn for drawn, _hrefs, _notes in rows],
            [hrefs for _drawn, hrefs, _notes in rows],
            [notes for _drawn, _hrefs, notes in rows],
            name=f"heat-{facet}-{dataset}",
            title=gettext(label),
            percent=rate.percent,
        )


def _columns(lines: Sequence[RateLine]) -> tuple[list[float | None], list[str], list[str]]:
    """What a chart shows of some lines: the rates drawn, their addresses and notes."""
    return [line.drawn for line in lines], [line.href for line in lines], [line.note for line in lines]


def _table(report: Report, rows: Iterable[RateRow], facet: str, link: Link) -> list[tuple[RateLine, ...]]:
    """Each row, with a line for each rate."""
    labels = {name: gettext(label) for name, label in report.datasets}
    has_controls = len(report.facet_rates) < len(report.rates)
    rates = report.rates
    if facet:
        rates = report.facet_rates
    # Of each rate: the verdicts that it counts, those in its numerator, and those that it excludes.
    verdicts = []
    for rate in rates:
        words = (sorted(rate.counted), sorted(rate.hits), excluded_verdicts(report.protocol, rate))
        verdicts.append((rate, list(map(",".join, words))))
    table = []
    for row in rows:
        value = ""
        if row.value:
            value = value_name(row.value, gettext(row.label))
        lines = []
        for rate, links in verdicts:
            chosen, arm = (facet, row.value), ""
            if rate.only and rate.only.facet == POLARITY and not facet:
                chosen = rate.only
            if has_controls:
                arm = rate.arm
            hrefs = (link(row.endpoint, row.dataset, *chosen, names, arm) for names in links)
            lines.append(RateLine(rate, row, labels[row.dataset], value, *hrefs))
        table.append(tuple(lines))
    return table


def _nonempty(lines: Iterable[RateLine]) -> tuple[RateLine, ...]:
    """The lines with anything to judge; all of them if there is none, as the run is in progress."""
    all_lines = tuple(lines)
    return tuple(line for line in all_lines if not line.measured.is_empty) or all_lines


def excluded_verdicts(protocol: Protocol, rate: Rate) -> list[str]:
    """The verdicts that a rate excludes, including 'unjudged' for none."""
    return sorted({*protocol.known_verdicts, UNJUDGED} - rate.scope_verdicts)


def _sorted(table: list[tuple[RateLine, ...]], position: int, sort: str) -> tuple[tuple[RateLine, ...], ...]:
    column = sort.removeprefix("-")

    def key(row: tuple[RateLine, ...]) -> tuple[Any, ...]:
        line = row[position]
        if column == "endpoint":
            return line.row.endpoint, line.dataset
        if column == "dataset":
            return (line.dataset,)
        return line.measured.value is not None, line.measured.value

    if column not in ("endpoint", "dataset", "rate"):
        return tuple(table)
    return tuple(sorted(table, key=key, reverse=sort.startswith("-")))
