"""Numbers into geometry. Templates in `templates/evaluation/charts/` draw what is computed here.

Lengths are SVG user units; at its natural size a chart draws one unit as one CSS pixel. Rates are shares from 0 to 1.
A value of None is missing: it is said or left as a gap, and never drawn as zero.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import cos, pi, sin

from review.marks import MARKERS

SERIES = 8  # colours, dash patterns and marker shapes that can be told apart
HEAT_STEPS = 10

FONT = 13.0  # --size-1 of the tokens, rounded up; SVG text is measured with it
WIDTH = 600.0
GAP = 10.0
TOP = 22.0  # room for the scale above the first bar

ROW = 30.0
BAR = 14.0
GROUP_GAP = 12.0
LABEL_ROOM = (70.0, 200.0)

RADAR = 600.0
RADIUS = 165.0
RINGS = (0.25, 0.5, 0.75, 1.0)
DASHES = ("", "7 3", "2 3", "9 3 2 3", "", "5 2", "1 4", "12 4")


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
class Entry:
    """One line of a legend; `index` (0-7) chooses colour, dash and marker. `marker` is a path around (0, 0)."""

    label: str
    index: int
    dash: str
    marker: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale: where, and what it says."""

    at: float
    text: str


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
        return said(self.bar.value, percent=self.bar.percent)

    @property
    def interval_text(self) -> str:
        limits = (said(limit, percent=self.bar.percent) for limit in (self.bar.low, self.bar.high))
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
    ticks: tuple[Tick, ...]
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
    left = _label_room([row.label for row in rows])
    plot = WIDTH - left - _value_room([_share_text(row) for row in rows])
    legend = _legend([row.series for row in rows if row.series])
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
                    label=_shorten(label, left - GAP) if place == 0 else "",
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
        ticks=tuple(Tick(x(top * i / 4), _mark(top * i / 4, percent=percent)) for i in range(5)),
        legend=legend,
    )


