"""Bars: shares with their intervals on a scale from 0 to 100 %, and pairs of counts. The chart is a table, so nothing is
measured here but the bars themselves, in per cent of the scale."""

from collections.abc import Sequence
from dataclasses import dataclass

from review.charts.text_measure import SCALE, Entry, format_share, interval_mark, legend_entries


@dataclass(frozen=True, slots=True)
class Bar:
    """One rate: its 95 % interval, what was counted, and where the answers behind it are.

    `series` sets bars of one label side by side (models within a data set); leave it empty for one bar a label. `percent`: said
    as a percentage, else as a figure of three decimals. `note`: what is said in place of an interval.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    numerator: int | None = None
    denominator: int | None = None
    href: str = ""
    series: str = ""
    percent: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """Two counts of one thing; `group` is its cluster."""

    label: str
    first: int
    second: int
    href: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class BarMark:
    """A bar as drawn: its width and the ends of its whisker in per cent of the scale, and what is said of it.

    `heading`: the cluster, above its first bar. `leads`: the first bar of its label, which names it.
    """

    label: str
    series: str
    href: str
    width: float
    low: float | None
    high: float | None
    text: str
    interval: str
    count: str
    sign: Entry
    leads: bool
    heading: str = ""


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars on a common scale (the manner of Figures 2 and 3). Without `ticks` they are counts."""

    name: str
    title: str
    marks: tuple[BarMark, ...]
    ticks: tuple[str, ...]
    legend: tuple[Entry, ...]


def bars(rows: Sequence[Bar], *, name: str = "bars", title: str = "") -> BarChart:
    """Bars for `rows`, in their order; rows of one label that follow each other form a group.

    `name` is unique on the page. Raises ValueError for a value outside 0..1.
    """
    for row in rows:
        if any(v is not None and not 0 <= v <= 1 for v in (row.value, row.low, row.high)):
            raise ValueError(f"{row.label}: a value is outside 0..1")
    legend = legend_entries([row.series for row in rows if row.series])
    signs = {entry.label: entry for entry in legend}
    marks = []
    for place, row in enumerate(rows):
        limits = (row.low, row.high) if row.value is not None else (None, None)
        low, high = (None if limit is None else round(100 * limit, 2) for limit in limits)
        marks.append(
            BarMark(
                label=row.label,
                series=row.series,
                href=row.href,
                width=round(100 * (row.value or 0), 2),
                low=low,
                high=high,
                text=format_share(row.value, percent=row.percent),
                interval="–".join(format_share(limit, percent=row.percent) for limit in limits if limit is not None)
                or row.note,
                count="" if row.denominator is None else f"{row.numerator}/{row.denominator}",
                sign=signs.get(row.series, Entry("", 0)),
                leads=not place or rows[place - 1].label != row.label,
            )
        )
    percent = all(row.percent for row in rows)
    return BarChart(name, title, tuple(marks), tuple(interval_mark(share, percent=percent) for share in SCALE), legend)


def amounts(
    rows: Sequence[Amount], words: tuple[str, str], *, name: str = "amounts", title: str = "", top: int = 0
) -> BarChart:
    """Two bars a row, in their order, the second one hollow. `top`: the end of the scale, for charts that share one.

    Counts and no shares: a sample counts under every trap that it carries.
    """
    top = max([top, 1, *(count for row in rows for count in (row.first, row.second))])
    legend = (Entry(words[0], 0), Entry(words[1], 0, hollow=True))
    marks = [
        BarMark(
            label=row.label,
            series=sign.label,
            href=row.href,
            width=round(100 * count / top, 2),
            low=None,
            high=None,
            text=str(count),
            interval="",
            count="",
            sign=sign,
            leads=sign is legend[0],
            heading=row.group if sign is legend[0] and (not place or rows[place - 1].group != row.group) else "",
        )
        for place, row in enumerate(rows)
        for sign, count in zip(legend, (row.first, row.second), strict=True)
    ]
    return BarChart(name, title, tuple(marks), (), legend)
