"""Charts as self-contained SVG files, in the colours of the light theme.

Bars, boxes and heat maps, which are tables on pages, are drawn here. All sizes are SVG user units.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string

from review.charts.bars import BarChart
from review.charts.boxes import BoxChart
from review.charts.flow import FlowChart
from review.charts.heat_map import HEAT_STEPS, HeatMap
from review.charts.radar import RadarChart
from review.charts.text_measure import FONT, LegendEntry, text_width, wrap


@dataclass(frozen=True, slots=True)
class StageBox:
    """A stage: how many arrived, `gained` on the way to it, and `lost` before the next one."""

    label: str
    count: int
    gained: tuple[tuple[str, int], ...] = ()
    lost: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class StageChart:
    """A flow diagram after CONSORT: boxes in a column, and beside each what left there."""

    name: str
    title: str
    boxes: tuple[StageBox, ...]


Chart = BarChart | BoxChart | FlowChart | HeatMap | RadarChart

WIDTH = 720.0
MARGIN = 20.0
LINE_HEIGHT = 18.0
ROW_HEIGHT = 26.0
MAX_LABEL_WIDTH = 230.0  # of the row labels
VALUES_WIDTH = 200.0  # room for the texts beside a bar
GAP = 12.0


@dataclass(frozen=True, slots=True)
class Label:
    """A text with a colour and an SVG text anchor."""

    x: float
    y: float
    text: str
    colour: str
    anchor: str = "start"
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A path, translated to (x, y); `fill` and `stroke` are colours or 'none'."""

    path: str
    fill: str = "none"
    stroke: str = "none"
    width: float = 1.0
    dash: str = ""
    opacity: float = 1.0
    x: float = 0.0
    y: float = 0.0


@cache
def palette() -> Mapping[str, str]:
    """The colours of the light theme, by the names of their CSS tokens."""
    path = finders.find("mhb/css/tokens.css")
    light = Path(str(path)).read_text(encoding="utf-8").partition(":root {")[2].partition("\n}")[0]
    return dict(re.findall(r"--([\w-]{1,40}): (#[0-9a-f]{6})\b", light))


