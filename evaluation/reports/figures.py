"""A report as charts and tables, with links from every number to the answers behind it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.text import slugify
from django.utils.translation import gettext

from evaluation.labels import value_name
from evaluation.metrics import MeasuredRate
from evaluation.models import Response
from evaluation.numbers.averages import Contrast
from evaluation.numbers.comparing import ModelComparison, Ranking
from evaluation.numbers.counting import OutcomeCount, RateRow
from evaluation.numbers.rates import of_rate
from evaluation.numbers.rules import COMBINED, POLARITY, UNJUDGED
from evaluation.protocol import FacetView, Protocol, Rate
from evaluation.published import has_number
from evaluation.reports.comparison_lines import held_out_cells
from evaluation.reports.headlines import answered_datasets
from evaluation.reports.queries import Report
from evaluation.reports.score_lines import ScoreFigures, score_figures
from review.charts.bars import Bar, BarChart, bars
from review.charts.heat_map import HeatMap, heat
from review.charts.radar import MIN_AXES, RadarChart, Series, radar
from review.charts.text_measure import MAX_SERIES

CELLS_SHOWN = 30  # comparisons in a breakdown, smallest p first; the downloaded file has all


# The address of the answers behind a number, from endpoint, dataset, facet, value, verdict, and
# optionally arm and outcome ('' for any).
Link = Callable[..., str]


@dataclass(frozen=True, slots=True)
class RateLine:
    """One rate as a table line, with links to the judgments counted, hit and excluded."""

    rate: Rate
    row: RateRow
    measured: MeasuredRate
    dataset: str
    value: str
    counted_href: str
    hits_href: str
    unjudged_href: str

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
        return tuple([each for each in self.comparisons if each.dataset == COMBINED]) or self.comparisons

    @property
    def dataset_comparisons(self) -> tuple[ModelComparison, ...]:
        """The comparisons on each data set, where others pool them."""
        pooled = self.pooled_comparisons
        return tuple([each for each in self.comparisons if each not in pooled])

    @property
    def is_uneven(self) -> bool:
        """Whether some criteria have no verdict that counts."""
        return any(ending.counted < ending.criteria for ending, _href in self.endings)


def figures(report: Report, link: Link, *, sort: str = "", rate: str = "") -> ReportFigures:
    """The charts and tables of a report.

    Args:
        link: builds the address of the answers behind a number.
        sort: the column that sorts the overall table: 'endpoint', 'dataset' or 'rate' (the shown
            one), with '-' for descending.
        rate: the name of the rate to show. By default the planned one, and in a section the
            facet's own.
    """
    shown_rate = report.shown_rate(rate)
    position = report.rates.index(shown_rate)
    lines = _table(report, report.numbers.overall, "", link)
    table = _sorted(lines, position, sort)
    sections = [_section(report, rate, view, link) for view in report.numbers.views if report.numbers.facets[view.name]]
    endings = [(ending, _link_of(ending, link)) for ending in report.numbers.endings]
    return ReportFigures(
        rate=shown_rate,
        bars=_bars(report, _column(lines, position)),
        lines=_nonempty(_column(table, position)),
        table=table,
        differences=of_rate(report.numbers.contrasts, shown_rate),
        comparisons=of_rate(report.numbers.comparisons, shown_rate),
        ranks=of_rate(report.numbers.rankings, shown_rate),
        endings=tuple(endings),
        sections=tuple(sections),
        scores=score_figures(report),
        held_out=tuple(held_out_cells(report, shown_rate)),
    )


def first_chart(report: Report, rate: Rate, link: Link) -> BarChart:
    """The bars of a rate on the data set that the answer of the report names first."""
    position = report.rates.index(rate)
    first = answered_datasets(report)[0]
    lines = [row[position] for row in _table(report, report.numbers.overall, "", link)]
    return next(chart for chart in _bars(report, lines) if chart.name == _chart_name("bars", first))


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
        charts.append(bars(rows, name=_chart_name("bars", dataset), title=gettext(label)))
    return tuple(charts)


def _chart_name(*parts: str) -> str:
    """The name of a chart: its id on a page, and its file's address."""
    return slugify("-".join(parts))


