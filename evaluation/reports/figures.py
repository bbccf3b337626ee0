"""A report as pictures and tables: which rate is drawn where, and which answers stand behind every mark."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from evaluation.labels import value_name
from evaluation.metrics import UNJUDGED, MeasuredRate
from evaluation.protocol import FacetView, Protocol, Rate
from evaluation.reports.comparison_lines import (
    Compared,
    Ended,
    Ranked,
    comparison_lines,
    ending_lines,
    format_difference,
    ranking_lines,
)
from evaluation.reports.numbers.comparing import Comparison
from evaluation.reports.numbers.counting import Row
from evaluation.reports.numbers.verdict_table import POLARITY
from evaluation.reports.queries import Report
from evaluation.reports.score_lines import ScoreFigures, score_figures
from review.charts.bars import Bar, BarChart, bars
from review.charts.heat_map import HeatMap, heat
from review.charts.radar import RadarChart, Series, radar
from review.charts.text_measure import SERIES, format_share

CELLS_SHOWN = 30
LEAST_AXES = 3  # a radar of fewer is a line

# Address of the answers behind a number: endpoint, dataset, facet, value, verdict, and if need be arm and outcome ('' for what
# does not matter).
Link = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Line:
    """One rate as a line of a table: texts, and the addresses of what was counted, what was hit and what was left out.

    `bounds`: the rate were all that is excluded counted for and against the model, '' where nothing is excluded. `too_few`: it
    has no interval, as too little was counted. `undefined`: in how many draws of a bootstrap it was not defined.
    """

    endpoint: str
    dataset: str
    value: str
    rate: str
    interval: str
    bounds: str
    too_few: bool
    undefined: int
    numerator: int
    denominator: int
    unjudged: int
    share: float | None
    counted_href: str
    hits_href: str
    unjudged_href: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What two data sets of a contrast differ by, in the rate that is drawn: texts, '' where it is undefined."""

    label: str
    endpoint: str
    first: str
    second: str
    difference: str


