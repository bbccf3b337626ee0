"""Bars with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from review.charts.text_measure import (
    FONT,
    GAP,
    WIDTH,
    AxisTick,
    Entry,
    format_share,
    interval_mark,
    label_room,
    legend_entries,
    shorten,
    value_room,
)

TOP = 22.0  # room for the scale above the first bar

ROW = 30.0
BAR = 14.0
GROUP_GAP = 12.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One rate: its 95 % interval, what was counted, and where the answers behind it are.

    `series` sets bars of one label side by side (models within a data set); leave it empty for one bar a label. `percent`: said
    as a percentage, else as a figure of three decimals.
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


@dataclass(frozen=True, slots=True)
class BarMark:
    """A bar as drawn: a rectangle from (x, y), a whisker from `low_x` to `high_x` at `mid_y`, its text at `text_x`."""

    bar: Bar
    label: str  # shortened to the room there is; empty for all but the first bar of a label
    label_y: float
    x: float
    y: float
    width: float
    height: float
    mid_y: float
    low_x: float | None
    high_x: float | None
    text: str
    text_x: float
    index: int

    @property
    def text_y(self) -> float:
        return round(self.mid_y + FONT * 0.35, 2)

    @property
    def cap_top(self) -> float:
        """Where the eight-unit caps of the whisker begin."""
        return self.mid_y - 4

    @property
    def rate_text(self) -> str:
        return format_share(self.bar.value, percent=self.bar.percent)

    @property
    def interval_text(self) -> str:
        limits = (format_share(limit, percent=self.bar.percent) for limit in (self.bar.low, self.bar.high))
        return "–".join(limits) if self.low_x is not None else ""


@dataclass(frozen=True, slots=True)
class BarChart:
    """Horizontal bars on a common scale (the manner of Figure 3)."""

    name: str
    title: str
    width: float
    height: float
    label_x: float
    plot_top: float
    plot_bottom: float
    marks: tuple[BarMark, ...]
    ticks: tuple[AxisTick, ...]
    legend: tuple[Entry, ...]

    @property
    def area_width(self) -> float:
        """From the foot of the bars to the edge: what a pointer may hit."""
        return round(self.width - self.label_x - GAP, 2)


def bars(rows: Sequence[Bar], *, name: str = "bars", title: str = "", top: float = 1.0) -> BarChart:
    """Bars for `rows`, in their order; rows of one label that follow each other form a group.

    `name` is unique on the page; `top` is the end of the scale (a share). Raises ValueError for a value outside 0..top.
    """
    if not top > 0:
        raise ValueError(f"a scale must end above 0, not at {top}")
    for row in rows:
        if any(v is not None and not 0 <= v <= top for v in (row.value, row.low, row.high)):
            raise ValueError(f"{row.label}: a value is outside 0..{top}")
    left = label_room([row.label for row in rows])
    plot = WIDTH - left - value_room([_share_text(row) for row in rows])
    legend = legend_entries([row.series for row in rows if row.series])
    indices = {entry.label: entry.index for entry in legend}
    percent = all(row.percent for row in rows)

    def x(value: float) -> float:
        return round(left + plot * value / top, 2)

    marks: list[BarMark] = []
    y = TOP
    for label, group in groupby(rows, key=lambda row: row.label):
        members = list(group)
        step = ROW if len(members) == 1 else BAR + 4
        pad = (ROW - BAR) / 2 if len(members) == 1 else 0.0
        middle = y + (step * len(members)) / 2 + FONT * 0.35
        for place, bar in enumerate(members):
            bar_y = y + place * step + pad
            reach = max(v for v in (bar.value, bar.high, 0.0) if v is not None)
            marks.append(
                BarMark(
                    bar=bar,
                    label=shorten(label, left - GAP) if place == 0 else "",
                    label_y=round(middle, 2),
                    x=left,
                    y=round(bar_y, 2),
                    width=round(x(bar.value) - left, 2) if bar.value is not None else 0.0,
                    height=BAR,
                    mid_y=round(bar_y + BAR / 2, 2),
                    low_x=x(bar.low) if bar.value is not None and bar.low is not None else None,
                    high_x=x(bar.high) if bar.value is not None and bar.high is not None else None,
                    text=_share_text(bar),
                    text_x=(x(reach) if bar.value is not None else left) + 8,
                    index=indices.get(bar.series, 0),
                )
            )
        y += step * len(members) + (GROUP_GAP if len(members) > 1 else 0)
    return BarChart(
        name=name,
        title=title,
        width=WIDTH,
        height=round(y + 6, 2),
        label_x=left - GAP,
        plot_top=TOP - 4,
        plot_bottom=round(y, 2),
        marks=tuple(marks),
        ticks=tuple(AxisTick(x(top * i / 4), interval_mark(top * i / 4, percent=percent)) for i in range(5)),
        legend=legend,
    )


def _share_text(bar: Bar) -> str:
    """'35.7% (51/143)', without the counts where none are given; empty where there is no value."""
    value = format_share(bar.value, percent=bar.percent)
    return value if bar.value is None or bar.denominator is None else f"{value} ({bar.numerator}/{bar.denominator})"