@dataclass(frozen=True, slots=True)
class Series:
    """One shape of a radar: a share for each axis, None where nothing was counted; `hrefs` lead behind each."""

    label: str
    values: Sequence[float | None]
    hrefs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """A spoke: its end, and its label in at most two lines with the anchor that keeps it outside the rings."""

    label: str
    x: float
    y: float
    text_x: float
    text_y: float
    anchor: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series on its axis."""

    axis: str
    value: float
    text: str
    x: float
    y: float
    href: str


@dataclass(frozen=True, slots=True)
class RadarShape:
    """A series as drawn: a closed outline, or open `paths` between its gaps; a lone point has a marker and no path."""

    label: str
    index: int
    dash: str
    marker: str
    closed: bool
    paths: tuple[str, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """A circle of the scale: its radius, its share, and where that is written."""

    radius: float
    text: str
    text_y: float


@dataclass(frozen=True, slots=True)
class RadarChart:
    """Series over the same axes on rings from 0 to 1 (the manner of Figure 4). `rows` is the same as a table."""

    name: str
    title: str
    width: float
    height: float
    cx: float
    cy: float
    rings: tuple[Ring, ...]
    axes: tuple[Axis, ...]
    shapes: tuple[RadarShape, ...]
    legend: tuple[Entry, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def tick_x(self) -> float:
        return self.cx + 4


def radar(
    axes: Sequence[str], series: Sequence[Series], *, name: str = "radar", title: str = "", percent: bool = True
) -> RadarChart:
    """The first axis points up, the others follow clockwise at equal angles. `percent`: as of a bar.

    Raises ValueError for more than eight series, a series that does not fit the axes, or a value outside 0..1.
    """
    if len(series) > SERIES:
        raise ValueError(f"{len(series)} series cannot be told apart; {SERIES} can")
    for one in series:
        if len(one.values) != len(axes):
            raise ValueError(f"{one.label}: {len(one.values)} values for {len(axes)} axes")
        if any(v is not None and not 0 <= v <= 1 for v in one.values):
            raise ValueError(f"{one.label}: a value is outside 0..1")
    cx, cy = RADAR / 2, RADIUS + 52

    def at(axis: int, share: float) -> tuple[float, float]:
        angle = 2 * pi * axis / len(axes) - pi / 2
        return round(cx + RADIUS * share * cos(angle), 2), round(cy + RADIUS * share * sin(angle), 2)

    legend = _legend([one.label for one in series])
    return RadarChart(
        name=name,
        title=title,
        width=RADAR,
        height=2 * RADIUS + 104,
        cx=cx,
        cy=cy,
        rings=tuple(
            Ring(round(RADIUS * r, 2), _mark(r, percent=percent), round(cy - RADIUS * r + 12, 2)) for r in RINGS
        ),
        axes=tuple(_axis(label, at(i, 1.0), at(i, 1.08), cx, cy) for i, label in enumerate(axes)),
        shapes=tuple(_shape(axes, one, entry, at, percent) for one, entry in zip(series, legend, strict=True)),
        legend=legend,
        rows=tuple((a, tuple(said(one.values[i], percent=percent) for one in series)) for i, a in enumerate(axes)),
    )


@dataclass(frozen=True, slots=True)
class Amount:
    """How many samples and rubrics one trap has; `group` is its cluster."""

    label: str
    samples: int
    rubrics: int
    href: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class AmountMark:
    """A pair of bars as drawn: samples above, rubrics below, each with its number behind it."""

    amount: Amount
    heading: str  # the cluster, above its first trap
    heading_y: float
    label: str
    label_y: float
    samples_y: float
    rubrics_y: float
    samples_width: float
    rubrics_width: float
    samples_text: str
    rubrics_text: str
    samples_text_x: float
    rubrics_text_x: float
    samples_text_y: float
    rubrics_text_y: float


@dataclass(frozen=True, slots=True)
class DistributionChart:
    """Samples and rubrics over traps, on one scale of counts (the manner of Figure 2)."""

    name: str
    title: str
    width: float
    height: float
    x: float
    label_x: float
    bar_height: float
    marks: tuple[AmountMark, ...]


def distribution(rows: Sequence[Amount], *, name: str = "distribution", title: str = "") -> DistributionChart:
    """Paired bars for `rows`, in their order. Counts and no shares: a sample counts under every trap that it carries."""
    largest = max((max(row.samples, row.rubrics) for row in rows), default=0) or 1
    left = _label_room([row.label for row in rows])
    texts = [str(count) for row in rows for count in (row.samples, row.rubrics)]
    plot = WIDTH - left - _value_room(texts)
    thick = 12.0
    marks: list[AmountMark] = []
    y = 4.0
    group = ""
    for row in rows:
        heading, heading_y = "", 0.0
        if row.group and row.group != group:
            y += 8 if marks else 0
            group, heading, heading_y = row.group, row.group, y + FONT
            y += FONT + 10
        marks.append(
            AmountMark(
                amount=row,
                heading=heading,
                heading_y=heading_y,
                label=_shorten(row.label, left - GAP),
                label_y=round(y + thick + FONT * 0.35 + 1, 2),
                samples_y=y,
                rubrics_y=y + thick + 2,
                samples_width=round(plot * row.samples / largest, 2),
                rubrics_width=round(plot * row.rubrics / largest, 2),
                samples_text=str(row.samples),
                rubrics_text=str(row.rubrics),
                samples_text_x=round(left + plot * row.samples / largest + 6, 2),
                rubrics_text_x=round(left + plot * row.rubrics / largest + 6, 2),
                samples_text_y=y + thick - 1,
                rubrics_text_y=y + 2 * thick + 1,
            )
        )
        y += 2 * thick + 14
    return DistributionChart(
        name=name,
        title=title,
        width=WIDTH,
        height=round(y, 2),
        x=left,
        label_x=left - GAP,
        bar_height=thick,
        marks=tuple(marks),
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """One field of a heat map; `step` (0-9) chooses its shade, None has no value and no shade."""

    value: float | None
    text: str
    step: int | None
    href: str


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A table of shares whose fields are shaded by ten equal steps from 0 to 1."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def heat(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    hrefs: Sequence[Sequence[str]] | None = None,
    *,
    name: str = "heat",
    title: str = "",
    percent: bool = True,
) -> HeatMap:
    """`values` and `hrefs` are row by row; `percent`: as of a bar.

    Raises ValueError unless they fit rows x columns and lie in 0..1.
    """
    links = hrefs if hrefs is not None else [[""] * len(columns) for _ in rows]
    shaded = []
    for label, line, line_links in zip(rows, values, links, strict=True):
        if any(v is not None and not 0 <= v <= 1 for v in line):
            raise ValueError(f"{label}: a value is outside 0..1")
        if len(line) != len(columns):
            raise ValueError(f"{label}: {len(line)} values for {len(columns)} columns")
        cells = tuple(
            Cell(v, said(v, percent=percent), heat_step(v) if v is not None else None, href)
            for v, href in zip(line, line_links, strict=True)
        )
        shaded.append((label, cells))
    return HeatMap(name, title, tuple(columns), tuple(shaded))


def heat_step(share: float) -> int:
    """The step (0-9) of a share from 0 to 1; 1 itself belongs to the last."""
    return min(int(share * HEAT_STEPS), HEAT_STEPS - 1)


def _legend(labels: Sequence[str]) -> tuple[Entry, ...]:
    distinct = list(dict.fromkeys(labels))
    if len(distinct) > SERIES:
        raise ValueError(f"{len(distinct)} series cannot be told apart; {SERIES} can")
    return tuple(Entry(label, i, DASHES[i], MARKERS[i]) for i, label in enumerate(distinct))


def _axis(label: str, end: tuple[float, float], text: tuple[float, float], cx: float, cy: float) -> Axis:
    lines = _two_lines(label)
    anchor = "middle" if abs(text[0] - cx) < 1 else "start" if text[0] > cx else "end"
    # Above the centre the last line sits at the spoke's end, below it the first does, beside it the middle.
    lift = (len(lines) - 1) * FONT * 1.2
    share = 0.5 - max(-0.5, min(0.5, (text[1] - cy) / (2 * RADIUS)))
    return Axis(label, end[0], end[1], text[0], round(text[1] + FONT * 0.35 - lift * share, 2), anchor, lines)


def _shape(
    axes: Sequence[str],
    series: Series,
    entry: Entry,
    at: Callable[[int, float], tuple[float, float]],
    percent: bool,
) -> RadarShape:
    n = len(axes)
    points = [None if v is None else (*at(i, v), v) for i, v in enumerate(series.values)]
    missing = [i for i, point in enumerate(points) if point is None]
    runs: list[list[int]] = []
    if missing:
        # Begin behind a gap, so that a run across the top of the circle stays whole.
        for i in ((missing[0] + step) % n for step in range(n)):
            if points[i] is None:
                runs.append([])
            else:
                runs[-1].append(i)
    else:
        runs.append(list(range(n)))
    paths = []
    for run in runs:
        if len(run) > 1:
            joined = "L".join(f"{p[0]:g} {p[1]:g}" for p in (points[i] for i in run) if p is not None)
            paths.append(f"M{joined}{'' if missing else 'Z'}")
    return RadarShape(
        label=series.label,
        index=entry.index,
        dash=entry.dash,
        marker=entry.marker,
        closed=not missing,
        paths=tuple(paths),
        points=tuple(
            Point(axes[i], p[2], said(p[2], percent=percent), p[0], p[1], series.hrefs[i] if series.hrefs else "")
            for i, p in enumerate(points)
            if p is not None
        ),
    )


def said(value: float | None, *, percent: bool = True) -> str:
    """A share as '35.7%', or as '0.357'; empty where there is none."""
    return "" if value is None else f"{value:.1%}" if percent else f"{value:.3f}"


def _mark(value: float, *, percent: bool) -> str:
    return f"{value:.0%}" if percent else f"{value:.2f}"


def _share_text(bar: Bar) -> str:
    """'35.7% (51/143)', without the counts where none are given; empty where there is no value."""
    value = said(bar.value, percent=bar.percent)
    return value if bar.value is None or bar.denominator is None else f"{value} ({bar.numerator}/{bar.denominator})"


def _advance(character: str) -> float:
    """About how wide a character is, in em: a CJK character fills its square."""
    return 1.0 if unicodedata.east_asian_width(character) in "WF" else 0.62


def _measure(text: str) -> float:
    return FONT * sum(map(_advance, text))


def _label_room(labels: Sequence[str]) -> float:
    least, most = LABEL_ROOM
    return round(min(most, max([least, *(_measure(label) + GAP for label in labels)])), 2)


def _value_room(texts: Sequence[str]) -> float:
    """What stands behind a bar that fills the scale."""
    return round(max([40.0, *map(_measure, texts)]) + 10, 2)


def _shorten(text: str, room: float) -> str:
    """`text`, or as much of it as fits in `room` before an ellipsis; the whole stands in the mark's title and the table."""
    if _measure(text) <= room:
        return text
    kept = text
    while kept and _measure(kept + "…") > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def _two_lines(text: str) -> tuple[str, ...]:
    """Broken at the space nearest the middle, where a line would be long."""
    if _measure(text) <= 110 or " " not in text:
        return (_shorten(text, 150),)
    middle = min((i for i, c in enumerate(text) if c == " "), key=lambda i: abs(i - len(text) / 2))
    return _shorten(text[:middle], 150), _shorten(text[middle + 1 :], 150)
