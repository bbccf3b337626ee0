"""Labels and marks for the pages about the quality of the reviews."""

from datetime import timedelta

from django import template
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from review.charts import interval
from review.quality.agreement import AgreementEstimate, MissingReason
from review.quality.reliability import RaterPair, Share
from review.rules import reading_time
from review.rules.case_spec import CaseSpec

register = template.Library()

PAIRS: dict[str, Promise] = {
    RaterPair.REVIEWERS: _("first and second reviewer (blind)"),
    RaterPair.ADJUDICATORS: _("both adjudicators (first votes)"),
}
UNDEFINED: dict[str, Promise] = {
    MissingReason.NOTHING: _("no pairs to compare"),
    MissingReason.ONE_CATEGORY: _("undefined: all answers were the same"),
}
NO_INTERVAL: dict[str, Promise] = {
    MissingReason.TOO_FEW: _("too few cases"),
    MissingReason.UNEVEN: _("answers too unbalanced"),
}


@register.filter
def pair_label(pair: str) -> Promise | str:
    """The label of a pair of raters."""
    return PAIRS.get(pair, pair)


@register.filter
def why_undefined(estimate: AgreementEstimate) -> Promise | str:
    """Why a figure is undefined."""
    return UNDEFINED.get(str(estimate.why), "")


@register.filter
def why_no_interval(estimate: AgreementEstimate) -> Promise | str:
    """Why a figure has no interval."""
    return NO_INTERVAL.get(str(estimate.why), "")


@register.inclusion_tag("review/charts/mark.html")
def interval_mark(estimate: AgreementEstimate) -> dict[str, object]:
    """`{% interval_mark line.agreement.kappa %}`: a dot with a whisker on a scale from 0 to 1."""
    return {"mark": interval.mark(estimate)}


@register.filter
def percent(share: Share) -> float | None:
    """A share as a percentage (0 to 100); None if the whole is 0."""
    if share.value is None:
        return None
    return 100 * share.value


@register.filter
def hours(spent: timedelta) -> str:
    """A duration as hours and minutes, such as `3:05`."""
    minutes = round(spent.total_seconds() / 60)
    return f"{minutes // 60}:{minutes % 60:02}"


@register.filter
def allowance(spec: CaseSpec) -> int:
    """Seconds without input after which a reader of this case counts as away."""
    return reading_time.allowance(spec.blocks)


@register.simple_tag
def server_milliseconds() -> int:
    """Milliseconds since 1970 by the server's clock, as the reader's may be wrong."""
    return int(timezone.now().timestamp() * 1000)
