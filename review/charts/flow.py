"""A flow chart between two states of the same items: how many stayed and how many changed."""

from dataclasses import dataclass

WIDTH, HEIGHT = 360.0, 180.0
LEFT, RIGHT, TOP = 86.0, 86.0, 22.0  # the labels are beside the columns
COLUMN, GAP = 12.0, 10.0
PLOT = HEIGHT - TOP - 6.0


@dataclass(frozen=True, slots=True)
class Stream:
    """The number of items that went from one state to another; `kind` determines its style."""

    before: int  # index of the state
    after: int
    count: int
    kind: str
    label: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A state in one of the columns: its bar, and the position of its label."""

    x: float
    y: float
    height: float
    text_x: float
    text_y: float
    anchor: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class FlowBand:
    """A stream as drawn."""

    path: str
    stream: Stream


@dataclass(frozen=True, slots=True)
class FlowChart:
    """Bands between two columns; `heads` are the titles of the columns."""

    name: str
    title: str
    heads: tuple[str, str]
    nodes: tuple[Node, ...]
    bands: tuple[FlowBand, ...]
    streams: tuple[Stream, ...]
    width: float = WIDTH
    height: float = HEIGHT
    column: float = COLUMN


def flow(
    streams: tuple[Stream, ...], states: tuple[str, ...], *, name: str, title: str, heads: tuple[str, str]
) -> FlowChart | None:
    """The chart; None without items.

    Heights are shares of the total, so that charts are comparable.
    """
    total = sum(stream.count for stream in streams)
    if not total:
        return None
    unit = (PLOT - GAP * (len(states) - 1)) / total
    nodes: list[Node] = []
    tops: tuple[list[float], list[float]] = ([], [])  # of each state, in the left and in the right column
    for side, x in ((0, LEFT), (1, WIDTH - RIGHT - COLUMN)):
        top = TOP
        for index, label in enumerate(states):
            count = sum(stream.count for stream in streams if (stream.before, stream.after)[side] == index)
            if side == 0:
                text_x = x - 6
            else:
                text_x = x + COLUMN + 6
            anchor = "start"
            if side == 0:
                anchor = "end"
            height = round(count * unit, 2)
            text_y = round(min(top + max(height / 2 + 4, 10.0), HEIGHT - 4), 2)  # also for an empty state at the bottom
            nodes.append(Node(x, round(top, 2), height, text_x, text_y, anchor, label, count))
            tops[side].append(top)
            top += height + GAP
    bands = []
    for stream in sorted(streams, key=lambda stream: (stream.before, stream.after)):
        if stream.count:
            height = stream.count * unit
            bands.append(FlowBand(_path(tops[0][stream.before], tops[1][stream.after], height), stream))
            tops[0][stream.before] += height
            tops[1][stream.after] += height
    return FlowChart(name, title, heads, tuple(nodes), tuple(bands), streams)


def _path(a: float, b: float, height: float) -> str:
    """A band of this height from `a` in the left column to `b` in the right one."""
    x0, x1 = LEFT + COLUMN, WIDTH - RIGHT - COLUMN
    middle = (x0 + x1) / 2
    return (
        f"M{x0:.1f} {a:.1f}C{middle:.1f} {a:.1f} {middle:.1f} {b:.1f} {x1:.1f} {b:.1f}"
        f"V{b + height:.1f}C{middle:.1f} {b + height:.1f} {middle:.1f} {a + height:.1f} {x0:.1f} {a + height:.1f}Z"
    )
