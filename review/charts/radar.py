"""Radar charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from review.charts.text_measure import (
    FONT,
    SHARE_TICKS,
    LegendEntry,
    format_share,
    format_tick,
    legend_entries,
    wrap,
)

MIN_AXES = 3  # with fewer it is only a line
SIZE = 600.0
RADIUS = 165.0
CX, CY = SIZE / 2, RADIUS + 52  # the centre
LABEL_WIDTH = 125.0  # of one line


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a radar chart: a share for each axis, None if it is missing.

    `hrefs` and `notes` are by axis, too: links to the answers, and why a value is missing.
    """

    label: str
    values: Sequence[float | None]
    hrefs: Sequence[str] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """A spoke: its end, and its wrapped label, anchored so that it stays outside the rings."""

    label: str
    x: float
    y: float
    text_x: float
    text_y: float
    anchor: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RadarPoint:
    """One value of a series on its axis."""

    axis: str
    value: float
    text: str
    x: float
    y: float
    href: str


@dataclass(frozen=True, slots=True)
class RadarShape:
    """A series as drawn: a closed outline, or open `paths` between gaps."""

    sign: LegendEntry
    closed: bool
    paths: tuple[str, ...]
    points: tuple[RadarPoint, ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """A circle of the scale: its radius, and the text and position of its label."""

    radius: float
    text: str
    text_y: float


@dataclass(frozen=True, slots=True)
class RadarChart:
    """Series over the same axes, from 0 to 1, as in the paper's Figure 4.

    `rows` is the data table.
    """

    name: str
    title: str
    rings: tuple[Ring, ...]
    axes: tuple[Axis, ...]
    shapes: tuple[RadarShape, ...]
    legend: tuple[LegendEntry, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    width: float = SIZE
    height: float = 2 * RADIUS + 104
    cx: float = CX
    cy: float = CY
    tick_x: float = CX + 4


def radar(
    axes: Sequence[str], series: Sequence[Series], *, name: str = "radar", title: str = "", percent: bool = True
) -> RadarChart:
    """A radar chart.

    The first axis points up, the others follow clockwise. `percent` is as in `Bar`.

    Raises ValueError for more than eight series.
    """
    ends = []
    for index in range(len(axes)):
        angle = 2 * pi * index / len(axes) - pi / 2
        ends.append((cos(angle), sin(angle)))
    legend = legend_entries([values.label for values in series])
    rings = []
    for share in SHARE_TICKS[1:]:
        text = format_tick(share, percent=percent)
        rings.append(Ring(round(RADIUS * share, 2), text, round(CY - RADIUS * share + 12, 2)))
    shapes = []
    for values, sign in zip(series, legend, strict=True):
        shapes.append(_shape(axes, values, sign, ends, percent))
    rows = []
    for index, axis in enumerate(axes):
        rows.append((axis, tuple(_text(values, index, percent) for values in series)))
    return RadarChart(
        name=name,
        title=title,
        rings=tuple(rings),
        axes=tuple(_axis(label, *end) for label, end in zip(axes, ends, strict=True)),
        shapes=tuple(shapes),
        legend=legend,
        rows=tuple(rows),
    )


def _text(series: Series, axis: int, percent: bool) -> str:
    text = format_share(series.values[axis], percent=percent)
    if not text and series.notes:
        return series.notes[axis]
    return text


def _place(x: float, y: float, share: float) -> tuple[float, float]:
    """The place on the spoke that ends at (x, y) of the unit circle."""
    return round(CX + RADIUS * share * x, 2), round(CY + RADIUS * share * y, 2)


def _axis(label: str, x: float, y: float) -> Axis:
    lines = wrap(label, LABEL_WIDTH)
    text_x, text_y = _place(x, y, 1.08)
    anchor = "end"
    if text_x > CX:
        anchor = "start"
    if abs(text_x - CX) < 1:
        anchor = "middle"
    # Which line is level with the end of the spoke: above the centre the last, below it the first,
    # beside it the middle one.
    lift = (len(lines) - 1) * FONT * 1.2
    share = 0.5 - max(-0.5, min(0.5, (text_y - CY) / (2 * RADIUS)))
    return Axis(label, *_place(x, y, 1.0), text_x, round(text_y + FONT * 0.35 - lift * share, 2), anchor, lines)


def _shape(
    axes: Sequence[str],
    series: Series,
    sign: LegendEntry,
    ends: Sequence[tuple[float, float]],
    percent: bool,
) -> RadarShape:
    places: list[tuple[float, float] | None] = []
    points = []
    for index, (axis, value, end) in enumerate(zip(axes, series.values, ends, strict=True)):
        if value is None:
            places.append(None)
            continue
        x, y = _place(*end, value)
        places.append((x, y))
        href = ""
        if series.hrefs:
            href = series.hrefs[index]
        points.append(RadarPoint(axis, value, format_share(value, percent=percent), x, y, href))
    is_closed = None not in places
    if is_closed:
        first_gap, close = -1, "Z"
    else:
        first_gap, close = places.index(None), ""
    paths, run = list[str](), list[str]()
    # Begin after a gap, so that a run across the top of the circle is not split.
    for place in [*places[first_gap + 1 :], *places[: first_gap + 1], None]:
        if place is not None:
            run.append(f"{place[0]:g} {place[1]:g}")
            continue
        if len(run) > 1:
            paths.append(f"M{'L'.join(run)}{close}")
        run = []
    return RadarShape(sign=sign, closed=is_closed, paths=tuple(paths), points=tuple(points))
