"""Filters for the figures of judges."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.translation import gettext

from review.charts.text_measure import format_share

register = template.Library()


@register.filter
def share(value: float | None) -> str:
    """A share as a percentage; a dash where there is none."""
    return format_share(value, percent=True) or "–"


@register.filter
def figure(value: float | None) -> str:
    """A figure with three decimals; a dash where there is none."""
    return format_share(value, percent=False) or "–"


@register.filter
def points(value: float) -> str:
    """A difference of two rates in percentage points."""
    return gettext("%(n)s percentage points") % {"n": f"{100 * value:+.1f}"}


@register.filter
def value(found: Mapping[str, Any], unit: str) -> str:
    """A figure without its interval; a dash where there is none."""
    return format_share(found["value"], percent=unit == "%") or "–"


@register.filter
def interval(found: Mapping[str, Any], unit: str) -> str:
    """The interval of a figure; empty where there is none."""
    if found["value"] is None or found["low"] is None:
        return ""
    return "–".join(format_share(found[end], percent=unit == "%") for end in ("low", "high"))


@register.filter
def total_variance(model: Mapping[str, Any]) -> float:
    """The variance of one judgment of one answer to one sample."""
    return sum(model[part] or 0.0 for part in ("sample", "answer", "judge"))


@register.filter
def parts(model: Mapping[str, Any]) -> list[float | None]:
    """The parts of the variance as shares of the whole: sample, answer, judge."""
    whole = total_variance(model)
    return [None if model[part] is None or not whole else model[part] / whole for part in ("sample", "answer", "judge")]
