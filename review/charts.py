"""Numbers into geometry for `templates/review/charts/`. Lengths are SVG user units, one CSS pixel at natural size.

A value of None is missing: a gap, never a zero. Each picture has the same numbers as a table beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import ceil, floor, log10, sqrt

from review.agreement import Estimate
from review.blocks import Points
from review.marks import MARKERS
from review.progress import Day
from review.trust import Dot, Week

MARK = 96.0  # an interval in a table's cell
WIDTH = 600.0
LEFT, RIGHT, TOP = 44.0, 40.0, 12.0  # at the right, half a date fits under the last mark
HEAD = 12.0  # a line of text above a plot
PLOT = WIDTH - LEFT - RIGHT


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale: where, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A dot and its whisker on a scale from 0 to 1; what lies below 0 is drawn at 0, and the number beside it is right."""

    x: float
    low_x: float | None
    high_x: float | None


def mark(estimate: Estimate) -> Mark | None:
    """The picture of one estimate; None where it is not defined."""
    if estimate.value is None:
        return None

    def x(value: float) -> float:
        return round(4 + (MARK - 8) * min(1.0, max(0.0, value)), 2)

    known = estimate.low is not None and estimate.high is not None
    return Mark(
        x(estimate.value),
        x(estimate.low) if known and estimate.low is not None else None,
        x(estimate.high) if known and estimate.high is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """One day: a filled bar for reviews and a hollow one for closed cases, with a label under some."""

    day: Day
    x: float
    reviews_y: float
    reviews_height: float
    closed_x: float
    closed_y: float
    closed_height: float
    label_x: float
    label: date | None


@dataclass(frozen=True, slots=True)
class Bars:
    """Counts by day on one scale."""

    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    bar_width: float
    bottom: float
    height: float
    left: float = LEFT
    width: float = WIDTH
    right: float = WIDTH - RIGHT


def days(rows: Sequence[Day], *, height: float = 200.0) -> Bars:
    """Two bars a day, the last day at the right."""
    bottom = height - 26
    scale = scale_of(max((max(row.reviews, row.closed) for row in rows), default=0), whole=True)
    step = PLOT / max(len(rows), 1)
    bar = round(step * 0.38, 2)

    def tall(count: int) -> float:
        return round((bottom - TOP) * count / scale[-1], 2)

    marks = []
    for index, row in enumerate(rows):
        x = LEFT + step * index + step * 0.1
        marks.append(
            Bar(
                day=row,
                x=round(x, 2),
                reviews_y=round(bottom - tall(row.reviews), 2),
                reviews_height=tall(row.reviews),
                closed_x=round(x + bar + step * 0.04, 2),
                closed_y=round(bottom - tall(row.closed), 2),
                closed_height=tall(row.closed),
                label_x=round(LEFT + step * (index + 0.5), 2),
                label=row.day if (len(rows) - 1 - index) % 7 == 0 else None,
            )
        )
    ticks = tuple(Tick(round(bottom - (bottom - TOP) * value / scale[-1], 2), f"{value:g}") for value in scale)
    return Bars(tuple(marks), ticks, bar, bottom, height)


@dataclass(frozen=True, slots=True)
class Scatter:
    """A dot for each case: words along, minutes up. `clipped`: so many lie above the picture, drawn at its edge."""

    dots: tuple[tuple[float, float], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    bottom: float
    height: float
    clipped: int
    left: float = LEFT
    width: float = WIDTH
    right: float = WIDTH - RIGHT
    top: float = TOP + HEAD


def scatter(dots: Sequence[Dot], *, height: float = 260.0) -> Scatter:
    """Speed against length. The scale of minutes ends at what 19 of 20 cases need: one long lunch flattens nothing."""
    bottom = height - 40
    minutes = sorted(dot.minutes for dot in dots)
    most = minutes[ceil(0.95 * len(minutes)) - 1] if minutes else 0
    x_scale, y_scale = scale_of(max((dot.words for dot in dots), default=0), whole=True), scale_of(most)

    def x(words: float) -> float:
        return round(LEFT + PLOT * words / x_scale[-1], 2)

    def y(value: float) -> float:
        return round(bottom - (bottom - TOP - HEAD) * min(1.0, value / y_scale[-1]), 2)

    return Scatter(
        dots=tuple((x(dot.words), y(dot.minutes)) for dot in dots),
        x_ticks=tuple(Tick(x(value), f"{value:g}") for value in x_scale),
        y_ticks=tuple(Tick(y(value), f"{value:g}") for value in y_scale),
        bottom=bottom,
        height=height,
        clipped=sum(dot.minutes > y_scale[-1] for dot in dots),
    )


POINTS_SHOWN = 2_000  # in one picture and its table
MOST_LIKE = 3.0  # a mark at its largest, in natural sizes
LEAST_LIKE = 0.7


@dataclass(frozen=True, slots=True)
class Spot:
    """A point as drawn: where, and how large (1: the natural size of its mark)."""

    x: float
    y: float
    scale: float
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Points of one group. `index` (0-7) chooses the colour; shape and `hollow` tell sixteen groups apart without it."""

    label: str
    index: int
    marker: str
    hollow: bool
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class Cloud:
    """A block of points. `rows`: label, group, x, y and size of each, for the table; `left_out`: so many are in neither."""

    groups: tuple[Group, ...]
    rows: tuple[tuple[str, str, str, str, str], ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    grouped: bool
    labelled: bool
    sized: bool
    left_out: int
    bottom: float
    height: float
    left: float = LEFT + 8
    width: float = WIDTH
    right: float = WIDTH - RIGHT
    top: float = TOP + HEAD


def cloud(block: Points, *, height: float = 340.0) -> Cloud:
    """Points on two scales that need not begin at 0, a group's points under one shape, larger ones behind smaller ones."""
    shown = block.points[:POINTS_SHOWN]
    left, right, top, bottom = LEFT + 8, WIDTH - RIGHT, TOP + HEAD, height - 40
    x_scale = scale_between([point.x for point in shown])
    y_scale = scale_between([point.y for point in shown])
    largest = max((point.size for point in shown), default=0.0)
    sized = len({point.size for point in shown}) > 1

    def x(value: float) -> float:
        return round(left + (right - left) * (value - x_scale[0]) / (x_scale[-1] - x_scale[0]), 2)

    def y(value: float) -> float:
        return round(bottom - (bottom - top) * (value - y_scale[0]) / (y_scale[-1] - y_scale[0]), 2)

    def scale(size: float) -> float:
        return round(max(LEAST_LIKE, MOST_LIKE * sqrt(size / largest)), 3) if sized else 1.0

    groups = []
    for place, label in enumerate(dict.fromkeys(point.group for point in shown)):
        own = sorted((point for point in shown if point.group == label), key=lambda point: -point.size)
        spots = tuple(
            Spot(x(point.x), y(point.y), scale(point.size), f"{point.label or label}: {point.x:.4g}, {point.y:.4g}")
            for point in own
        )
        groups.append(Group(label, place % 8, MARKERS[place % 8], place % 16 >= 8, spots))
    return Cloud(
        groups=tuple(groups),
        rows=tuple(
            (point.label, point.group, f"{point.x:.4g}", f"{point.y:.4g}", f"{point.size:.4g}") for point in shown
        ),
        x_ticks=tuple(Tick(x(value), f"{value:g}") for value in x_scale),
        y_ticks=tuple(Tick(y(value), f"{value:g}") for value in y_scale),
        grouped=any(point.group for point in shown),
        labelled=any(point.label for point in shown),
        sized=sized,
        left_out=len(block.points) - len(shown),
        bottom=bottom,
        height=height,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """One figure over the weeks: `paths` between its gaps, a dot for each week that has it."""

    paths: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    ticks: tuple[Tick, ...]
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class Drift:
    """Agreement above, minutes a case below, on one axis of weeks."""

    agreed: Line
    minutes: Line
    labels: tuple[tuple[float, date], ...]
    height: float
    left: float = LEFT
    width: float = WIDTH
    right: float = WIDTH - RIGHT


def drift(weeks: Sequence[Week], *, panel: float = 90.0) -> Drift:
    """The weeks in which something was answered, at their true distance."""
    first = weeks[0].monday if weeks else date.min
    span = max((weeks[-1].monday - first).days, 7) if weeks else 7
    xs = [round(LEFT + 8 + (PLOT - 16) * (week.monday - first).days / span, 2) for week in weeks]
    minutes = [week.minutes for week in weeks]
    top = scale_of(max((value for value in minutes if value is not None), default=0))
    second = TOP + panel + 44
    every = ceil(len(weeks) / 6)
    return Drift(
        agreed=_line(xs, [week.agreed.value for week in weeks], [0, 0.5, 1], TOP + 10, panel, "{:.0%}"),
        minutes=_line(xs, minutes, top, second, panel, "{:g}"),
        labels=tuple((x, week.monday) for i, (x, week) in enumerate(zip(xs, weeks, strict=True)) if i % every == 0),
        height=second + panel + 26,
    )


def _line(
    xs: Sequence[float], values: Sequence[float | None], scale: Sequence[float], top: float, tall: float, form: str
) -> Line:
    def y(value: float) -> float:
        return round(top + tall * (1 - value / scale[-1]), 2)

    places = [(x, y(value)) if value is not None else None for x, value in zip(xs, values, strict=True)]
    paths, run = [], []
    for place in [*places, None]:
        if place is not None:
            run.append(f"{place[0]:g} {place[1]:g}")
        elif run:
            if len(run) > 1:
                paths.append("M" + "L".join(run))
            run = []
    dots = tuple(place for place in places if place is not None)
    return Line(tuple(paths), dots, tuple(Tick(y(v), form.format(v)) for v in scale), top, top + tall)


def scale_of(most: float, *, whole: bool = False) -> list[float]:
    """Up to six round steps from 0 to `most` or a little beyond; `whole`: nothing between whole numbers."""
    if most <= 0:
        return [0, 1]
    power = 10 ** int(log10(most) // 1)
    step = next(power * part for part in (0.2, 0.5, 1, 2) if most / (power * part) <= 5)
    if whole:
        step = max(1, step)
    return [round(step * index, 10) for index in range(ceil(most / step - 1e-9) + 1)]


def scale_between(values: Sequence[float]) -> list[float]:
    """Up to seven round steps that hold all of `values`, which may lie anywhere."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # all the same: something to either side
        low, high = (low - 0.5, high + 0.5) if abs(low) < 1 else (low - abs(low) / 2, high + abs(high) / 2)
    power = 10.0 ** floor(log10(high - low))
    step = next(power * part for part in (0.2, 0.5, 1, 2) if (high - low) / (power * part) <= 5)
    first = floor(low / step + 1e-9)
    return [round(step * (first + index), 10) for index in range(ceil(high / step - 1e-9) - first + 1)]
