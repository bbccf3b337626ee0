"""Bar charts: shares with their intervals on a scale from 0 to 100 %, and pairs of counts.

The chart is rendered as a table, so only the bars are computed here, in per cent of the scale.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from review.charts.text_measure import SHARE_TICKS, LegendEntry, format_share, format_tick, legend_entries


@dataclass(frozen=True, slots=True)
class Bar:
    """One rate, with its 95 % interval, its counts, and a link to the answers behind it.

    series: distinguishes several bars with the same label (models within a data set); empty if
        there is one bar per label.
    percent: format the value as a percentage, otherwise with three decimals.
    note: shown instead of a missing interval.
    hollow: drawn as an outline, to tell it from the others of its series.
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
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class BarAmount:
    """Two counts under one label; rows of the same `group` form a cluster."""

    label: str
    first: int
    second: int
    href: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class BarMark:
    """A bar as drawn: width and whisker ends in per cent of the scale, and its texts.

    leads: the first bar of its label, beside which the label is shown.
    heading: the name of the cluster, on its first bar only.
    """

    label: str
    series: str
    href: str
    width: float
    text: str
    sign: LegendEntry
    leads: bool
    low: float | None = None
    high: float | None = None
    interval: str = ""
    count: str = ""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars on one scale, as in the paper's Figures 2 and 3; counts have no `ticks`."""

    name: str
    title: str
    marks: tuple[BarMark, ...]
    ticks: tuple[str, ...]
    legend: tuple[LegendEntry, ...]


def bars(rows: Sequence[Bar], *, name: str = "bars", title: str = "") -> BarChart:
    """Bars for `rows`, in their order; consecutive rows with the same label form a group.

    `name` is unique on the page. Raises ValueError for a value outside 0..1.
    """
    for row in rows:
        if any(share is not None and not 0 <= share <= 1 for share in (row.value, row.low, row.high)):
            raise ValueError(f"{row.label}: a value is outside 0..1")
    legend = legend_entries([row.series for row in rows if row.series])
    signs = {entry.label: entry for entry in legend}
    marks = []
    previous = ""
    for index, row in enumerate(rows):
        low, high, interval, count = None, None, "", ""
        if row.value is not None and row.low is not None and row.high is not None:
            low, high = round(100 * row.low, 2), round(100 * row.high, 2)
            interval = "–".join(format_share(limit, percent=row.percent) for limit in (row.low, row.high))
        if row.denominator is not None:
            count = f"{row.numerator}/{row.denominator}"
        marks.append(
            BarMark(
                label=row.label,
                series=row.series,
                href=row.href,
                width=round(100 * (row.value or 0), 2),
                low=low,
                high=high,
                text=format_share(row.value, percent=row.percent),
                interval=interval or row.note,
                count=count,
                sign=signs.get(row.series, LegendEntry("", 0, hollow=row.hollow)),
                leads=not index or row.label != previous,
            )
        )
        previous = row.label
    percent = all(row.percent for row in rows)
    ticks = [format_tick(share, percent=percent) for share in SHARE_TICKS]
    return BarChart(name, title, tuple(marks), tuple(ticks), legend)


def amounts(
    rows: Sequence[BarAmount], words: tuple[str, str], *, name: str = "amounts", title: str = "", top: int = 0
) -> BarChart:
    """Two bars per row, in their order, the second one hollow.

    They are counts and not shares, because a sample counts under each of its traps.

    words: the legend of the first and of the second count.
    top: a minimum for the end of the scale, for charts that share one.
    """
    top = max(top, 1)
    for row in rows:
        top = max(top, row.first, row.second)
    legend = (LegendEntry(words[0], 0), LegendEntry(words[1], 0, hollow=True))
    marks = []
    previous = ""
    for row in rows:
        heading = ""
        if row.group != previous:
            heading = previous = row.group
        for sign, count in zip(legend, (row.first, row.second), strict=True):
            marks.append(
                BarMark(
                    label=row.label,
                    series=sign.label,
                    href=row.href,
                    width=round(100 * count / top, 2),
                    text=str(count),
                    sign=sign,
                    leads=sign is legend[0],
                    heading=heading,
                )
            )
            heading = ""  # on the first bar only
    return BarChart(name, title, tuple(marks), (), legend)