class _Canvas:
    """The shapes and texts drawn so far. Colours are named by their CSS tokens."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []
        self.texts: list[Label] = []

    def text(
        self, x: float, y: float, text: str, colour: str = "ink", anchor: str = "start", *, bold: bool = False
    ) -> None:
        self.texts.append(Label(x, y, text, palette()[colour], anchor, bold))

    def shape(self, path: str, fill: str = "none", stroke: str = "none", **rest: Any) -> None:
        colours = {"none": "none", **palette()}
        self.shapes.append(Shape(path, colours[fill], colours[stroke], **rest))

    def bar(self, x: float, y: float, width: float, height: float, sign: LegendEntry) -> None:
        series, path = f"series-{sign.index}", _box(x, y, width, height)
        if sign.hollow:
            self.shape(path, "surface", series)
        else:
            self.shape(path, series)

    def row_label(self, left: float, middle: float, label: str, margin: float) -> float:
        """Write the label of a row, to the left of it; returns the height that the row needs."""
        lines = wrap(label, MAX_LABEL_WIDTH)
        for index, line in enumerate(lines):
            lift = (index - (len(lines) - 1) / 2) * FONT * 1.1
            self.text(left - GAP, middle + lift + FONT * 0.35, line, anchor="end")
        return max(ROW_HEIGHT, len(lines) * FONT * 1.1 + margin)

    def scale(self, ticks: Sequence[str], left: float, plot: float, top: float, bottom: float) -> None:
        """Draw the ticks above a plot, and their lines under everything else."""
        for index, tick in enumerate(ticks):
            x = left + plot * index / max(len(ticks) - 1, 1)
            self.shapes.insert(0, Shape(f"M{x:g} {top:g}V{bottom:g}", stroke=palette()["line"]))
            self.text(x, top - 5, tick, "ink-2", "middle")

    def legend(self, entries: Sequence[LegendEntry], y: float, *, lines: bool) -> float:
        """Draw a legend if there is more than one series; returns the y below it."""
        if len(entries) < 2:
            return y
        x = MARGIN
        for entry in entries:
            entry_width = 40 + text_width(entry.label) + 2 * GAP
            if x > MARGIN and x + entry_width > WIDTH - MARGIN:
                x, y = MARGIN, y + LINE_HEIGHT
            if lines:
                self.shape(f"M{x:g} {y + 8:g}h34", stroke=f"series-{entry.index}", width=2, dash=entry.dash)
                self.shape(entry.marker, f"series-{entry.index}", x=x + 17, y=y + 8)
            else:
                self.bar(x + 8, y + 2, 20, 12, entry)
            self.text(x + 40, y + 8 + FONT * 0.35, entry.label)
            x += entry_width
        return y + LINE_HEIGHT + GAP


def svg(chart: Chart | StageChart, title: str, notes: Iterable[str]) -> str:
    """The SVG file of a chart, with the title above and the notes below it."""
    draw = {
        BarChart: _bars,
        BoxChart: _boxes,
        FlowChart: _flow,
        HeatMap: _heat,
        RadarChart: _radar,
        StageChart: _stages,
    }[type(chart)]
    canvas = _Canvas()
    y = MARGIN + FONT
    for line in wrap(title, WIDTH - 2 * MARGIN):
        canvas.text(MARGIN, y, line, bold=True)
        y += LINE_HEIGHT
    y = draw(chart, y + GAP / 2, canvas)  # type: ignore[operator]
    y += GAP
    for note in notes:
        for line in wrap(note, WIDTH - 2 * MARGIN):
            y += LINE_HEIGHT
            canvas.text(MARGIN, y, line, "ink-2")
    context = {"title": title, "drawn": canvas, "width": WIDTH, "height": round(y + MARGIN, 2)}
    return render_to_string("review/charts/standalone.svg", {**context, "surface": palette()["surface"], "font": FONT})


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}Z"


def _plot(labels: Iterable[str], values_width: float = VALUES_WIDTH) -> tuple[float, float]:
    """Where the plot beside these labels begins, and its width."""
    width = 0.0
    for label in labels:
        width = max(width, *map(text_width, wrap(label, MAX_LABEL_WIDTH)))
    left = MARGIN + min(width, MAX_LABEL_WIDTH) + GAP
    return left, WIDTH - MARGIN - values_width - left


def _bars(chart: BarChart, y: float, canvas: _Canvas) -> float:
    y = canvas.legend(chart.legend, y, lines=False)
    left, plot = _plot(mark.label for mark in chart.marks)
    if chart.ticks:
        y += LINE_HEIGHT
    top = y
    for mark in chart.marks:
        if mark.heading:
            y += LINE_HEIGHT
            canvas.text(MARGIN, y, mark.heading, bold=True)
            y += GAP / 2
        middle = y + ROW_HEIGHT / 2
        height = ROW_HEIGHT
        if mark.leads:
            height = canvas.row_label(left, middle, mark.label, 6)
        canvas.bar(left, middle - 7, plot * mark.width / 100, 14, mark.sign)
        if mark.low is not None and mark.high is not None:
            low, high = left + plot * mark.low / 100, left + plot * mark.high / 100
            whisker = f"M{low:g} {middle:g}H{high:g}M{low:g} {middle - 4:g}v8M{high:g} {middle - 4:g}v8"
            canvas.shape(whisker, stroke="ink", width=1.5)
        text = "  ".join(filter(None, (mark.text or "–", mark.interval, mark.count)))
        canvas.text(left + plot + GAP, middle + FONT * 0.35, text)
        y += height
    canvas.scale(chart.ticks, left, plot, top, y)
    return y


def _boxes(chart: BoxChart, y: float, canvas: _Canvas) -> float:
    left, plot = _plot(mark.box.label for mark in chart.marks)
    top = y = y + LINE_HEIGHT
    for mark in chart.marks:
        middle = y + ROW_HEIGHT / 2
        height = canvas.row_label(left, middle, mark.box.label, 6)
        if mark.at:
            low, first, median, third, high = (left + plot * position / 100 for position in mark.at)
            line = f"M{low:g} {middle:g}H{first:g}M{third:g} {middle:g}H{high:g}"
            line += f"M{low:g} {middle - 4:g}v8M{high:g} {middle - 4:g}v8"
            canvas.shape(line, stroke="ink", width=1.5)
            canvas.shape(_box(first, middle - 6, third - first, 12), "surface", "series-0", width=1.5)
            canvas.shape(f"M{median:g} {middle - 6:g}v12", stroke="ink", width=1.5)
        if mark.mean is not None:
            x = left + plot * mark.mean / 100
            canvas.shape(f"M{x - 3:g} {middle:g}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", "ink")
        text = "  ".join(filter(None, (mark.text or "–", mark.box.note)))
        canvas.text(left + plot + GAP, middle + FONT * 0.35, text)
        y += height
    canvas.scale(chart.ticks, left, plot, top, y)
    return y


def _heat(chart: HeatMap, y: float, canvas: _Canvas) -> float:
    left, plot = _plot((label for label, _cells in chart.rows), values_width=0)
    width = plot / max(len(chart.columns), 1)
    headings = [wrap(column, width - 6) for column in chart.columns]
    y += max((len(lines) for lines in headings), default=0) * LINE_HEIGHT
    for index, lines in enumerate(headings):
        for row, line in enumerate(reversed(lines)):
            canvas.text(left + width * (index + 0.5), y - 6 - row * LINE_HEIGHT, line, "ink-2", "middle")
    for label, cells in chart.rows:
        height = max(ROW_HEIGHT, len(wrap(label, MAX_LABEL_WIDTH)) * FONT * 1.1 + 8)
        middle = y + height / 2
        canvas.row_label(left, middle, label, 8)
        for index, cell in enumerate(cells):
            ink = "ink-2"
            if cell.step is not None:
                canvas.shape(_box(left + width * index, y, width - 1, height - 1), f"heat-{cell.step}")
                ink = "heat-ink-high"
                if cell.step < HEAT_STEPS / 2:
                    ink = "heat-ink-low"
            canvas.text(left + width * (index + 0.5), middle + FONT * 0.35, cell.text or "–", ink, "middle")
        y += height
    return y


def _flow(chart: FlowChart, y: float, canvas: _Canvas) -> float:
    dx = (WIDTH - chart.width) / 2
    y += LINE_HEIGHT
    first, last = chart.nodes[0], chart.nodes[-1]
    canvas.text(first.x + dx, y + 8, chart.heads[0], "ink-2", "start")
    canvas.text(last.x + chart.column + dx, y + 8, chart.heads[1], "ink-2", "end")
    for band in chart.bands:
        canvas.shape(band.path, _FLOW_COLOURS.get(band.stream.kind, "line"), opacity=_FLOW_OPACITY, x=dx, y=y)
    for node in chart.nodes:
        canvas.shape(_box(node.x, node.y, chart.column, node.height), "ink", x=dx, y=y)
        canvas.text(node.text_x + dx, node.text_y + y, f"{node.label} {node.count}", anchor=node.anchor)
    y += chart.height + GAP
    for stream in chart.streams:
        canvas.shape(_box(MARGIN, y, 12, 12), _FLOW_COLOURS.get(stream.kind, "line"), opacity=_FLOW_OPACITY)
        canvas.text(MARGIN + 20, y + 11, f"{stream.label}: {stream.count}")
        y += LINE_HEIGHT
    return y


_FLOW_COLOURS, _FLOW_OPACITY = {"fixed": "added", "broken": "removed"}, 0.55  # as in charts.css


def _radar(chart: RadarChart, y: float, canvas: _Canvas) -> float:
    y = canvas.legend(chart.legend, y, lines=True)
    dx = (WIDTH - chart.width) / 2
    cx, cy = chart.cx + dx, chart.cy + y
    for ring in chart.rings:
        r = ring.radius
        canvas.shape(f"M{cx - r:g} {cy:g}a{r:g} {r:g} 0 1 0 {2 * r:g} 0a{r:g} {r:g} 0 1 0 {-2 * r:g} 0", stroke="line")
    for axis in chart.axes:
        canvas.shape(f"M{cx:g} {cy:g}L{axis.x + dx:g} {axis.y + y:g}", stroke="line")
        for index, line in enumerate(axis.lines):
            canvas.text(axis.text_x + dx, axis.text_y + y + index * FONT * 1.2, line, anchor=axis.anchor)
    for shape in chart.shapes:
        series = f"series-{shape.sign.index}"
        for path in shape.paths:
            canvas.shape(path, stroke=series, width=2, dash=shape.sign.dash, x=dx, y=y)
            if shape.closed:
                canvas.shape(path, series, opacity=0.05, x=dx, y=y)
        for point in shape.points:
            canvas.shape(shape.sign.marker, series, "surface", x=point.x + dx, y=point.y + y)
    for ring in chart.rings:
        canvas.text(chart.tick_x + dx, ring.text_y + y, ring.text, "ink-2")
    return y + chart.height


STAGE_WIDTH, SIDE_X = 270.0, 330.0  # of the column of stages; where the boxes beside it begin


def _stages(chart: StageChart, y: float, canvas: _Canvas) -> float:
    side_width = WIDTH - MARGIN - SIDE_X
    middle = MARGIN + STAGE_WIDTH / 2
    for index, box in enumerate(chart.boxes):
        added: list[str] = []
        side: list[str] = []
        for label, n in box.gained:
            added += wrap(f"+ {n} {label}", STAGE_WIDTH - 2 * GAP)
        for label, n in box.lost:
            side += wrap(f"{n} {label}", side_width - 2 * GAP)
        main = [*wrap(f"{box.label}: {box.count}", STAGE_WIDTH - 2 * GAP), *added]
        height = len(main) * LINE_HEIGHT + GAP
        side_height = 0.0
        if side:
            side_height = len(side) * LINE_HEIGHT + GAP
        canvas.shape(_box(MARGIN, y, STAGE_WIDTH, height), "surface", "ink-2")
        for row, line in enumerate(main):
            at = y + GAP / 2 + FONT + row * LINE_HEIGHT
            canvas.text(MARGIN + GAP, at, line, bold=row < len(main) - len(added))
        y += height
        if index == len(chart.boxes) - 1:
            break
        step = max(side_height + 2 * GAP, 2 * LINE_HEIGHT)
        if side:
            top = y + (step - side_height) / 2
            canvas.shape(f"M{middle:g} {y + step / 2:g}H{SIDE_X:g}", stroke="ink-2")
            canvas.shape(_box(SIDE_X, top, side_width, side_height), stroke="line")
            for row, line in enumerate(side):
                canvas.text(SIDE_X + GAP, top + GAP / 2 + FONT + row * LINE_HEIGHT, line)
        canvas.shape(f"M{middle:g} {y:g}V{y + step - 6:g}", stroke="ink-2")
        canvas.shape(f"M{middle - 4:g} {y + step - 8:g}h8l-4 8Z", "ink-2")
        y += step
    return y