@dataclass(frozen=True, slots=True)
class Section:
    """One facet: radars per data set where they can be read, heat maps and the table over all of it.

    One heat map shows the data sets pooled, where they are; else there is one for each. `table`: all rates, row by row.
    `rate`: the label of the one that is drawn. `without`: how many judgments have no value of the facet. `too_few`: how many
    cells are not drawn, as too little was counted. `compared`: the comparisons of models in the cells.
    """

    name: str
    label: str
    rate: str
    note: str
    radars: tuple[RadarChart, ...]
    heats: tuple[HeatMap, ...]
    lines: tuple[Line, ...]
    table: tuple[tuple[Line, ...], ...]
    without: int
    too_few: int
    compared: tuple[Compared, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything the report page draws. `bars`: one chart per data set, on one scale (the paper's Figure 3).

    `lines`: the rate that is drawn; `table`: the same rows with a line for each rate.
    """

    rate: Rate
    bars: tuple[BarChart, ...]
    lines: tuple[Line, ...]
    table: tuple[tuple[Line, ...], ...]
    differences: tuple[Difference, ...]
    compared: tuple[Compared, ...]
    ranked: tuple[Ranked, ...]
    ended: tuple[Ended, ...]
    sections: tuple[Section, ...]
    scores: ScoreFigures | None = None

    @property
    def is_uneven(self) -> bool:
        """Whether any response ended otherwise than judged."""
        return any(each.counted < each.criteria for each in self.ended)


def rate_named(report: Report, name: str) -> Rate:
    """The rate of this name; the one that was planned where there is none."""
    named = {rate.name: rate for rate in report.rates}
    return named.get(name) or named.get(report.plan.metric) or report.rate


def figures(report: Report, link: Link, *, sort: str = "", rate: str = "") -> Figures:
    """The pictures of a report.

    `rate`: the name of the one that is drawn; unless given the first, and under a facet the facet's own. `sort`: a column of
    the overall table, 'endpoint', 'dataset' or 'rate' (the one that is drawn), '-' for descending.
    """
    drawn = rate_named(report, rate)
    at = report.rates.index(drawn)
    table = _sorted(_table(report, report.overall, "", link), at, sort)
    compared = [each for each in report.numbers.comparisons if each.rate == drawn.name]
    return Figures(
        rate=drawn,
        bars=_bars(report, drawn, link),
        lines=tuple(row[at] for row in table),
        table=table,
        differences=_differences(report, drawn),
        compared=comparison_lines(report, compared, drawn),
        ranked=ranking_lines(report, drawn),
        ended=ending_lines(report, lambda endpoint, dataset, outcome: link(endpoint, dataset, "", "", "", "", outcome)),
        sections=tuple(_section(report, rate, view, link) for view in report.views if report.facets[view.name]),
        scores=score_figures(report),
    )


def _bars(report: Report, rate: Rate, link: Link) -> tuple[BarChart, ...]:
    charts = []
    for dataset, label in report.datasets:
        rows = []
        for row in report.overall:
            if row.dataset == dataset:
                measured = row.rates[rate.name]
                low, high = measured.interval or (None, None)
                where = _where(report, rate, row.endpoint, dataset)
                rows.append(
                    Bar(
                        label=row.endpoint,
                        value=measured.value,
                        low=low,
                        high=high,
                        numerator=measured.numerator,
                        denominator=measured.denominator,
                        href=link(*where[:4], _counted(rate), where[4]),
                        percent=rate.percent,
                        note=gettext("too few for an interval") if measured.too_few else "",
                    )
                )
        charts.append(bars(rows, name=f"bars-{dataset}", title=gettext(label)))
    return tuple(charts)


def _differences(report: Report, rate: Rate) -> tuple[Difference, ...]:
    return tuple(
        Difference(
            label=gettext(each.label),
            endpoint=each.endpoint,
            first=format_share(each.values[0], percent=rate.percent),
            second=format_share(each.values[1], percent=rate.percent),
            difference=format_difference(each.difference, rate),
        )
        for each in report.contrasts
        if each.rate == rate.name
    )


def _section(report: Report, chosen_rate: str, view: FacetView, link: Link) -> Section:
    rate = rate_named(report, chosen_rate or view.rate)
    rate = rate if rate in report.facet_rates else report.facet_rates[0]
    facet, rows = view.name, report.facets[view.name]
    by_place = {(row.endpoint, row.dataset, row.value): row for row in rows}
    names = {row.value: value_name(row.value, gettext(row.label)) for row in rows}

    def measured(endpoint: str, dataset: str, value: str) -> MeasuredRate:
        return by_place[endpoint, dataset, value].rates[rate.name]

    def share(endpoint: str, dataset: str, value: str) -> float | None:
        """None where nothing was counted, or too little to draw it."""
        found = measured(endpoint, dataset, value)
        return None if found.too_few else found.value

    def note(endpoint: str, dataset: str, value: str) -> str:
        return gettext("too few") if measured(endpoint, dataset, value).too_few else ""

    def href(endpoint: str, dataset: str, value: str) -> str:
        where = _where(report, rate, endpoint, dataset, facet, value)
        return link(*where[:4], _counted(rate), where[4])

    radars = []
    for dataset, dataset_label in report.datasets if view.picture == "radar" else ():
        axes = [v for v in names if any(share(endpoint, dataset, v) is not None for endpoint in report.endpoints)]
        if len(axes) < LEAST_AXES or len(report.endpoints) > SERIES:
            continue
        series = [
            Series(
                label=endpoint,
                values=[share(endpoint, dataset, value) for value in axes],
                hrefs=[href(endpoint, dataset, value) for value in axes],
                notes=[note(endpoint, dataset, value) for value in axes],
            )
            for endpoint in report.endpoints
        ]
        radars.append(
            radar(
                [names[v] for v in axes],
                series,
                name=f"radar-{facet}-{dataset}",
                title=gettext(dataset_label),
                percent=rate.percent,
            )
        )
    drawn = [row for row in rows if any(row.verdicts.values())]
    table = _table(report, drawn, facet, link)
    heats = report.datasets[-1:] if report.protocol.pooled else report.datasets
    return Section(
        name=facet,
        label=gettext(view.label),
        rate=gettext(rate.label),
        note=gettext(view.note) if view.note else "",  # of '' gettext gives the head of the catalogue
        radars=tuple(radars),
        heats=tuple(
            heat(
                list(names.values()),
                report.endpoints,
                [[share(endpoint, dataset, value) for endpoint in report.endpoints] for value in names],
                [[href(endpoint, dataset, value) for endpoint in report.endpoints] for value in names],
                [[note(endpoint, dataset, value) for endpoint in report.endpoints] for value in names],
                name=f"heat-{facet}-{dataset}",
                title=gettext(label),
                percent=rate.percent,
            )
            for dataset, label in heats
        ),
        lines=tuple(row[report.facet_rates.index(rate)] for row in table),
        table=tuple(table),
        without=report.without[facet],
        too_few=sum(row.rates[rate.name].too_few for row in rows),
        compared=comparison_lines(report, _clearest(report.numbers.cells.get(facet, ())), rate, names),
    )


def _clearest(compared: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons in cells that a page shows, the smallest p first; the file has all."""
    return sorted(compared, key=lambda each: (each.p_adjusted is None, each.p_adjusted or 0.0))[:CELLS_SHOWN]


def _where(
    report: Report, rate: Rate, endpoint: str, dataset: str, facet: str = "", value: str = ""
) -> tuple[str, str, str, str, str]:
    """Endpoint, data set, facet, value and arm of what a rate counts."""
    has_controls = len(report.facet_rates) < len(report.rates)
    if rate.polarity and not facet:
        facet, value = POLARITY, rate.polarity
    return endpoint, dataset, facet, value, rate.arm if has_controls else ""


def _table(report: Report, rows: Iterable[Row], facet: str, link: Link) -> list[tuple[Line, ...]]:
    """Each row as a line for each rate."""
    labels = {name: gettext(label) for name, label in report.datasets}
    rates = report.facet_rates if facet else report.rates
    return [tuple(_line(report, row, rate, labels[row.dataset], facet, link) for rate in rates) for row in rows]


def _line(report: Report, row: Row, rate: Rate, dataset: str, facet: str, link: Link) -> Line:
    measured = row.rates[rate.name]
    *where, arm = _where(report, rate, row.endpoint, row.dataset, facet if row.value else "", row.value)
    return Line(
        endpoint=row.endpoint,
        dataset=dataset,
        value=value_name(row.value, gettext(row.label)) if row.value else "",
        rate=format_share(measured.value, percent=rate.percent),
        interval="–".join(format_share(limit, percent=rate.percent) for limit in measured.interval or ()),
        bounds=_bounds(measured, rate),
        too_few=measured.too_few,
        undefined=measured.undefined_draws,
        numerator=measured.numerator,
        denominator=measured.denominator,
        unjudged=measured.excluded,
        share=measured.value,
        counted_href=link(*where, _counted(rate), arm),
        hits_href=link(*where, ",".join(sorted(rate.hits)), arm),
        unjudged_href=link(*where, ",".join(excluded_verdicts(report.protocol, rate)), arm),
    )


def _bounds(measured: MeasuredRate, rate: Rate) -> str:
    """'20.0%–45.0%', where something is excluded."""
    if measured.bounds is None or not measured.excluded or measured.bounds.best == measured.bounds.worst:
        return ""
    ends = sorted((measured.bounds.best, measured.bounds.worst))
    return "–".join(format_share(end, percent=rate.percent) for end in ends)


def excluded_verdicts(protocol: Protocol, rate: Rate) -> list[str]:
    """The verdicts that a rate leaves out; 'unjudged' stands for having none."""
    return sorted({*protocol.known_verdicts, UNJUDGED} - rate.scope_verdicts)


def _sorted(table: list[tuple[Line, ...]], at: int, sort: str) -> tuple[tuple[Line, ...], ...]:
    keys: dict[str, Callable[[Line], tuple[object, ...]]] = {
        "endpoint": lambda line: (line.endpoint, line.dataset),
        "dataset": lambda line: (line.dataset,),
        "rate": lambda line: (-1.0 if line.share is None else line.share,),
    }
    key = keys.get(sort.removeprefix("-"))
    return tuple(sorted(table, key=lambda row: key(row[at]), reverse=sort.startswith("-"))) if key else tuple(table)


def _counted(rate: Rate) -> str:
    return ",".join(sorted(rate.counted))
