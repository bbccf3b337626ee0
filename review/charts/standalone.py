"""Charts as self-contained SVG files, in the colours of the light theme.

Bars, boxes and heat maps, which are tables on pages, are drawn here. All sizes are SVG user units.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string

from review.charts.bars import BarChart
from review.charts.boxes import BoxChart
from review.charts.flow import FlowChart
from review.charts.heat_map import HEAT_STEPS, HeatMap
from review.charts.radar import RadarChart
from review.charts.stages import StageChart
from review.charts.text_measure import FONT, LegendEntry, text_width, wrap

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


@dataclass(frozen=True, slots=True)
class Drawing:
    """The shapes and texts of a file, in drawing order."""

    width: float
    height: float
    title: str
    surface: str
    font: float
    shapes: tuple[Shape, ...]
    texts: tuple[Label, ...]


@cache
def palette() -> Mapping[str, str]:
    """The colours of the light theme, by the names of their CSS tokens."""
    path = finders.find("mhb/css/tokens.css")
    light = Path(str(path)).read_text(encoding="utf-8").partition(":root {")[2].partition("\n}")[0]
    return dict(re.findall(r"--([\w-]{1,40}): (#[0-9a-f]{6})\b", light))


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
    colours = palette()
    shapes: list[Shape] = []
    texts: list[Label] = []
    y = MARGIN + FONT
    for line in wrap(title, WIDTH - 2 * MARGIN):
        texts.append(Label(MARGIN, y, line, colours["ink"], bold=True))
        y += LINE_HEIGHT
    y = draw(chart, y + GAP / 2, shapes, texts)  # type: ignore[operator]
    y += GAP
    for note in notes:
        for line in wrap(note, WIDTH - 2 * MARGIN):
            y += LINE_HEIGHT
            texts.append(Label(MARGIN, y, line, colours["ink-2"]))
    drawing = Drawing(WIDTH, round(y + MARGIN, 2), title, colours["surface"], FONT, tuple(shapes), tuple(texts))
    return render_to_string("review/charts/standalone.svg", {"drawing": drawing})


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:g} {y:g}h{width:g}v{height:g}h{-width:g}Z"


def _series(entry: LegendEntry) -> str:
    return palette()[f"series-{entry.index}"]


def _legend(entries: Sequence[LegendEntry], y: float, shapes: list[Shape], texts: list[Label], *, lines: bool) -> float:
    """Draw a legend if there is more than one series; returns the y below it."""
    if len(entries) < 2:
        return y
    x, ink = MARGIN, palette()["ink"]
    for entry in entries:
        entry_width = 40 + text_width(entry.label) + 2 * GAP
        if x > MARGIN and x + entry_width > WIDTH - MARGIN:
            x, y = MARGIN, y + LINE_HEIGHT
        colour = _series(entry)
        if lines:
            shapes.append(Shape(f"M{x:g} {y + 8:g}h34", stroke=colour, width=2, dash=entry.dash))
            shapes.append(Shape(entry.marker, fill=colour, x=x + 17, y=y + 8))
        else:
            shapes.append(_bar(x + 8, y + 2, 20, 12, colour, hollow=entry.hollow))
        texts.append(Label(x + 40, y + 8 + FONT * 0.35, entry.label, ink))
        x += entry_width
    return y + LINE_HEIGHT + GAP


def _bar(x: float, y: float, width: float, height: float, colour: str, *, hollow: bool) -> Shape:
    path = _box(x, y, width, height)
    return Shape(path, palette()["surface"] if hollow else colour, colour if hollow else "none")


def _bars(chart: BarChart, y: float, shapes: list[Shape], texts: list[Label]) -> float:
    colours = palette()
    y = _legend(chart.legend, y, shapes, texts, lines=False)
    label_width = max(
        (text_width(line) for mark in chart.marks for line in wrap(mark.label, MAX_LABEL_WIDTH)), default=0.0
    )
    left = MARGIN + min(label_width, MAX_LABEL_WIDTH) + GAP
    plot = WIDTH - MARGIN - VALUES_WIDTH - left
    top = y + (LINE_HEIGHT if chart.ticks else 0)
    shares = [index / (len(chart.ticks) - 1) for index in range(len(chart.ticks))] if chart.ticks else []
    grid_position = len(shapes)
    y = top
    for mark in chart.marks:
        if mark.heading:
            y += LINE_HEIGHT
            texts.append(Label(MARGIN, y, mark.heading, colours["ink"], bold=True))
            y += GAP / 2
        lines = wrap(mark.label, MAX_LABEL_WIDTH) if mark.leads else ()
        middle = y + ROW_HEIGHT / 2
        for index, line in enumerate(lines):
            lift = (index - (len(lines) - 1) / 2) * FONT * 1.1
            texts.append(Label(left - GAP, middle + lift + FONT * 0.35, line, colours["ink"], "end"))
        shapes.append(_bar(left, middle - 7, plot * mark.width / 100, 14, _series(mark.sign), hollow=mark.sign.hollow))
        if mark.low is not None and mark.high is not None:
            low, high = left + plot * mark.low / 100, left + plot * mark.high / 100
            whisker = f"M{low:g} {middle:g}H{high:g}M{low:g} {middle - 4:g}v8M{high:g} {middle - 4:g}v8"
            shapes.append(Shape(whisker, stroke=colours["ink"], width=1.5))
        text = "  ".join(part for part in (mark.text or "–", mark.interval, mark.count) if part)
        texts.append(Label(left + plot + GAP, middle + FONT * 0.35, text, colours["ink"]))
        y += max(ROW_HEIGHT, len(lines) * FONT * 1.1 + 6)
    for share, tick in zip(shares, chart.ticks, strict=True):
        x = left + plot * share
        shapes.insert(grid_position, Shape(f"M{x:g} {top:g}V{y:g}", stroke=colours["line"]))
        texts.append(Label(x, top - 5, tick, colours["ink-2"], "middle"))
    return y


def _boxes(chart: BoxChart, y: float, shapes: list[Shape], texts: list[Label]) -> float:
    colours = palette()
    label_width = max(
        (text_width(line) for mark in chart.marks for line in wrap(mark.label, MAX_LABEL_WIDTH)), default=0.0
    )
    left = MARGIN + min(label_width, MAX_LABEL_WIDTH) + GAP
    plot = WIDTH - MARGIN - VALUES_WIDTH - left
    top = y = y + LINE_HEIGHT
    for mark in chart.marks:
        lines = wrap(mark.label, MAX_LABEL_WIDTH)
        middle = y + ROW_HEIGHT / 2
        for index, line in enumerate(lines):
            lift = (index - (len(lines) - 1) / 2) * FONT * 1.1
            texts.append(Label(left - GAP, middle + lift + FONT * 0.35, line, colours["ink"], "end"))
        if mark.at:
            low, first, median, third, high = (left + plot * position / 100 for position in mark.at)
            line = f"M{low:g} {middle:g}H{first:g}M{third:g} {middle:g}H{high:g}"
            line += f"M{low:g} {middle - 4:g}v8M{high:g} {middle - 4:g}v8"
            shapes.append(Shape(line, stroke=colours["ink"], width=1.5))
            box = _box(first, middle - 6, third - first, 12)
            shapes.append(Shape(box, fill=colours["surface"], stroke=colours["series-0"], width=1.5))
            shapes.append(Shape(f"M{median:g} {middle - 6:g}v12", stroke=colours["ink"], width=1.5))
        if mark.mean is not None:
            x = left + plot * mark.mean / 100
            shapes.append(Shape(f"M{x - 3:g} {middle:g}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", fill=colours["ink"]))
        text = "  ".join(part for part in (mark.text or "–", mark.note) if part)
        texts.append(Label(left + plot + GAP, middle + FONT * 0.35, text, colours["ink"]))
        y += max(ROW_HEIGHT, len(lines) * FONT * 1.1 + 6)
    for index, tick in enumerate(chart.ticks):
        x = left + plot * index / max(len(chart.ticks) - 1, 1)
        shapes.insert(0, Shape(f"M{x:g} {top:g}V{y:g}", stroke=colours["line"]))
        texts.append(Label(x, top - 5, tick, colours["ink-2"], "middle"))
    return y


def _heat(chart: HeatMap, y: float, shapes: list[Shape], texts: list[Label]) -> float:
    colours = palette()
    label_width = max(
        (text_width(line) for label, _cells in chart.rows for line in wrap(label, MAX_LABEL_WIDTH)), default=0.0
    )
    left = MARGIN + min(label_width, MAX_LABEL_WIDTH) + GAP
    width = (WIDTH - MARGIN - left) / max(len(chart.columns), 1)
    headings = [wrap(column, width - 6) for column in chart.columns]
    y += max((len(lines) for lines in headings), default=0) * LINE_HEIGHT
    for index, lines in enumerate(headings):
        for row, line in enumerate(reversed(lines)):
            texts.append(
                Label(left + width * (index + 0.5), y - 6 - row * LINE_HEIGHT, line, colours["ink-2"], "middle")
            )
    for label, cells in chart.rows:
        lines = wrap(label, MAX_LABEL_WIDTH)
        height = max(ROW_HEIGHT, len(lines) * FONT * 1.1 + 8)
        middle = y + height / 2
        for index, line in enumerate(lines):
            lift = (index - (len(lines) - 1) / 2) * FONT * 1.1
            texts.append(Label(left - GAP, middle + lift + FONT * 0.35, line, colours["ink"], "end"))
        for index, cell in enumerate(cells):
            ink = colours["ink-2"]
            if cell.step is not None:
                shapes.append(Shape(_box(left + width * index, y, width - 1, height - 1), colours[f"heat-{cell.step}"]))
                ink = colours["heat-ink-low" if cell.step < HEAT_STEPS / 2 else "heat-ink-high"]
            texts.append(Label(left + width * (index + 0.5), middle + FONT * 0.35, cell.text or "–", ink, "middle"))
        y += height
    return y


def _flow(chart: FlowChart, y: float, shapes: list[Shape], texts: list[Label]) -> float:
    colours, dx = palette(), (WIDTH - chart.width) / 2
    y += LINE_HEIGHT
    for head, node, anchor in zip(chart.heads, (chart.nodes[0], chart.nodes[-1]), ("start", "end"), strict=True):
        x = node.x + (chart.column if anchor == "end" else 0)
        texts.append(Label(x + dx, y + 8, head, colours["ink-2"], anchor))
    for band in chart.bands:
        fill = colours[_FLOW_COLOURS.get(band.stream.kind, "line")]
        shapes.append(Shape(band.path, fill=fill, opacity=_FLOW_OPACITY, x=dx, y=y))
    for node in chart.nodes:
        shapes.append(Shape(_box(node.x, node.y, chart.column, node.height), fill=colours["ink"], x=dx, y=y))
        texts.append(
            Label(node.text_x + dx, node.text_y + y, f"{node.label} {node.count}", colours["ink"], node.anchor)
        )
    y += chart.height + GAP
    for stream in chart.streams:
        fill = colours[_FLOW_COLOURS.get(stream.kind, "line")]
        shapes.append(Shape(_box(MARGIN, y, 12, 12), fill=fill, opacity=_FLOW_OPACITY))
        texts.append(Label(MARGIN + 20, y + 11, f"{stream.label}: {stream.count}", colours["ink"]))
        y += LINE_HEIGHT
    return y


_FLOW_COLOURS, _FLOW_OPACITY = {"fixed": "added", "broken": "removed"}, 0.55  # as in charts.css


def _radar(chart: RadarChart, y: float, shapes: list[Shape], texts: list[Label]) -> float:
    colours = palette()
    y = _legend(chart.legend, y, shapes, texts, lines=True)
    dx = (WIDTH - chart.width) / 2
    cx, cy = chart.cx + dx, chart.cy + y
    for ring in chart.rings:
        r = ring.radius
        circle = f"M{cx - r:g} {cy:g}a{r:g} {r:g} 0 1 0 {2 * r:g} 0a{r:g} {r:g} 0 1 0 {-2 * r:g} 0"
        shapes.append(Shape(circle, stroke=colours["line"]))
    for axis in chart.axes:
        shapes.append(Shape(f"M{cx:g} {cy:g}L{axis.x + dx:g} {axis.y + y:g}", stroke=colours["line"]))
        for index, line in enumerate(axis.lines):
            texts.append(
                Label(axis.text_x + dx, axis.text_y + y + index * FONT * 1.2, line, colours["ink"], axis.anchor)
            )
    for shape, entry in zip(chart.shapes, chart.legend, strict=True):
        colour = _series(entry)
        for path in shape.paths:
            shapes.append(Shape(path, stroke=colour, width=2, dash=shape.dash, x=dx, y=y))
            if shape.closed:
                shapes.append(Shape(path, fill=colour, opacity=0.05, x=dx, y=y))
        shapes += [
            Shape(shape.marker, fill=colour, stroke=colours["surface"], x=point.x + dx, y=point.y + y)
            for point in shape.points
        ]
    texts += [Label(chart.tick_x + dx, ring.text_y + y, ring.text, colours["ink-2"]) for ring in chart.rings]
    return y + chart.height


STAGE_WIDTH, SIDE_X = 270.0, 330.0  # of the column of stages; where the boxes beside it begin


def _stages(chart: StageChart, y: float, shapes: list[Shape], texts: list[Label]) -> float:
    colours = palette()
    side_width = WIDTH - MARGIN - SIDE_X
    middle = MARGIN + STAGE_WIDTH / 2
    for index, box in enumerate(chart.boxes):
        last = index == len(chart.boxes) - 1
        added = [line for label, n in box.gained for line in wrap(f"+ {n} {label}", STAGE_WIDTH - 2 * GAP)]
        main = [*wrap(f"{box.label}: {box.count}", STAGE_WIDTH - 2 * GAP), *added]
        side = [line for label, n in box.lost for line in wrap(f"{n} {label}", side_width - 2 * GAP)]
        height = len(main) * LINE_HEIGHT + GAP
        side_height = len(side) * LINE_HEIGHT + GAP if side else 0.0
        shapes.append(Shape(_box(MARGIN, y, STAGE_WIDTH, height), fill=colours["surface"], stroke=colours["ink-2"]))
        for row, line in enumerate(main):
            at = y + GAP / 2 + FONT + row * LINE_HEIGHT
            texts.append(Label(MARGIN + GAP, at, line, colours["ink"], bold=row < len(main) - len(added)))
        y += height
        if last:
            break
        step = max(side_height + 2 * GAP, 2 * LINE_HEIGHT)
        if side:
            top = y + (step - side_height) / 2
            shapes.append(Shape(f"M{middle:g} {y + step / 2:g}H{SIDE_X:g}", stroke=colours["ink-2"]))
            shapes.append(Shape(_box(SIDE_X, top, side_width, side_height), fill="none", stroke=colours["line"]))
            texts += [
                Label(SIDE_X + GAP, top + GAP / 2 + FONT + row * LINE_HEIGHT, line, colours["ink"])
                for row, line in enumerate(side)
            ]
        shapes.append(Shape(f"M{middle:g} {y:g}V{y + step - 6:g}", stroke=colours["ink-2"]))
        shapes.append(Shape(f"M{middle - 4:g} {y + step - 8:g}h8l-4 8Z", fill=colours["ink-2"]))
        y += step
    return y
