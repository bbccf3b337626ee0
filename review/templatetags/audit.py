"""Words for what was done to accounts and the site."""

from collections.abc import Iterator, Mapping
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from review.audit.chain_entries import NOT_OURS
from review.models import PersonEvent

register = template.Library()

VERBS = {
    "added": gettext_lazy("added"),
    "changed": gettext_lazy("changed"),
    "paused": gettext_lazy("paused"),
    "resumed": gettext_lazy("resumed"),
    "cancelled": gettext_lazy("cancelled"),
    "retried": gettext_lazy("next version retried"),
    "drawn again": gettext_lazy("discarded sample drawn again"),
    "budget": gettext_lazy("budget changed"),
    "pace": gettext_lazy("priority or worker processes changed"),
    "left-out": gettext_lazy("model left out"),
    "added-again": gettext_lazy("model added again"),
    "started": gettext_lazy("started"),
    "launched": gettext_lazy("launched"),
    "reported": gettext_lazy("reported"),
    "withdrawn": gettext_lazy("withdrawn"),
    "dismissed": gettext_lazy("kept"),
    "created": gettext_lazy("created"),
    "revoked": gettext_lazy("revoked"),
}
NAMING = ("what", "name", "changes", "before", "after", "digest", "anchor")


@register.filter
def details(event: PersonEvent) -> SafeString:
    """What was done, what changed from which value to which, and what else is known."""
    try:
        parts = list(_parts(event.data))
    except NOT_OURS:
        parts = [str(event.data)]
    return format_html_join(" · ", "{}", ((part,) for part in parts))


def _parts(data: Mapping[str, Any]) -> Iterator[SafeString | str]:
    if data.get("what") in VERBS:
        yield str(VERBS[data["what"]])
    changed = data.get("changes")
    if changed is None and isinstance(data.get("before"), dict) and isinstance(data.get("after"), dict):
        changed = {name: (data["before"].get(name), value) for name, value in data["after"].items()}
    for name, (before, after) in (changed or {}).items():
        yield format_html(
            "{}: <del>{}</del> <ins>{}</ins>", name, before or gettext("nothing"), after or gettext("nothing")
        )
    for name, value in data.items():
        if name not in NAMING and not isinstance(value, dict | list):
            yield f"{name}: {value}"
