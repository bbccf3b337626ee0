"""Radar charts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from review.charts.text_measure import (
    FONT,
    MAX_SERIES,
    SHARE_TICKS,
    LegendEntry,
    check_shares,
    format_share,
    format_tick,
    legend_entries,
    wrap,
)

SIZE = 600.0
RADIUS = 165.0
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

    label: str
    index: int
    dash: str
    marker: str
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
    width: float
    height: float
    cx: float
    cy: float
    rings: tuple[Ring, ...]
    axes: tuple[Axis, ...]
    shapes: tuple[RadarShape, ...]
    legend: tuple[LegendEntry, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def tick_x(self) -> float:
        return self.cx + 4


def radar(
    axes: Sequence[str], series: Sequence[Series], *, name: str = "radar", title: str = "", percent: bool = True
) -> RadarChart:
    """A radar chart.

    The first axis points up, the others follow clockwise. `percent` is as in `Bar`.

    Raises ValueError for more than eight series, a series that does not fit the axes, or a value
    outside 0..1.
    """
    if len(series) > MAX_SERIES:
        raise ValueError(f"{len(series)} series cannot be told apart; {MAX_SERIES} can")
    for entry in series:
        if len(entry.values) != len(axes):
            raise ValueError(f"{entry.label}: {len(entry.values)} values for {len(axes)} axes")
        check_shares(entry.label, entry.values)
    cx, cy = SIZE / 2, RADIUS + 52

    def position(axis: int, share: float) -> tuple[float, float]:
        angle = 2 * pi * axis / len(axes) - pi / 2
        return round(cx + RADIUS * share * cos(angle), 2), round(cy + RADIUS * share * sin(angle), 2)

    legend = legend_entries([one.label for one in series])
    return RadarChart(
        name=name,
        title=title,
        width=SIZE,
        height=2 * RADIUS + 104,
        cx=cx,
        cy=cy,
        rings=tuple(
            Ring(round(RADIUS * r, 2), format_tick(r, percent=percent), round(cy - RADIUS * r + 12, 2))
            for r in SHARE_TICKS[1:]
        ),
        axes=tuple(_axis(label, position(i, 1.0), position(i, 1.08), cx, cy) for i, label in enumerate(axes)),
        shapes=tuple(_shape(axes, one, entry, position, percent) for one, entry in zip(series, legend, strict=True)),
        legend=legend,
        rows=tuple(
            (
                a,
                tuple(
                    format_share(one.values[i], percent=percent) or (one.notes[i] if one.notes else "")
                    for one in series
                ),
            )
            for i, a in enumerate(axes)
        ),
    )


def _axis(label: str, end: tuple[float, float], text: tuple[float, float], cx: float, cy: float) -> Axis:
    lines = wrap(label, LABEL_WIDTH)
    anchor = "middle" if abs(text[0] - cx) < 1 else "start" if text[0] > cx else "end"
    # Which line is level with the end of the spoke: above the centre the last, below it the first,
    # beside it the middle one.
    lift = (len(lines) - 1) * FONT * 1.2
    share = 0.5 - max(-0.5, min(0.5, (text[1] - cy) / (2 * RADIUS)))
    return Axis(label, end[0], end[1], text[0], round(text[1] + FONT * 0.35 - lift * share, 2), anchor, lines)


def _shape(
    axes: Sequence[str],
    series: Series,
    entry: LegendEntry,
    position: Callable[[int, float], tuple[float, float]],
    percent: bool,
) -> RadarShape:
    n = len(axes)
    points = [None if v is None else (*position(i, v), v) for i, v in enumerate(series.values)]
    missing = [i for i, point in enumerate(points) if point is None]
    runs: list[list[int]] = []
    if missing:
        # Begin after a gap, so that a run across the top of the circle is not split.
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
            RadarPoint(
                axes[i], p[2], format_share(p[2], percent=percent), p[0], p[1], series.hrefs[i] if series.hrefs else ""
            )
            for i, p in enumerate(points)
            if p is not None
        ),
    )
