"""Template filters for the numbers of a report, in the unit of their rate."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import template
from django.utils.translation import gettext

from evaluation.labels import cluster_label
from evaluation.metrics import MeasuredRate
from evaluation.numbers.comparing import ModelComparison
from evaluation.protocol import Rate
from evaluation.reports import score_lines
from evaluation.reports.comparison_lines import (
    effect_size,
    format_difference,
    format_interval,
    format_p,
    format_shares,
    kind_label,
    reach_of,
    rule_label,
    scale_of,
)
from review.charts.interval import Mark, difference_mark
from review.charts.text_measure import format_share

register = template.Library()
register.filter("cluster_label", cluster_label)
register.filter("difference", format_difference)
register.filter("effect_size", effect_size)
register.filter("kind_label", kind_label)
register.filter("p_value", format_p)
register.filter("reach", reach_of)
register.filter("rule_label", rule_label)
register.filter("scale", scale_of)
register.filter("quartiles", score_lines.quartiles)
register.filter("score_limits", score_lines.format_interval)


@register.filter
def named(name: str, labels: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    """The label of a name in the reader's language; the name itself if it has none."""
    if name:
        return gettext(dict(labels).get(name) or name)
    return ""


@register.filter
def share_of(value: float | None, rate: Rate) -> str:
    """A value of a rate; empty for None."""
    return format_share(value, percent=rate.percent)


@register.filter
def limits(measured: Any, rate: Rate) -> str:
    """The interval of a rate; empty if there is none."""
    ends = [end for end in (measured.low, measured.high) if end is not None]
    return format_shares(ends, percent=rate.percent)


@register.filter
def bounds(measured: MeasuredRate, rate: Rate) -> str:
    """The rate with all exclusions counted for and against the model; empty if that is the same."""
    if measured.bounds is None or not measured.excluded or measured.bounds.best == measured.bounds.worst:
        return ""
    return format_shares(sorted((measured.bounds.best, measured.bounds.worst)), percent=rate.percent)


@register.filter
def difference_limits(comparison: ModelComparison, rate: Rate) -> str:
    """The interval of a difference; empty if there is none."""
    return format_interval(comparison.low, comparison.high, rate)


@register.filter
def mark(comparison: ModelComparison, reach: float) -> Mark | None:
    """The row of a difference in a forest plot."""
    return difference_mark(comparison.difference, comparison.low, comparison.high, reach=reach)
