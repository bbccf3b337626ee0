"""Template filters and tags: badges of states, labels, money, durations."""

from datetime import timedelta
from decimal import Decimal

from django import template
from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import gettext

from generation.jobs.endpoint_choices import error_words
from generation.llm.errors import in_words
from generation.models import Job
from generation.recipes import registry
from generation.recipes.registry import module
from generation.releases.freezing.composition import EXCLUSIONS
from generation.sources import oddities, record_kinds, translated_reasons
from generation.trials import findings
from review.common.text_tables import markdown_cell

register = template.Library()

_BADGES = {
    "done": "finished",
    "dropped": "cancelled",
    "in-review": "primary",
    "regenerating": "running",
    "discarded": "rejected",
    "stopped": "paused",
    "let-through": "finished",
    "prepared": "queued",
    "submitted": "running",
    "collected": "finished",
}


@register.filter
def reason(text: str) -> str:
    """Why a draft was dropped; translated if the recipe has marked the sentence for translation."""
    if text:
        return gettext(text)
    return ""


@register.filter
def import_reason(text: str) -> str:
    """What an importer says of a record or where the record is, in the reader's language."""
    return translated_reasons.translated(text)


@register.filter
def oddity_label(kind: str) -> str:
    """What is odd in an imported file (`sources.oddities`)."""
    return str(oddities.LABELS.get(kind, kind))


register.filter("error_words", error_words)
register.filter("record_kind", record_kinds.kind_label)


@register.filter
def pause_reason(job: Job) -> str:
    """Why a job paused automatically: the translated error, then the endpoint's detail."""
    known = not job.paused_detail or job.paused_detail.startswith(in_words(job.paused_because))
    if known:
        return error_words(job.paused_because, job.paused_detail)
    return job.paused_detail


@register.filter
def finding_words(code: str) -> str:
    """What a try of a model showed, in a sentence."""
    return findings.TrialFinding(code).words


@register.filter
def sign(status: str) -> str:
    """The state whose badge is shown for `status`."""
    return _BADGES.get(status, status)


register.filter("cell", markdown_cell)


@register.filter
def figure(value: float | None, interval: list[float] | None) -> str:
    """Format an agreement statistic with its interval."""
    if value is None:
        return "not defined"
    return f"{value:.2f}" + (f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else "")


@register.filter
def exclusion(reason: str) -> str:
    """Why a sample is excluded from a release, in words."""
    return gettext(EXCLUSIONS.get(reason, reason))


@register.filter
def money(amount: Decimal) -> str:
    """Format an amount of money with two decimals, a smaller one with two digits that are not 0."""
    decimals = 2
    if amount:
        decimals = max(2, 1 - Decimal(amount).adjusted())
    return number_format(amount, decimals, force_grouping=True)


@register.filter
def priced(amount: Decimal) -> str:
    """Format an amount with its currency, if the site has one."""
    return f"{money(amount)} {settings.MHB_CURRENCY}".rstrip()


@register.simple_tag
def currency() -> str:
    """Return the currency of all costs; empty if the site names none."""
    return settings.MHB_CURRENCY


@register.filter
def duration(seconds: float | None) -> str:
    """Format a number of seconds as `span` does; a dash if unknown."""
    if seconds is None:
        return "–"
    return span(timedelta(seconds=seconds))


@register.filter
def span(length: timedelta) -> str:
    """Format a duration in its two largest units: "2 d 4 h", "3 h 20 min", "12 min", "< 1 min"."""
    minutes = int(length.total_seconds() // 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return gettext("%(days)d d %(hours)d h") % {"days": days, "hours": hours}
    if hours:
        return gettext("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    if minutes:
        return gettext("%(minutes)d min") % {"minutes": minutes}
    return gettext("< 1 min")


@register.filter
def percent(share: float) -> str:
    """Format a share from 0 to 1 as a percentage; "< 0.1%" if it would round to zero."""
    if share >= 0.001 or not share:
        return f"{share:.1%}"
    return "< 0.1%"


@register.simple_tag
def check_label(benchmark: str, name: str) -> str:
    """The benchmark's label of a check."""
    return gettext(registry.check_label(benchmark, name))


@register.simple_tag
def role_name(benchmark: str, name: str) -> str:
    """The display name of a role in the recipe."""
    return registry.role_name(benchmark, name)


@register.simple_tag
def stopped_by(benchmark: str, detail: str) -> str:
    """Why checks stopped a draft ("identical: mhb-dialogue-000003; …"), with check labels."""
    parts = [part.partition(": ") for part in detail.split("; ")]
    return "; ".join(f"{check_label(benchmark, name)}{sep}{rest}" if sep else name for name, sep, rest in parts)


@register.simple_tag
def facet_label(benchmark: str, name: str) -> str:
    """The label of a facet, as in the benchmark's reports: `cluster` is the trap cluster."""
    view = next((view for view in module(benchmark, "protocol").PROTOCOL.facets if view.name == name), None)
    return gettext(view.label if view else name)


@register.simple_tag
def facet_value(benchmark: str, name: str, value: str) -> str:
    """The label of a facet's value, or the value itself if the benchmark has no label."""
    view = next((view for view in module(benchmark, "protocol").PROTOCOL.facets if view.name == name), None)
    label = None
    if view:
        label = dict(view.values).get(value)
    if label:
        return gettext(label)
    return value
