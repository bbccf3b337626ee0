"""A report as pictures and tables: which rate is drawn where, and which answers stand behind every mark."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.utils.translation import gettext

from evaluation.charts import SERIES, Bar, BarChart, HeatMap, RadarChart, Series, bars, heat, radar
from evaluation.metrics import UNJUDGED
from evaluation.protocol import FacetView
from evaluation.queries import Report, Row

LEAST_AXES = 3  # a radar of fewer is a line

# Address of the answers behind a number: endpoint, dataset, facet, value, verdict ('' for what does not matter).
Link = Callable[[str, str, str, str, str], str]


@dataclass(frozen=True, slots=True)
class Line:
    """One rate as a line of a table: texts, and the addresses of what was counted, what was hit and what was left out."""

    endpoint: str
    dataset: str
    value: str
    rate: str
    interval: str
    numerator: int
    denominator: int
    unjudged: int
    counted_href: str
    hits_href: str
    unjudged_href: str


@dataclass(frozen=True, slots=True)
class Section:
    """One facet: radars per data set where they can be read, a heat map and the table over all of it."""

    name: str
    label: str
    radars: tuple[RadarChart, ...]
    heat: HeatMap
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything the report page draws. `bars`: one chart per data set, on one scale (the paper's Figure 3)."""

    bars: tuple[BarChart, ...]
    lines: tuple[Line, ...]
    sections: tuple[Section, ...]


def figures(report: Report, link: Link, *, sort: str = "") -> Figures:
    """The pictures of a report. `sort`: a column of the overall table, 'endpoint', 'dataset' or 'rate', '-' for descending."""
    return Figures(
        bars=_bars(report, link),
        lines=_sorted(_lines(report, report.overall, "", link), sort),
        sections=tuple(_section(report, view, link) for view in report.views if report.facets[view.name]),
    )


def _bars(report: Report, link: Link) -> tuple[BarChart, ...]:
    highest = max((high for row in report.overall for _low, high in [row.measured.interval or (0.0, 0.0)]), default=0.0)
    top = next(step for step in (0.25, 0.5, 0.75, 1.0) if highest <= step)
    charts = []
    for dataset, label in report.datasets:
        rows = []
        for row in report.overall:
            if row.dataset == dataset:
                low, high = row.measured.interval or (None, None)
                rows.append(
                    Bar(
                        label=row.endpoint,
                        value=row.measured.value,
                        low=low,
                        high=high,
                        numerator=row.measured.numerator,
                        denominator=row.measured.denominator,
                        href=link(row.endpoint, dataset, "", "", _counted(report)),
                    )
                )
        charts.append(bars(rows, name=f"bars-{dataset}", title=gettext(label), top=top))
    return tuple(charts)


def _section(report: Report, view: FacetView, link: Link) -> Section:
    facet, rows = view.name, report.facets[view.name]
    by_place = {(row.endpoint, row.dataset, row.value): row for row in rows}
    names = {row.value: _name(row) for row in rows}

    def share(endpoint: str, dataset: str, value: str) -> float | None:
        return by_place[endpoint, dataset, value].measured.value

    def href(endpoint: str, dataset: str, value: str) -> str:
        return link(endpoint, dataset, facet, value, _counted(report))

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
            )
            for endpoint in report.endpoints
        ]
        title = gettext(dataset_label)
        radars.append(radar([names[v] for v in axes], series, name=f"radar-{facet}-{dataset}", title=title))
    whole = report.datasets[-1][0] if report.datasets else ""
    return Section(
        name=facet,
        label=gettext(view.label),
        radars=tuple(radars),
        heat=heat(
            list(names.values()),
            report.endpoints,
            [[share(endpoint, whole, value) for endpoint in report.endpoints] for value in names],
            [[href(endpoint, whole, value) for endpoint in report.endpoints] for value in names],
            name=f"heat-{facet}",
            title=gettext(report.datasets[-1][1]) if report.datasets else "",
        ),
        lines=tuple(
            _lines(report, (row for row in rows if row.measured.denominator or row.measured.excluded), facet, link)
        ),
    )


def _lines(report: Report, rows: Iterable[Row], facet: str, link: Link) -> list[Line]:
    labels = {name: gettext(label) for name, label in report.datasets}
    lines = []
    for row in rows:
        measured = row.measured
        where = (row.endpoint, row.dataset, facet if row.value else "", row.value)
        lines.append(
            Line(
                endpoint=row.endpoint,
                dataset=labels[row.dataset],
                value=_name(row) if row.value else "",
                rate="" if measured.value is None else f"{measured.value:.1%}",
                interval="–".join(f"{limit:.1%}" for limit in measured.interval or ()),
                numerator=measured.numerator,
                denominator=measured.denominator,
                unjudged=measured.excluded,
                counted_href=link(*where, _counted(report)),
                hits_href=link(*where, ",".join(sorted(report.rate.hits))),
                unjudged_href=link(*where, UNJUDGED),
            )
        )
    return lines


def _sorted(lines: list[Line], sort: str) -> tuple[Line, ...]:
    keys: dict[str, Callable[[Line], tuple[object, ...]]] = {
        "endpoint": lambda line: (line.endpoint, line.dataset),
        "dataset": lambda line: (line.dataset,),
        "rate": lambda line: (line.numerator / line.denominator if line.denominator else -1.0,),
    }
    key = keys.get(sort.removeprefix("-"))
    return tuple(sorted(lines, key=key, reverse=sort.startswith("-"))) if key else tuple(lines)


def _name(row: Row) -> str:
    """'A1 Non-existent Entity', or the value alone where it has no other label."""
    return gettext(row.label) if row.label == row.value else f"{row.value} {gettext(row.label)}"


def _counted(report: Report) -> str:
    return ",".join(sorted(report.rate.counted))
