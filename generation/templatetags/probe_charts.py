"""Charts of what probes tell."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import template

from generation.probes.labels import probe_label as label_of
from review.charts.bars import Bar, BarChart, bars

register = template.Library()


@register.filter
def probe_label(name: str) -> str:
    """What a probe is called."""
    return label_of(name)


@register.simple_tag
def probes_chart(probes: Iterable[Mapping[str, Any]], title: str = "") -> BarChart:
    """`{% probes_chart found.probes title as chart %}`: the accuracy of each probe that has one."""
    rows = [
        Bar(label_of(probe["name"]), probe["accuracy"], probe["low"], probe["high"], percent=False)
        for probe in probes
        if probe["accuracy"] is not None
    ]
    return bars(rows, name="probes", title=title)