def _section(report: Report, chosen_rate: str, view: FacetView, link: Link) -> Section:
    rate = report.shown_rate(chosen_rate or view.rate)
    if rate not in report.facet_rates:
        rate = report.facet_rates[0]
    facet = view.name
    position = report.facet_rates.index(rate)
    names: dict[str, str] = {}
    cells: dict[tuple[str, str, str], RateLine] = {}
    table, few = [], []
    for of_rates in _table(report, report.numbers.facets[facet], facet, link):
        line = of_rates[position]
        row = line.row
        names[row.value] = line.value
        cells[row.endpoint, row.dataset, row.value] = line
        if not any(row.verdicts.values()):
            continue
        if line.measured.too_few:
            few.append(of_rates)
        else:
            table.append(of_rates)
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
        lines=_nonempty(_column(table, position)),
        table=tuple(table),
        without=report.numbers.without[facet],
        few=tuple(few),
        few_lines=tuple(_column(few, position)),
        comparisons=tuple(compared[:CELLS_SHOWN]),
    )


def _column(table: Iterable[Sequence[RateLine]], position: int) -> list[RateLine]:
    """The lines of one rate."""
    return [row[position] for row in table]


def _by_p(comparison: ModelComparison) -> tuple[bool, float]:
    """The order of comparisons: by p, those without one last."""
    return comparison.p_adjusted is None, comparison.p_adjusted or 0.0


def _radars(report: Report, cells: Cells, facet: str, names: Mapping[str, str], rate: Rate) -> list[RadarChart]:
    """A radar for each data set on which it is legible: a spoke for each value with a rate."""
    radars: list[RadarChart] = []
    if len(report.endpoints) > MAX_SERIES:
        return radars
    for dataset, label in report.datasets:
        axes = []
        for value in names:
            if has_number([cells[endpoint, dataset, value].drawn for endpoint in report.endpoints]):
                axes.append(value)
        if len(axes) < MIN_AXES:
            continue
        series = []
        for endpoint in report.endpoints:
            spokes = [cells[endpoint, dataset, value] for value in axes]
            series.append(Series(endpoint, *_drawn(spokes)))
        axis_names = [names[value] for value in axes]
        name = _chart_name("radar", facet, dataset)
        radars.append(radar(axis_names, series, name=name, title=gettext(label), percent=rate.percent))
    return radars


def _heats(report: Report, cells: Cells, facet: str, names: Mapping[str, str], rate: Rate) -> Iterator[HeatMap]:
    """A heat map of all data sets pooled or, where they are not, of each: values by models."""
    pooled = [named for named in report.datasets if named[0] == COMBINED]
    for dataset, label in pooled or report.datasets:
        rates, hrefs, notes = [], [], []
        for value in names:
            of_models = _drawn([cells[endpoint, dataset, value] for endpoint in report.endpoints])
            rates.append(of_models[0])
            hrefs.append(of_models[1])
            notes.append(of_models[2])
        name, title = _chart_name("heat", facet, dataset), gettext(label)
        values = list(names.values())
        yield heat(values, report.endpoints, rates, hrefs, notes, name=name, title=title, percent=rate.percent)


def _drawn(lines: Sequence[RateLine]) -> tuple[list[float | None], list[str], list[str]]:
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
            hrefs = [link(row.endpoint, row.dataset, *chosen, names, arm) for names in links]
            lines.append(RateLine(rate, row, row.rates[rate.name], labels[row.dataset], value, *hrefs))
        table.append(tuple(lines))
    return table


def _nonempty(lines: Sequence[RateLine]) -> tuple[RateLine, ...]:
    """The lines with anything to judge; all of them if there is none, as the run is in progress."""
    return tuple([line for line in lines if not line.measured.is_empty]) or tuple(lines)


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
