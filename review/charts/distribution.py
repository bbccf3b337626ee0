"""Stacked amounts."""

from collections.abc import Sequence
from dataclasses import dataclass

from review.charts.text_measure import FONT, GAP, WIDTH, label_room, shorten, value_room


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
    left = label_room([row.label for row in rows])
    texts = [str(count) for row in rows for count in (row.samples, row.rubrics)]
    plot = WIDTH - left - value_room(texts)
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
                label=shorten(row.label, left - GAP),
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
