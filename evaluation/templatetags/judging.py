"""Template filters for figures on judges."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import template
from django.utils.translation import gettext

from evaluation.claims.claims import BenchmarkClaim, Claims, filled
from evaluation.labels import failure_words
from evaluation.numbers.comparing import ModelComparison
from evaluation.policies import POLICIES
from evaluation.reports.comparison_lines import format_shares
from review.charts.text_measure import format_share

register = template.Library()
register.filter("failure_words", failure_words)


@register.filter
def is_below_floor(comparison: ModelComparison, claims: Claims | None) -> bool:
    """Whether a difference of models is no larger than what asking again changes."""
    return bool(claims) and claims.is_below(comparison)  # type: ignore[union-attr]


@register.filter
def dataset_label(name: str, datasets: Iterable[tuple[str, str]]) -> str:
    """The label of the data set of this name."""
    return gettext(dict(datasets).get(name, name))


@register.filter
def policy_label(name: str) -> str:
    """What people read for a fixed text."""
    if name in POLICIES:
        return gettext(POLICIES[name].label)
    return name


@register.filter
def claim_sentence(template: str, claim: BenchmarkClaim) -> str:
    """A sentence of a claim with its values, in the reader's language."""
    return filled(template, claim.values, _translated)


def _translated(words: str) -> str:
    if words:
        return gettext(policy_label(words))
    return ""


@register.filter
def share(value: float | None) -> str:
    """A share as a percentage, or a dash."""
    return format_share(value, percent=True) or "–"


@register.filter
def figure(value: float | None) -> str:
    """A figure with three decimals, or a dash."""
    return format_share(value, percent=False) or "–"


@register.filter
def points(value: float) -> str:
    """A difference of two rates in percentage points."""
    return gettext("%(n)s pp") % {"n": f"{100 * value:+.1f}"}


@register.filter
def value(figure: Mapping[str, Any], unit: str) -> str:
    """The value of a figure, or a dash."""
    return format_share(figure["value"], percent=unit == "%") or "–"


@register.filter
def interval(figure: Mapping[str, Any], unit: str) -> str:
    """The interval of a figure; empty if there is none."""
    if figure["value"] is None or figure["low"] is None:
        return ""
    return format_shares((figure["low"], figure["high"]), percent=unit == "%")


@register.filter
def difference_interval(difference: Mapping[str, Any]) -> str:
    """The interval of a difference in percentage points; empty if there is none."""
    low, high = difference["low"], difference["high"]
    if low is None:
        return ""
    return f"{100 * low:+.1f} – {100 * high:+.1f}"


@register.filter
def undecided_share(panel: Mapping[str, Any]) -> str:
    """The share of a panel's criteria that have no majority, as a percentage."""
    return format_share(panel["undecided"] / ((panel["undecided"] + panel["decided"]) or 1), percent=True)


@register.filter
def total_variance(model: Mapping[str, Any]) -> float:
    """The total variance of a judgment: between samples, answers and judgments."""
    return sum([model[part] or 0.0 for part in ("sample", "answer", "judge")])


@register.filter
def parts(model: Mapping[str, Any]) -> list[float | None]:
    """The components of the variance as shares of the total: sample, answer, judge."""
    total = total_variance(model)
    shares: list[float | None] = []
    for part in ("sample", "answer", "judge"):
        if model[part] is None or not total:
            shares.append(None)
        else:
            shares.append(model[part] / total)
    return shares
